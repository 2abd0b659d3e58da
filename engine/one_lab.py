"""Checks that no other lab uses the simulator: its nodes, cluster and vCenter belong to one lab at a time.

Runs before anything is started, because starting the simulator for another lab creates its nodes again.
"""

import argparse
import sys
from pathlib import Path

STACKS = Path(".sim/state/.pulumi/stacks/rocelab")
"""The checkpoints of the file backend that all simulator stacks share. Backups have other suffixes."""


def others(stack: str) -> list[str]:
    """Names of the other stacks that have resources."""
    return [path.stem for path in sorted(STACKS.glob("*.json")) if path.stem != stack and is_made(path.stem)]


def is_made(stack: str) -> bool:
    """Whether a stack has resources. `make preview` leaves one without."""
    path = STACKS / f"{stack}.json"
    return path.exists() and '"urn"' in path.read_text()


def _remedy(name: str) -> str:
    if Path(f"Pulumi.{name}.yaml").exists():
        return f"make destroy STACK={name}"
    # without its file nothing can be undone on the nodes, which the next lab creates again anyway
    return f"make destroy STACK={name} after restoring Pulumi.{name}.yaml, or forget all labs here with make clean"


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 if no other lab is up; otherwise prints the command that takes it down, and returns 1."""
    parser = argparse.ArgumentParser(prog="python -m engine.one_lab", description=__doc__)
    parser.add_argument("stack", metavar="STACK", help="stack to bring up")
    stack = parser.parse_args(arguments).stack
    for name in (found := others(stack)):
        sys.stderr.write(
            f"lab {name} uses the simulator, which holds one lab at a time; nothing was changed.\n"
            f"  Run {_remedy(name)}, then this command again\n"
        )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

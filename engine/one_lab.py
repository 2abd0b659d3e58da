"""Whether the simulator is free for a lab: its nodes, its cluster and its vCenter are one lab's at a time.

Asked before anything is started, since a simulator that is started for another lab makes its nodes anew.
"""

import argparse
import sys
from pathlib import Path

STACKS = Path(".sim/state/.pulumi/stacks/rocelab")
"""The checkpoints of the file backend that all stacks of the simulator share; its copies end otherwise."""


def others(stack: str) -> list[str]:
    """The other stacks that have resources, by name; known as `made` in the Makefile knows it."""
    return [path.stem for path in sorted(STACKS.glob("*.json")) if path.stem != stack and '"urn"' in path.read_text()]


def _remedy(name: str) -> str:
    if Path(f"Pulumi.{name}.yaml").exists():
        return f"make destroy STACK={name}"
    # without its file nothing can be undone on the nodes, which are made anew for the next lab anyway
    return f"put Pulumi.{name}.yaml back and make destroy STACK={name}, or forget all labs here: make clean"


def main(arguments: list[str] | None = None) -> int:
    """0 when no other lab is up; 1, with the command that takes it down, otherwise."""
    parser = argparse.ArgumentParser(prog="python -m engine.one_lab", description=__doc__)
    parser.add_argument("stack", metavar="STACK", help="stack that is to be brought up")
    stack = parser.parse_args(arguments).stack
    for name in (found := others(stack)):
        sys.stderr.write(
            f"the simulator is taken by lab {name}, and holds one lab at a time; nothing was changed.\n"
            f"  {_remedy(name)}, then this again\n"
        )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

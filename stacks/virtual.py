"""Guards the `make` commands, which act on simulator labs only."""

import argparse
import sys
from pathlib import Path

from stacks.base import LabError
from stacks.read import read_stack_file


def refusal(stack: str, on_hardware: str = "") -> str | None:
    """Why `make` refuses a stack, with the command to use instead; None when the stack is
    virtual.
    """
    try:
        lab = read_stack_file(Path(f"Pulumi.{stack}.yaml"))
    except LabError as error:
        return str(error)
    if lab.kind == "virtual":
        return None
    return (
        f"stack {stack} is of kind {lab.kind}, but make acts on virtual labs only.\n "
        f' With your own backend: eval "$(make env STACK={stack})" && '
        f"{on_hardware or f'pulumi up --stack {stack}'}"
    )


def main(arguments: list[str] | None = None) -> int:
    """0 for a virtual lab; 1, with the command to use instead, for any other."""
    parser = argparse.ArgumentParser(prog="python -m stacks.virtual", description=__doc__)
    parser.add_argument(
        "stack", metavar="STACK", help="stack whose file Pulumi.STACK.yaml describes the lab"
    )
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="command that does the same on hardware (default: pulumi up)",
    )
    options = parser.parse_args(arguments)
    text = refusal(options.stack, " ".join(options.command))
    if text:
        sys.stderr.write(f"{text}\n")
    return 1 if text else 0


if __name__ == "__main__":
    sys.exit(main())

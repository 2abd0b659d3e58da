"""The guard of the convenience commands: they act on simulator labs only."""

import sys
from pathlib import Path

from stacks.base import LabError
from stacks.read import read_stack_file


def refusal(stack: str, on_hardware: str = "") -> str | None:
    """Why a stack may not be touched by `make`, with the command that does the same there; None when it is virtual."""
    try:
        lab = read_stack_file(Path(f"Pulumi.{stack}.yaml"))
    except LabError as error:
        return str(error)
    if lab.kind == "virtual":
        return None
    return (
        f"stack {stack} is of kind {lab.kind}, and make touches virtual labs only.\n"
        f'  With your own backend: eval "$(make env STACK={stack})" && '
        f"{on_hardware or f'pulumi up --stack {stack}'}"
    )


if __name__ == "__main__":
    if text := refusal(sys.argv[1], " ".join(sys.argv[2:])):
        sys.exit(text)

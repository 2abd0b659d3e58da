"""The switches' text: `python -m components.switches [--name sw1] [--to FOLDER]`. It connects to nothing."""

import argparse
import sys
from pathlib import Path

from components.stack_cli import add_stack_options, lab_of
from components.switches.text import switch_text
from stacks.base import LabError
from stacks.lab import Lab
from stacks.switches import Switch


def main(arguments: list[str] | None = None) -> int:
    """Prints the text of one switch or all, or writes a file each."""
    parser = argparse.ArgumentParser(prog="python -m components.switches", description=__doc__)
    add_stack_options(parser)
    parser.add_argument("--name", metavar="SWITCH", help="only this switch")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="write <switch>.txt there")
    asked = parser.parse_args(arguments)
    try:
        lab = lab_of(asked)
        chosen = _chosen(lab, asked.name)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    try:
        for switch in chosen:
            text = switch_text(lab, switch)
            if asked.to is None:
                sys.stdout.write(text)
            else:
                asked.to.mkdir(parents=True, exist_ok=True)
                (asked.to / f"{switch.name}.txt").write_text(text)
                sys.stdout.write(f"{asked.to / switch.name}.txt\n")
    except OSError as error:
        sys.stderr.write(f"{error.filename} cannot be written: {error.strerror}\n")
        return 2
    return 0


def _chosen(lab: Lab, name: str | None) -> list[Switch]:
    chosen = [switch for switch in lab.switches if name in (None, switch.name)]
    if not chosen:
        names = ", ".join(switch.name for switch in lab.switches) or "none"
        raise LabError(f"switches: no {name or 'switch'} in this lab; there are: {names}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())

"""Ports of a lab: `python -m components.ports [--stack lab | --stack-file FILE] [--json] [--check]`."""

import argparse
import asyncio
import subprocess
import sys
from pathlib import Path

from components.ports.check import faults, table, tried
from components.ports.targets import probes
from components.ports.text import as_json, as_markdown
from components.ssh.credentials import login_to
from stacks.base import LabError
from stacks.lab import Lab
from stacks.read import read_stack_file


def main(arguments: list[str] | None = None) -> int:
    """Prints the matrix; with --check tries it, and returns 1 when a way is not open."""
    parser = argparse.ArgumentParser(prog="python -m components.ports", description=__doc__)
    parser.add_argument("--stack", default="lab", help="stack whose file Pulumi.<stack>.yaml describes the lab")
    parser.add_argument("--stack-file", type=Path, metavar="FILE", help="read this stack file instead")
    parser.add_argument("--json", action="store_true", help="for programs instead of people")
    parser.add_argument("--check", action="store_true", help="try each way over SSH, from where it has to be open")
    asked = parser.parse_args(arguments)
    try:
        lab = read_stack_file(asked.stack_file or Path(f"Pulumi.{asked.stack}.yaml"))
        if asked.check:
            return _check(lab, asked.stack)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(as_json(lab) if asked.json else as_markdown(lab))
    return 0


def _check(lab: Lab, stack: str) -> int:
    login = login_to(lab, Path.cwd(), lambda name: _stack_secret(stack, name))
    some, left = probes(lab)
    answers = asyncio.run(tried(some, login.endpoints, login.keys))
    sys.stdout.write(table(answers, left))
    wrong = faults(answers)
    sys.stdout.write("".join(f"FAULT {line}\n" for line in wrong))
    sys.stdout.write(f"{len(answers)} ways tried, {len(wrong)} faults, {len(left)} not checkable\n")
    return 1 if wrong else 0


def _stack_secret(stack: str, name: str) -> str | None:
    done = subprocess.run(
        ["pulumi", "config", "get", f"rocelab:{name}", "--stack", stack],  # the engine on PATH is meant
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.rstrip("\n") if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())

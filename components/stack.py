"""What commands have in common: the options that name a stack, its lab, its secrets, and the pulumi CLI."""

import argparse
import subprocess
from pathlib import Path

from stacks.base import LabError
from stacks.lab import Lab
from stacks.read import read_stack_file

UNSET = ("not found for stack", "no stack named")
"""How the pulumi CLI says that a key has no value; of any other failure it is not known whether it has one."""


class NoEngineError(LabError):
    """There is no pulumi to ask."""


def add_stack_options(parser: argparse.ArgumentParser, default: str = "lab") -> None:
    """The two options by which every command knows its lab, named as the pulumi CLI names them."""
    parser.add_argument(
        "--stack",
        default=default,
        metavar="NAME",
        help="stack whose file Pulumi.NAME.yaml describes the lab (default: %(default)s)",
    )
    parser.add_argument(
        "--config-file", type=Path, metavar="FILE", help="read another stack file, such as one of examples/"
    )


def lab_of(asked: argparse.Namespace) -> Lab:
    """The lab that the two options name.

    Raises:
        LabError: when its file cannot be read, or is refused.
    """
    file: Path | None = asked.config_file
    return read_stack_file(file or Path.cwd() / f"Pulumi.{asked.stack}.yaml")


def stack_secret(asked: argparse.Namespace, name: str) -> str | None:
    """A secret of the stack, as the engine opens it; None where it has none of that name, or was never made.

    Raises:
        LabError: when it cannot be known: no engine, a wrong passphrase, a state that cannot be reached.
    """
    words = ["config", "get", f"rocelab:{name}", "--stack", asked.stack]
    try:
        text = ask_pulumi(*words, *(["--config-file", str(asked.config_file)] if asked.config_file else []))
    except LabError as error:
        if not any(said in str(error) for said in UNSET):
            raise
        return None
    return text.rstrip("\n")


def ask_pulumi(*words: str) -> str:
    """What a pulumi command prints.

    Raises:
        NoEngineError: where pulumi is not on PATH.
        LabError: when it fails, with its last line.
    """
    command = ["pulumi", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NoEngineError('pulumi is not on PATH: eval "$(make env)"') from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise LabError(f"{' '.join(command)} failed: {said[-1] if said else f'exit {done.returncode}'}")
    return done.stdout

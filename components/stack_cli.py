"""The pulumi CLI, for commands that look at a stack from outside of a run."""

import subprocess

from stacks.base import LabError


class NoEngineError(LabError):
    """There is no pulumi to ask."""


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

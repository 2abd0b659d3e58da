"""Runs programs one after the other and ends at the first that fails, with its exit code.

A step is a module of this checkout with its arguments, as after `python -m`, or any other program. All modules run in
this one process, so their common packages are imported once. `engine.environment --enter` sets the environment of a
stack for the steps after it.
"""

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from engine import python_env
from engine.places import SOURCES

BETWEEN = "--"
PACKAGES = ("components", "engine", "simulator", "stacks")
INTERRUPTED = 130
"""Exit code after Ctrl-C, as of a shell."""


def steps_of(words: Sequence[str]) -> Iterator[list[str]]:
    """The words of each step."""
    step: list[str] = []
    for word in (*words, BETWEEN):
        if word != BETWEEN:
            step.append(word)
        elif step:
            yield step
            step = []


def run(step: Sequence[str]) -> int:
    """Runs a step and returns its exit code."""
    name, *arguments = step
    if name.partition(".")[0] not in PACKAGES:
        return subprocess.run(step, check=False).returncode
    code: int = importlib.import_module(name).main(arguments)
    sys.stdout.flush()  # before the output of a program that writes to the same pipe
    return code


def main(arguments: list[str] | None = None) -> int:
    """Updates the Python environment, then runs the steps."""
    parser = argparse.ArgumentParser(
        prog="engine/steps",
        usage="engine/steps [-h] STEP [-- STEP]...",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "steps", nargs=argparse.REMAINDER, metavar="STEP", help="a module or program with its arguments"
    )
    words = parser.parse_args(arguments).steps
    try:
        if not python_env.is_current():
            # before a step imports a package that may be missing or old
            if code := subprocess.run([SOURCES / "setup", "--python-only"], check=False).returncode:
                return code
            os.execv(sys.executable, [sys.executable, "-m", "engine.steps", *words])  # noqa: S606
        return next((code for step in steps_of(words) if (code := run(step))), 0)
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

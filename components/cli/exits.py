"""The exit codes of all verbs, and how an error becomes one."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import click


class Exit(IntEnum):
    """The exit code of a verb."""

    CLEAN = 0
    FINDINGS = 1
    USAGE = 2
    UNREACHED = 4
    BUG = 70
    ENDED = 130


EXIT_CODES = {
    Exit.CLEAN: "done, and nothing is wrong",
    Exit.FINDINGS: "findings, or a failed verdict",
    Exit.USAGE: "bad input or usage; a file that is missing or refused",
    Exit.UNREACHED: "something could not be read or reached (1 wins over 4)",
    Exit.BUG: "a fault of rocelab, with its traceback",
    Exit.ENDED: "ended by a signal",
}


def exit_of(*, findings: bool, unreached: bool = False) -> Exit:
    """The exit code of a check."""
    if findings:
        return Exit.FINDINGS
    return Exit.UNREACHED if unreached else Exit.CLEAN


@contextmanager
def ended(what: str) -> Iterator[None]:
    """Prints what a signal interrupted, and exits."""
    from asyncio import CancelledError  # noqa: PLC0415  # asyncio takes longer than all of --help

    try:
        yield
    except CancelledError:
        click.echo(f"ended; {what}", err=True)
        raise click.exceptions.Exit(Exit.ENDED) from None

"""`rocelab`: all verbs, each imported only when it is called, and what their errors look like."""

import errno
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import TextIO

import click

from components.cli.exits import EXIT_CODES, Exit
from components.cli.options import examples
from stacks.base import LabError, UnreachableError

VERBS = {
    "Measure a lab": {
        "measure": "Measure a lab and print the verdict, without changing its state.",
        "report": "Show the verdict of a stack, or write it as a report.",
        "gate": "Say in one line whether jobs may start on the nodes of a lab now.",
        "judge": "Judge the log of any benchmark by what physics allows; needs no lab.",
        "history": "List a lab's last runs and what they are compared with.",
        "bitfusion": "Prove that each Bitfusion client works with each server.",
    },
    "Prepare a lab": {
        "expand": "Print a stack file with its groups of rails, nodes and switches spelled out.",
        "ports": "Print the port matrix of a lab, or check that every port is reachable.",
        "topology": "Print which nodes share their leaf switches, for schedulers.",
        "switches": "Print the configuration text of the lab's switches.",
        "ovf": "List the networks and properties of an OVA.",
        "image": "List, pin, build, push and check container images.",
        "job": "Print a benchmark job for kubectl.",
    },
    "Look at a cluster": {
        "look": "Read a cluster that exists, without changing it, and write what it is to a file.",
        "discover": "Draft a lab file of an existing cluster, with open questions and what `up` "
        "would change.",
        "plan": "Show what `pulumi up` would change on each host, without changing anything.",
        "evidence": "Collect redacted facts about hosts in one archive for an issue.",
        "audit": "Find what is wrong in a cluster: against the lab file, the peers and good "
        "practice.",
    },
    "Watch a lab": {
        "metrics": "Print alert rules, a dashboard and the verdict, for Prometheus and Grafana.",
    },
    "Review a change": {
        "review": "Print one comment for code review from `pulumi preview --json`.",
        "check": "Check a preview against three rules, for CI.",
    },
    "Prepare this machine": {
        "sudoers": "Print sudoers lines for logins that may read hosts, or build them.",
        "store": "Fetch the pinned upstream files that labs are built from.",
        "schema": "Print the JSON Schema of a stack file.",
    },
}
"""Every verb with its summary, by section of the help: `x` is `command` of components/cli/x.py."""
NAMES = tuple(name for verbs in VERBS.values() for name in verbs)
WIDTH = 110
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""What the output's disk answers; the errors of other files name them."""


class VerbGroup(click.Group):
    """A group that imports a verb only when it is called."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """All names, for completion."""
        return list(NAMES)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in NAMES:
            return None
        command: click.Command = importlib.import_module(f"components.cli.{name}").command
        return command

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Names the nearest verbs when there is none of that name."""
        if words[0] not in NAMES and not words[0].startswith("-"):
            raise click.exceptions.NoSuchCommand(words[0], possibilities=NAMES, ctx=context)
        return super().resolve_command(context, words)

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """The summaries, without importing what they are of."""
        for section, verbs in VERBS.items():
            with formatter.section(section):
                formatter.write_dl([*verbs.items()], col_max=12)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Exit codes, then the example."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), text) for code, text in EXIT_CODES.items()])
        super().format_epilog(context, formatter)


@click.group(
    cls=VerbGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
    epilog=examples("rocelab report --stack lab", "rocelab ports --help"),
)
def rocelab() -> None:
    """Inspect RDMA labs, measure them, and prepare what they need.

    `pulumi up` builds a lab; no command here changes its state.
    """


def main(words: Sequence[str] | None = None) -> int:
    """Runs a verb and returns its exit code; an error is a message on stderr."""
    try:
        result = rocelab.main(words, prog_name="rocelab", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return Exit.ENDED
    except SystemExit:
        return (
            Exit.CLEAN
        )  # Click exits like this only when the reader of a pipe, such as `head`, has closed it
    except Exception as error:  # noqa: BLE001  # Python would end with 1: a failed verdict
        return _reported(error)
    return int(result or Exit.CLEAN)


def _reported(error: Exception) -> Exit:
    """Prints an error; what is neither about the lab nor about a file has its traceback."""
    code = Exit.USAGE
    match error:
        case UnreachableError():
            message, code = str(error), Exit.UNREACHED
        case LabError():
            message = str(error)
        case ModuleNotFoundError() if error.name and error.name.startswith("pyV"):
            message = "reading this lab's vCenter needs pyVmomi: pip install 'rocelab[vsphere]'"
        case OSError() if error.filename is not None:
            message = f"{error.filename}: {error.strerror}"
        case OSError() if error.errno in UNWRITABLE:
            _discard(sys.stdout)
            message = f"the output cannot be written: {error.strerror}"
        case _:
            message, code = "".join(traceback.format_exception(error)).rstrip(), Exit.BUG
    try:
        click.echo(message, err=True)
    except OSError:  # both streams may go to one full disk
        _discard(sys.stderr)
    return code


def _discard(stream: TextIO) -> None:
    """At exit, Python would write the rest of a stream, fail again, and end with another code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)

"""`rocelab report`."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from components.cli.exits import Exit, exit_of
from components.cli.options import FILE, FOLDER, NEW_FILE, Verb, show, stack_options, verb
from components.report.console import print_verdict
from components.report.formats import FORMATS, write
from components.stack import Stack
from components.validation.stale import after_up
from components.validation.store import gather
from components.validation.summary import closed, summary_in

INSTANT, WRITTEN = "2026-01-31T12:00:00Z", "%Y-%m-%dT%H:%M:%SZ"
"""A time as `Summary.started_at` is written, and how."""
PIPED_COLUMNS = 120
"""Output into a file or another program is not wrapped."""


class Instant(click.ParamType[str]):
    """A time in the form of verdicts, so that both compare as texts."""

    name = "instant"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return datetime.strptime(value, WRITTEN).replace(tzinfo=UTC).strftime(WRITTEN)
        except ValueError:
            self.fail(f"{value} is not a time; write it like {INSTANT}", param, ctx)


def _format_options(run: Verb) -> Verb:
    for name, form in reversed(FORMATS.items()):
        if name != "json":
            run = click.option(f"--{name}", type=NEW_FILE, help=f"Write {form.is_for}.")(run)
    return run


@verb(
    "rocelab report --stack dgx",
    "rocelab report --stack dgx --folder report",
    "rocelab report --outputs saved.json --html report.html",
)
@stack_options
@click.option(
    "--outputs",
    type=FILE,
    help="Read this `pulumi stack output --json`, not the stack.",
)
@click.option("--store", type=FOLDER, help="Folder of the lab's runs, if elsewhere.")
@click.option(
    "--folder",
    type=FOLDER,
    help="Write all formats there, named after the stack.",
)
@_format_options
@click.option(
    "--after-up",
    "up",
    type=(int, Instant()),
    metavar="STATUS BEGUN",
    help=f"Exit status of the last up, and when it began ({INSTANT}): what a failed up did not "
    "measure is stale.",
)
@click.option("--json", "as_json", is_flag=True, help=f"Print {FORMATS['json'].is_for}.")
def command(
    stack: Stack,
    outputs: Path | None,
    store: Path | None,
    folder: Path | None,
    up: tuple[int, str] | None,
    as_json: bool,
    **formats: Path | None,
) -> Exit:
    """Show the verdict of a stack, or write it as a report.

    Exit code 1 means that the lab works in part or not at all, or is slower than it should be.
    """
    summary = summary_in(stack.outputs(outputs))
    if summary is None:
        text = "function: skip · performance: not rated (benchmarks are off)"
        show(text, {"verdict": None}, as_json=as_json)
        return Exit.CLEAN
    if up:
        status, begun = up
        summary = after_up(summary, begun, failed=bool(status))
    files = {name: file for name, file in formats.items() if file}
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        files |= {name: folder / f"{stack.name}.{form.end}" for name, form in FORMATS.items()}
    if files or as_json:
        material = gather(summary, root=stack.root, store=store)
        write(files, material)
        if as_json:
            click.echo(FORMATS["json"].render(material), nl=False)
    if not as_json:
        piped = None if sys.stdout.isatty() else PIPED_COLUMNS
        print_verdict(summary, Console(highlight=False, width=piped), files.values())
    return exit_of(findings=closed("enforce", summary.function, summary.performance))

"""The verdict as a short table on the terminal."""

from collections.abc import Iterable
from pathlib import Path
from textwrap import fill

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from components.finding import plain
from components.report.lines import COLUMNS, cells, headline, other_hints
from components.validation.summary import Summary

COLOUR = {
    "pass": "green",
    "partial": "yellow",
    "warn": "yellow",
    "fail": "bold red",
    "skip": "yellow",
    "error": "bold red",
    "unstable": "yellow",
    "replayed": "default",
    "not run": "default",
    "not rated": "default",
}
"""Styles of `rich`. Only a pass is green, and only broken or unknown states are red."""


def colour_of(state: str, *, stale: bool = False) -> str:
    """The style of a state; empty for any other text. A stale pass is not green."""
    if stale and state == "pass":
        state = "warn"
    return COLOUR.get(state, "")


SHOWN = ("test", "rail", "function", "performance", "median", "ratio")


def print_verdict(summary: Summary, console: Console, files: Iterable[Path] = ()) -> None:
    """Prints the table, what is wrong, both axes, and last where the files are."""
    console.print(_table(summary))
    for text in summary.reasons:
        _point(console, text)
    for finding in summary.findings:
        _point(console, f"{finding.code} {finding.where}: {finding.evidence}")
        if finding.hint:
            _point(console, finding.hint, deeper=True)
    for text in other_hints(summary):
        _point(console, text)
    console.print(_headline(summary), soft_wrap=True)
    for file in files:
        console.print(f"report: {escape(str(file))}", soft_wrap=True)


def _table(summary: Summary) -> Table:
    rows, shown = [], set[str]()
    for test in summary.tests:
        row = dict(zip(COLUMNS, cells(test, simulated=summary.simulated), strict=True))
        # beside the performance's own word the label of the number only takes room
        row["median"] = row["median"].partition(",")[0]
        rows.append(row)
        shown.update(column for column in SHOWN if row[column])
    title = f"lab {summary.lab}, run {summary.run_id}"
    table = Table(title=title, title_justify="left", show_edge=False)
    columns = [column for column in SHOWN if column in shown]
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        cells_of_row = []
        for name in columns:
            cells_of_row.append(_coloured(row[name], stale=bool(summary.stale)))
        table.add_row(*cells_of_row)
    return table


def _point(console: Console, text: str, *, deeper: bool = False) -> None:
    """A text of several lines stays in its column."""
    room = " " * (6 if deeper else 2)
    lines = fill(
        plain(text),
        console.width,
        initial_indent=room,
        subsequent_indent=room,
        break_on_hyphens=False,
    )
    console.print(Text(lines), soft_wrap=True)


def _headline(summary: Summary) -> Text:
    """Each axis in its own colour: one that passes says nothing of the other."""
    line, end = Text(plain(headline(summary))), 0
    for name, state in (
        ("function: ", summary.function),
        (" · performance: ", summary.performance),
    ):
        begin = end + len(name)
        end = begin + len(state)
        line.stylize(colour_of(state, stale=bool(summary.stale)), begin, end)
    return line


def _coloured(text: str, *, stale: bool) -> Text:
    state = next((word for word in COLOUR if text == word or text.startswith(f"{word} (")), "")
    return Text(plain(text), style=colour_of(state, stale=stale))

"""The last runs of a lab: verdicts, values, and the run that new ones are compared with."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from components.report.console import colour_of
from components.stack import NoEngineError, Stack
from components.validation.history import Entry, History, change, history_in, history_of, unproven
from components.validation.records import unit_text
from stacks.base import UnreachableError
from stacks.lab import Lab

SHOWN = 20
PIPED_COLUMNS = 160
CELL_COLUMNS = 17
"""A value with its change and the lines around it."""


def print_runs(
    console: Console, lab: Lab, entries: list[Entry], history: History, store: Path
) -> None:
    """Prints the last runs, their values, and where they come from."""
    shown = entries[-SHOWN:]
    console.print(runs(lab, shown, len(entries), history.baseline))
    if any(entry.values for entry in shown):
        console.print()
        console.print(values(shown, console.width))
    console.print(notes(lab, entries, history, store), soft_wrap=True)


def runs(lab: Lab, entries: list[Entry], known: int, baseline: Entry | None) -> Table:
    """One line a run: when, how it was judged, and which of them can be compared."""
    title = f"lab {lab.name}"
    if known > len(entries):
        title += f": {len(entries)} of {known} runs"
    shown = Table(title=title, title_justify="left", show_edge=False)
    letters = _letters(entries)
    columns = ["run", "began UTC", "took", "function", "performance"]
    if len(set(letters)) > 1:
        columns.append("config")
    for column in columns:
        shown.add_column(column, no_wrap=True)
    for entry, letter in zip(entries, letters, strict=True):
        mark = ""
        if baseline and baseline.run_id == entry.run_id:
            mark = " *"
        began, took = entry.started_at[5:16].replace("T", " "), f"{entry.duration_s:.0f} s"
        states = (_coloured(entry.function), _coloured(entry.performance))
        cells = (f"{entry.run_id}{mark}", began, took, *states, letter)
        shown.add_row(*cells[: len(columns)])
    return shown


def values(entries: list[Entry], width: int) -> Table:
    """One line per value and one column per run, as many as fit; each with its change since the
    run before.
    """
    names = list(dict.fromkeys(name for entry in entries for name in entry.values))
    titles = []
    for name in names:
        unit = next(entry.values[name].unit for entry in entries if name in entry.values)
        titles.append(f"{name.replace(' one_way', '')} [{unit_text(unit)}]")
    shown = Table(show_edge=False)
    shown.add_column("value", no_wrap=True)
    measured = [entry for entry in entries if entry.values]
    before = dict(zip((entry.run_id for entry in measured[1:]), measured, strict=False))
    columns = measured[-max(1, (width - max(map(len, titles)) - 2) // CELL_COLUMNS) :]
    for entry in columns:
        shown.add_column(entry.run_id.rpartition("-")[2], justify="right")
    for name, title in zip(names, titles, strict=True):
        shown.add_row(
            escape(title), *(_cell(entry, before.get(entry.run_id), name) for entry in columns)
        )
    return shown


def _letters(entries: list[Entry]) -> list[str]:
    """A letter for each configuration: only runs of the same one are compared."""
    known: list[dict[str, str]] = []
    for entry in entries:
        known += [] if entry.config in known else [entry.config]
    return [chr(ord("A") + known.index(entry.config)) for entry in entries]


def _cell(entry: Entry, before: Entry | None, name: str) -> str:
    value = entry.values.get(name)
    if value is None:
        return ""
    text = f"{value.median:.4g}"
    old = before.values.get(name) if before else None
    if before and old and before.config == entry.config:
        text += f" {change(value.median, old.median):+.1%}"
    return text + (f" (again {value.again:.4g})" if value.again is not None else "")


def _coloured(state: str) -> str:
    colour = colour_of(state)
    if colour:
        return f"[{colour}]{state}[/]"
    return escape(state)


def notes(lab: Lab, entries: list[Entry], history: History, store: Path) -> str:
    """Remarks on the tables, and the folder of the runs."""
    lines = ["no run has passed yet"]
    if history.baseline:
        lines = ["* is the baseline: the last run that passed"]
        if unproven(history.baseline):
            lines.append("its PVRDMA path is not proven")
    if len(set(_letters(entries[-SHOWN:]))) > 1:
        lines.append("only runs of one config are compared")
    if entries[-1].simulated:
        lines.append("simulated: the numbers say nothing about hardware")
    return f"{'; '.join(lines)}\nstore: {escape(str(store))}"


def how_to_measure(lab: Lab) -> str:
    """How to get a first run."""
    if lab.benchmarks is None or lab.benchmarks.mode == "off":
        return "set benchmarks.mode to warn or enforce"
    if lab.simulated:
        return "run make up"
    return "run pulumi up"


def history_in_state(stack: Stack, lab: Lab, store: Path) -> History:
    """The history of this lab that the stack's state keeps; that of another lab, which a file of
    its own names, is not.

    Raises:
        UnreachableError: when there is no such stack, or no engine to ask.
        LabError: when what the engine prints is no state.
    """
    try:
        measured = stack.measurement()
    except NoEngineError as error:
        raise UnreachableError(f"the store has no runs, and {error}") from None
    except UnreachableError as error:
        raise UnreachableError(
            f"no run of lab {lab.name} was found: {error}. If it was never measured, "
            f"{how_to_measure(lab)}; its store is {store}"
        ) from None
    known = history_in(measured.get("history", {})).known
    return history_of(entry for entry in known if entry.lab == lab.name)

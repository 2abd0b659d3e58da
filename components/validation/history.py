"""The last runs of a lab: verdicts, values, and the run that new ones are compared with."""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from components.validation.judging.regression import change
from components.validation.measured import store_of
from components.validation.memory import store
from components.validation.memory.history import Entry, History, history_in, history_of
from stacks.base import LabError
from stacks.lab import Lab
from stacks.read import read_stack_file

MEASUREMENT = ":Measurement::"
"""In the URN of the resource that keeps the history in the state."""
SHOWN = 20
PIPED_COLUMNS = 160
SIGN = {"pass": "green", "fail": "bold red", "warn": "yellow"}


def main(arguments: list[str] | None = None) -> int:
    """Shows the history from the store, or where that has none from the stack's state."""
    parser = argparse.ArgumentParser(prog="python -m components.validation.history", description=__doc__)
    parser.add_argument("--stack", default="lab", help="stack whose file describes the lab (default: lab)")
    parser.add_argument("--config-file", type=Path, metavar="FILE", help="its file, if not Pulumi.<stack>.yaml")
    parser.add_argument("--state", action="store_true", help="ask the stack's state, even where the store has runs")
    parser.add_argument("--json", action="store_true", help="print the runs as JSON lines")
    asked = parser.parse_args(arguments)
    try:
        lab = read_stack_file(asked.config_file or Path.cwd() / f"Pulumi.{asked.stack}.yaml")
        entries = [] if asked.state else store.read(store_of(lab, Path.cwd()), lab.name)
        history = history_in_state(asked.stack) if not entries else history_of(entries)
        entries = entries or list(history.entries)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if asked.json:
        sys.stdout.write("".join(f"{entry.model_dump_json()}\n" for entry in entries))
    elif not entries:
        sys.stdout.write(f"lab {lab.name} has not been measured yet\n")
    else:
        console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_COLUMNS)
        console.print(table(lab, entries[-SHOWN:], history.baseline))
        console.print(_sources(lab, entries, history))
    return 0


def table(lab: Lab, entries: list[Entry], baseline: Entry | None) -> Table:
    """One line a run, one column a value; each with its change against the run before it."""
    shown = Table(title=f"lab {lab.name}", title_justify="left", show_edge=False)
    names = list(dict.fromkeys(name for entry in entries for name in entry.values))
    for column in ("run", "function", "performance"):
        shown.add_column(column, no_wrap=True)
    for name in names:
        shown.add_column(_title(name, entries), justify="right")
    before: Entry | None = None
    for entry in entries:
        mark = " *" if baseline and baseline.run_id == entry.run_id else ""
        cells = [_cell(entry, before, name) for name in names]
        shown.add_row(f"{entry.run_id}{mark}", _coloured(entry.function), _coloured(entry.performance), *cells)
        before = entry
    return shown


def _title(name: str, entries: Iterable[Entry]) -> str:
    unit = next(entry.values[name].unit for entry in entries if name in entry.values)
    return f"{name.replace(' one_way', '')} [{unit}]".replace("[", "\\[")


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
    return f"[{SIGN[state]}]{state}[/]" if state in SIGN else state


def _sources(lab: Lab, entries: list[Entry], history: History) -> str:
    baseline = "* is the baseline: the last run that passed" if history.baseline else "no run has passed yet"
    label = "; simulated: the numbers say nothing about hardware" if entries[-1].simulated else ""
    return f"{baseline}{label}\nstore: {store_of(lab, Path.cwd())}"


def history_in_state(stack: str) -> History:
    """The history that the stack's state keeps.

    Raises:
        LabError: when there is no such stack, or no engine to ask.
    """
    command = ["pulumi", "stack", "export", "--stack", stack]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise LabError('the store has no runs, and pulumi is not on PATH: eval "$(make env)"') from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise LabError(f"{' '.join(command)} failed: {said[-1] if said else f'exit {done.returncode}'}")
    resources = json.loads(done.stdout)["deployment"].get("resources", [])
    found = [one.get("outputs", {}).get("history") for one in resources if MEASUREMENT in one["urn"]]
    return history_in(found[0]) if found else History()


if __name__ == "__main__":
    sys.exit(main())

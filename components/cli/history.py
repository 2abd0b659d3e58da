"""`rocelab history`."""

import sys

import click
from rich.console import Console

from components.cli.options import json_option, show, stack_options, verb
from components.report.runs import PIPED_COLUMNS, history_in_state, how_to_measure, print_runs
from components.stack import Stack
from components.validation import store
from components.validation.history import history_of


@verb("rocelab history --stack dgx")
@stack_options
@click.option("--state", is_flag=True, help="Read the stack's state, even if the store has runs.")
@json_option
def command(stack: Stack, state: bool, as_json: bool) -> None:
    """List a lab's last runs: verdicts, values, and the run that new ones are compared with.

    The runs come from the lab's store; where it has none, from the stack's state.
    """
    lab = stack.lab()
    place = store.store_of(lab, stack.root)
    entries = [] if state else store.read(place, lab.name)
    if entries:
        history = history_of(entries)
    else:
        history = history_in_state(stack, lab, place)
    entries = entries or list(history.entries)
    if as_json:
        show("", [entry.model_dump(mode="json") for entry in entries], as_json=True)
    elif not entries:
        click.echo(f"lab {lab.name} has not been measured yet: {how_to_measure(lab)}")
    else:
        width = None if sys.stdout.isatty() else PIPED_COLUMNS
        console = Console(highlight=False, width=width)
        print_runs(console, lab, entries, history, place)

"""The options that verbs share, and their examples."""

import functools
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from components.cli.exits import Exit
from components.stack import Stack, project_root

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
"""A file to read."""
NEW_FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
"""A folder that may be missing."""

Verb = Callable[..., Exit]

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead."
)


def stack_options(verb: Verb) -> Verb:
    """Adds the two options of the pulumi CLI that name a lab; the verb gets its `Stack`."""

    @click.option(
        "--stack",
        "name",
        default="lab",
        show_default=True,
        metavar="NAME",
        help="Use the lab in Pulumi.NAME.yaml.",
    )
    @click.option(
        "--config-file", type=FILE, metavar="FILE", help="Use the lab in this file instead."
    )
    @functools.wraps(verb)
    def named(*given: object, name: str, config_file: Path | None, **options: object) -> Exit:
        stack = Stack(root=project_root(Path.cwd()), name=name, config_file=config_file)
        return verb(*given, stack=stack, **options)

    return named


def examples(*lines: str) -> str:
    """The end of a help text; the backspace keeps Click from joining the lines."""
    return "\n".join(
        ["\b", "Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)]
    )


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2))


def print_errors(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line, err=True)

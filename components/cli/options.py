"""The options that verbs share, and their examples."""

import functools
import json
from collections.abc import Callable
from pathlib import Path

import click

from components.cli.exits import Exit
from components.stack import Stack, project_root
from stacks.files import require_writable, write_file
from stacks.frozen import frozen

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
"""A file to read."""
NEW_FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
"""A folder that may be missing."""
FOLDER.name = "folder"

Result = Exit | None
"""None: done, and nothing can be wrong."""
Verb = Callable[..., Result]

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead."
)


def stack_options(run: Verb) -> Verb:
    """Adds the two options of the pulumi CLI that name a lab; the verb gets its `Stack`."""

    @click.option(
        "--stack",
        "name",
        default="lab",
        show_default=True,
        metavar="NAME",
        help="Use the lab in Pulumi.NAME.yaml.",
    )
    @click.option("--config-file", type=FILE, help="Use the lab in this file instead.")
    @functools.wraps(run)
    def named(*given: object, name: str, config_file: Path | None, **options: object) -> Result:
        stack = Stack(root=project_root(Path.cwd()), name=name, config_file=config_file)
        return run(*given, stack=stack, **options)

    return named


@frozen
class Output:
    """Where a verb's result goes."""

    markdown: bool
    page: Path | None
    as_json: bool

    def write(
        self,
        text: str,
        document: object,
        as_markdown: Callable[[], str],
        as_html: Callable[[], str],
    ) -> None:
        if self.page:
            write_file(self.page, as_html())
        if self.markdown:
            text = as_markdown()
        show(text, document, as_json=self.as_json)


def output_options(run: Verb) -> Verb:
    """Adds the formats of a result; the verb gets its `Output`."""

    @click.option("--markdown", is_flag=True, help="Print Markdown for an issue thread instead.")
    @click.option("--html", "page", type=NEW_FILE, help="Write one page for a browser too.")
    @json_option
    @functools.wraps(run)
    def with_output(
        *given: object, markdown: bool, page: Path | None, as_json: bool, **named: object
    ) -> Result:
        if markdown and as_json:
            raise click.UsageError("--markdown and --json both print to stdout: use only one")
        if page:
            require_writable(page)
        output = Output(markdown=markdown, page=page, as_json=as_json)
        return run(*given, output=output, **named)

    return with_output


def is_given(stack: Stack) -> bool:
    """Whether the caller has named a lab."""
    source = click.get_current_context().get_parameter_source("name")
    return bool(stack.config_file) or source is not click.core.ParameterSource.DEFAULT


def verb(*lines: str) -> Callable[[Verb], click.Command]:
    """A command with these examples at the end of its help."""
    return click.command(epilog=examples(*lines))


def examples(*lines: str) -> str:
    """The end of a help text; the backspace keeps Click from joining the lines."""
    title = "Examples:" if len(lines) > 1 else "Example:"
    return "\n".join(["\b", title, *(f"  {line}" for line in lines)])


def show(text: str, document: object, *, as_json: bool) -> None:
    """Prints a text, or the document that says the same to programs."""
    if as_json:
        text = json.dumps(document, indent=2)
    if text:
        click.echo(text.removesuffix("\n"))


def say(*lines: str) -> None:
    """Prints lines beside the output."""
    for line in lines:
        click.echo(line, err=True)

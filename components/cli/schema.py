"""`rocelab schema`."""

import click

from components.cli.options import verb
from stacks.schema import SCHEMA_FILE, stack_file_schema


@verb(f"rocelab schema > stacks/{SCHEMA_FILE.name}")
def command() -> None:
    """Print the JSON Schema of a stack file.

    With the schema, an editor completes and checks Pulumi.STACK.yaml. A change of the lab model
    needs a new stacks/lab.schema.json.
    """
    click.echo(stack_file_schema(), nl=False)

"""`rocelab expand`."""

import click

from components.cli.exits import Exit
from components.cli.options import examples, json_option, show, stack_options
from components.stack import Stack
from stacks.read import expand_text, expanded_lab


@click.command(
    epilog=examples(
        "rocelab expand --stack pod1", "git config diff.lab.textconv 'rocelab expand --config-file'"
    )
)
@stack_options
@json_option
def command(stack: Stack, as_json: bool) -> Exit:
    """Print a stack file with every group of rails, nodes and switches spelled out.

    The result describes the same lab. Compare two of them to see what a change of a group means for
    each node.
    """
    show(expand_text(stack.file), expanded_lab(stack.file), as_json=as_json)
    return Exit.CLEAN

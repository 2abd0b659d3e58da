"""`rocelab expand`."""

from components.cli.options import json_option, show, stack_options, verb
from components.stack import Stack
from stacks.read import expand_text, expanded_lab


@verb("rocelab expand --stack pod1", "git config diff.lab.textconv 'rocelab expand --config-file'")
@stack_options
@json_option
def command(stack: Stack, as_json: bool) -> None:
    """Print a stack file with every group of rails, nodes and switches spelled out.

    The result describes the same lab. Compare two of them to see what a change of a group means for
    each node.
    """
    show(expand_text(stack.file), expanded_lab(stack.file), as_json=as_json)

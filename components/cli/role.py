"""`rocelab role`."""

import sys

import click

from components.cli.exits import Exit
from components.cli.options import examples, json_option, print_json, stack_options
from components.fabric.role import ROLE, fabric_of, make, render
from components.fabric.vcenter.privileges import needs_of, privileges
from components.stack import Stack


@click.command(
    epilog=examples(
        "rocelab role --stack lab-pvrdma --as govc",
        "rocelab role --stack lab-pvrdma --create administrator@vsphere.local",
    )
)
@stack_options
@click.option(
    "--as",
    "form",
    type=click.Choice(("list", "govc", "powercli", "markdown")),
    default="list",
    show_default=True,
    help="Print only the privileges, a command that creates the role, or a table with the reasons.",
)
@click.option("--name", "role", default=ROLE, show_default=True, help="Name of the role.")
@click.option(
    "--create",
    "administrator",
    metavar="ADMIN",
    help="Log in to the vCenter as this administrator, with a password that you are asked for, and create or update "
    "the role.",
)
@json_option
def command(stack: Stack, form: str, role: str, administrator: str | None, as_json: bool) -> Exit:
    """Print the role with exactly the privileges that the lab's vCenter user needs."""
    lab = stack.lab()
    fabric = fabric_of(lab)
    needs = needs_of(lab, fabric)
    if administrator:
        password = _password(administrator)
        done = make(fabric, administrator, password, role, privileges(needs))
        click.echo(done, err=as_json, nl=False)
    if as_json:
        print_json({"name": role, "privileges": list(privileges(needs))})
    elif not administrator:
        click.echo(render(form, role, needs), nl=False)
    return Exit.CLEAN


def _password(administrator: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"password of {administrator}", hide_input=True, err=True))
    return sys.stdin.readline().strip()

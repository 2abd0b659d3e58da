"""`rocelab sudoers`."""

from pathlib import Path

import click

from components.cli.options import NEW_FILE, verb
from components.hosts.pack import packed
from components.hosts.sudoers import Grant, lines
from stacks.files import write_file


@verb(
    "rocelab sudoers read --user ops --reader rocelab-reader.pyz > rocelab.sudoers",
    "rocelab sudoers build --user ops > rocelab.sudoers",
)
@click.argument("grant", type=click.Choice(["read", "build"]))
@click.option("--user", required=True, metavar="NAME", help="Name the login on the hosts.")
@click.option("--reader", type=NEW_FILE, help="Write the program that `read` allows.")
def command(grant: Grant, user: str, reader: Path | None) -> None:
    """Print sudoers lines for reading or for building hosts.

    `read` is for look, audit, evidence and plan: it runs one program that root owns and that
    changes nothing. Install it with --reader, again for each version of rocelab. `build` is for
    `pulumi up` and is full root, because the login sends the program that runs; its lines only keep
    other commands out.
    """
    if reader:
        write_file(reader, packed())
    click.echo(lines(grant, user), nl=False)

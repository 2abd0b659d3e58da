"""`rocelab evidence`."""

import secrets
import sys
from pathlib import Path

import click

from components.cli.exits import Exit, exit_of
from components.cli.look import LookOptions, look_options, request_of
from components.cli.options import NEW_FILE, json_option, say, show, stack_options, verb
from components.inventory.evidence import Bundle, archive, gather
from components.stack import Stack
from stacks.files import require_writable, write_file
from stacks.words import plural, some

SUFFIX = ".tar.gz"
SHOWN_VALUES = 3
PLURALS = {"IPv4 address": "IPv4 addresses", "IPv6 address": "IPv6 addresses"}


@verb(
    "rocelab evidence --hosts 192.0.2.11 --user ops --known-hosts known_hosts --out "
    "cx7-debian12.tar.gz",
    "rocelab evidence --stack dgx --out cx7-debian12.tar.gz",
)
@stack_options
@look_options
@click.option(
    "--out",
    type=NEW_FILE,
    default="evidence.tar.gz",
    show_default=True,
    help="Write this archive.",
)
@click.option("--yes", is_flag=True, help="Write it without showing it first.")
@json_option
def command(stack: Stack, options: LookOptions, out: Path, yes: bool, as_json: bool) -> Exit:
    """Collect facts about hosts in one archive, without identities.

    It reads as `rocelab look` does and changes nothing. Names, addresses, serial numbers, UUIDs and
    keys become placeholders, the same one for the same value. You see what was removed and the
    result before it is written.

    One host or a pair is enough. Exit code 4 means that a host was not read.
    """
    if not (yes or sys.stdin.isatty()):
        raise click.UsageError("without a terminal you cannot review the result first: add --yes")
    require_writable(out)
    bundle = gather(request_of(options, stack), secrets.token_bytes(32), say)
    unread = {host.name: host.unread for host in bundle.unread}
    say(*(f"not read: {name}: {reason}" for name, reason in unread.items()))
    recorded = len(bundle.files) > 1
    if recorded and not yes:
        click.echo_via_pager(f"{_removed(bundle)}\n\n{bundle.text}")
        click.confirm(f"Write {out}?", abort=True)
    if recorded:
        write_file(out, archive(bundle, out.name.removesuffix(SUFFIX)), private=True)
    text, file = "", ""
    if recorded:
        file, count = str(out), plural(len(bundle.files), "file")
        text = f"{_removed(bundle)}\n{out}: {count}; review it before you send it"
    counts = {}
    for kind, values in bundle.removed.items():
        counts[kind] = len(values)
    show(text, {"file": file, "removed": counts, "unread": unread}, as_json=as_json)
    return exit_of(findings=False, unreached=bool(unread))


def _removed(bundle: Bundle) -> str:
    """What was replaced, for the person who has the originals."""
    lines = ["Replaced:"]
    for kind, values in sorted(bundle.removed.items()):
        pairs = []
        for value, placeholder in values.items():
            if "\n" not in value:
                pairs.append(f"{value} by {placeholder}")
        shown = "not shown"
        if kind != "key":
            shown = some(pairs, SHOWN_VALUES)
        lines.append(f"  {plural(len(values), kind, PLURALS.get(kind, ''))}: {shown}")
    return "\n".join(lines)

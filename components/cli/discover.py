"""`rocelab discover`."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from components.cli import look
from components.cli.exits import Exit, exit_of
from components.cli.options import FILE, FOLDER, examples, json_option, print_json

if TYPE_CHECKING:
    from components.discovery.draft import Draft
    from components.discovery.first_up import Probes

INVENTORY = "inventory.json"
OWN = ("name", "config_file", "out", "as_json")
"""What `look` asks for and `discover` answers itself."""
LOOK = [option for option in look.command.params if option.name not in OWN]


def _look_options(verb: Callable[..., Exit]) -> Callable[..., Exit]:
    """Adds the options of `look`; they come as keywords."""
    command: Callable[..., Exit] = verb
    for option in reversed(LOOK):
        command.__dict__.setdefault("__click_params__", []).append(option)
    return command


@click.command(
    epilog=examples(
        "rocelab discover --hosts 'gpu[01-64]' --user ops --known-hosts known_hosts --name pod1",
        "rocelab discover --from inventory.json --name pod1 --answers answers.yaml --force",
    )
)
@click.option("--name", required=True, metavar="NAME", help="Name the lab and its stack.")
@click.option("--from", "source", type=FILE, metavar="FILE", help="Draft from this inventory, and ask no host.")
@click.option("--answers", type=FILE, metavar="FILE", help="Read the answers to open questions from this file.")
@click.option("--out", type=FOLDER, default=".", metavar="FOLDER", help="Write the files there.  [default: here]")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@_look_options
@json_option
def command(
    name: str,
    source: Path | None,
    answers: Path | None,
    out: Path,
    force: bool,
    as_json: bool,
    **options: object,
) -> Exit:
    """Draft a lab file of a cluster that exists, without changing anything.

    Writes Pulumi.NAME.yaml, questions.md with what the evidence does not decide, and first-up.md with what the first
    `pulumi up` changes. Without --from it looks first, as `rocelab look` does.

    Exit code 1 means that questions are open, 4 that hosts were not read.
    """
    from components.discovery.draft import draft_of  # noqa: PLC0415  # the model takes longer than all else of --help
    from components.discovery.files import checked_name, names_of_files, refuse_existing, summary_of, written  # noqa: PLC0415
    from components.discovery.questions import read_answers  # noqa: PLC0415
    from components.inventory.document import load  # noqa: PLC0415

    checked_name(name)
    if (source is None) != bool(options.get("sets")):
        raise click.UsageError("name the hosts with --hosts, or an inventory of them with --from")
    own = [out / each for each in names_of_files(name)]
    refuse_existing([*own, *([] if source else [out / INVENTORY])], force=force)
    answered = read_answers(answers) if answers else None
    if source is None:
        out.mkdir(parents=True, exist_ok=True)
        _look(out / INVENTORY, options)
    key = options.get("key")
    key_file = _from_here(key) if isinstance(key, Path) else None
    known_hosts = _from_here(out / f"known_hosts.{name}")
    draft = draft_of(load(source or out / INVENTORY), name, known_hosts, answered, key_file=key_file)
    probes = _probes(draft, key) if source is None and not options.get("no_sudo") else {}
    files = written(draft, probes, out)
    if as_json:
        print_json(summary_of(draft, files))
    else:
        click.echo(draft.in_short)
        click.echo(f"wrote {', '.join(map(str, files))}")
    return exit_of(findings=bool(draft.questions), unreached=bool(draft.unread))


def _look(out: Path, options: dict[str, object]) -> None:
    with redirect_stdout(sys.stderr):
        own = {"name": "lab", "config_file": None, "out": out, "as_json": False}
        click.get_current_context().invoke(look.command, **own, **options)


def _probes(draft: "Draft", key: object) -> "Probes":
    """What the hosts of the draft answer to it."""
    from components.discovery.first_up import probe_records  # noqa: PLC0415
    from components.discovery.probing import probed  # noqa: PLC0415

    if draft.lab is None:
        return {}
    private_key = key.read_text() if isinstance(key, Path) else None
    return asyncio.run(probed(probe_records(draft.lab, draft.hosts), private_key))


def _from_here(path: Path) -> str:
    """A path as `pulumi up` in this folder finds it."""
    whole, here = path.resolve(), Path.cwd()
    return str(whole.relative_to(here) if whole.is_relative_to(here) else whole)

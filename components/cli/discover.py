"""`rocelab discover`."""

import asyncio
from pathlib import Path

import click

from components.cli.exits import Exit, exit_of
from components.cli.look import LookOptions, look_options, looked, summarize
from components.cli.options import FILE, FOLDER, json_option, show, verb
from components.discovery.draft import Draft, draft_of
from components.discovery.files import (
    checked_name,
    names_of_files,
    refuse_existing,
    summary_of,
    written,
)
from components.discovery.first_up import probe_records
from components.discovery.questions import read_answers
from components.hosts.plan import Answers, read_plans
from components.inventory.document import load

INVENTORY = "inventory.json"


@verb(
    "rocelab discover --hosts 'gpu[01-64]' --user ops --known-hosts known_hosts --name pod1",
    "rocelab discover --from inventory.json --name pod1 --answers answers.yaml --force",
)
@click.option("--name", required=True, metavar="NAME", help="Name the lab and its stack.")
@click.option(
    "--from",
    "source",
    type=FILE,
    help="Draft from this inventory, and connect to no host.",
)
@click.option(
    "--answers",
    type=FILE,
    help="Read the answers to open questions from this file.",
)
@click.option(
    "--folder",
    type=FOLDER,
    default=".",
    help="Write the files there.  [default: here]",
)
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@look_options
@json_option
def command(
    options: LookOptions,
    name: str,
    source: Path | None,
    answers: Path | None,
    folder: Path,
    force: bool,
    as_json: bool,
) -> Exit:
    """Draft a lab file of a cluster that exists, without changing anything.

    Writes Pulumi.NAME.yaml, questions.md with what the evidence does not decide, and first-up.md
    with what the first `pulumi up` changes. Without --from it runs `rocelab look` first.

    Exit code 1 means that questions are open, 4 that hosts were not read.
    """
    checked_name(name)
    if (source is None) != bool(options.sets):
        raise click.UsageError("name the hosts with --hosts, or an inventory of them with --from")
    own = [folder / file for file in names_of_files(name)]
    refuse_existing([*own, *([] if source else [folder / INVENTORY])], force=force)
    answered = read_answers(answers) if answers else None
    if source:
        inventory = load(source)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        inventory = looked(options, folder / INVENTORY)
        summarize(folder / INVENTORY, inventory, err=True)
    key_file = _from_here(options.key) if options.key else None
    draft = draft_of(
        inventory, name, _from_here(folder / f"known_hosts.{name}"), answered, key_file=key_file
    )
    probes = {} if source or options.no_sudo else _probes(draft, options.private_key)
    files = written(draft, probes, folder)
    text = f"{draft.in_short}\nwrote {', '.join(map(str, files))}"
    show(text, summary_of(draft, files), as_json=as_json)
    return exit_of(findings=bool(draft.questions), unreached=bool(draft.unread))


def _probes(draft: Draft, private_key: str | None) -> Answers:
    """What the draft's hosts report."""
    if draft.lab is None:
        return {}
    return asyncio.run(read_plans(probe_records(draft.lab, draft.hosts), private_key))


def _from_here(path: Path) -> str:
    """A path as `pulumi up` in this folder finds it."""
    whole, here = path.resolve(), Path.cwd()
    if whole.is_relative_to(here):
        whole = whole.relative_to(here)
    return str(whole)

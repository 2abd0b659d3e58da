"""`rocelab audit`."""

from datetime import UTC, datetime
from pathlib import Path

import click

from components.audit.audit import audit
from components.audit.findings import Severity
from components.audit.formats import as_html, as_markdown, as_text, document_of
from components.audit.registry import checks
from components.audit.rows import report_of
from components.audit.waivers import NONE, read_waivers
from components.cli.exits import Exit, exit_of
from components.cli.look import LookOptions, look_options, looked, out_option, say
from components.cli.options import FILE, NEW_FILE, examples, json_option, print_json, stack_options
from components.inventory.document import load
from components.stack import Stack
from stacks.files import require_writable, write_file

FAIL_ON = {severity.word: severity for severity in Severity}


@click.command(
    epilog=examples(
        "rocelab audit --from inventory.json",
        "rocelab audit --stack pod1 --since yesterday.json --fail-on medium",
        "rocelab audit --from inventory.json --html audit.html --waivers waivers.yaml",
    )
)
@click.option(
    "--from", "source", type=FILE, metavar="FILE", help="Audit this inventory of `rocelab look`."
)
@click.option(
    "--since", type=FILE, metavar="FILE", help="Compare counters with this earlier inventory."
)
@click.option(
    "--waivers",
    "waiver_file",
    type=FILE,
    metavar="FILE",
    help="Accept the faults that this YAML file lists.",
)
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    default=Severity.HIGH.word,
    show_default=True,
    help="Exit with 1 for a finding of this severity and for every worse one.",
)
@click.option(
    "--no-names",
    is_flag=True,
    help="Name no host, interface, address or reason: for public places.",
)
@click.option("--markdown", is_flag=True, help="Print one Markdown comment instead.")
@click.option(
    "--html", "page", type=NEW_FILE, metavar="FILE", help="Write one page for a browser too."
)
@json_option
@stack_options
@look_options
@out_option
def command(
    stack: Stack,
    options: LookOptions,
    source: Path | None,
    since: Path | None,
    waiver_file: Path | None,
    fail_on: str,
    no_names: bool,
    markdown: bool,
    page: Path | None,
    out: Path,
    as_json: bool,
) -> Exit:
    """Find what is wrong: against the lab file, the majority of peers, and good practice.

    Nothing is changed. Without --from it looks first, as `rocelab look` with the same options. It
    compares with a lab file if you name one, or if it looks at a lab. Exit code 4 means that a
    host, a switch or the cluster was not read.
    """
    if markdown and as_json:
        raise click.UsageError("--markdown and --json both print to stdout: use only one")
    if source and options.sets:
        raise click.UsageError("--from reads a file, --hosts reads hosts: use only one")
    is_lab = stack.config_file or _is_given("name") or not (source or options.sets)
    lab = stack.lab() if is_lab else None
    waivers = read_waivers(waiver_file, checks(), datetime.now(UTC).date()) if waiver_file else NONE
    earlier = load(since) if since else None
    if page:
        require_writable(page)
    if source:
        inventory = load(source)
    else:
        inventory = looked(options, out, stack)
        say(out, inventory, err=True)
    audited = audit(inventory, lab, earlier, waivers)
    report = report_of(audited, names=not no_names)
    if page:
        write_file(page, as_html(report))
    if as_json:
        print_json(document_of(audited, report))
    else:
        text = as_markdown(report) if markdown else as_text(report)
        click.echo(text, nl=False)
    bad = audited.worst is not None and audited.worst <= FAIL_ON[fail_on]
    return exit_of(findings=bad, unreached=bool(audited.unread))


def _is_given(option: str) -> bool:
    return (
        click.get_current_context().get_parameter_source(option)
        is not click.core.ParameterSource.DEFAULT
    )

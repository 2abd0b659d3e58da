"""`rocelab audit`."""

import functools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from components.audit.audit import audit
from components.audit.findings import Severity
from components.audit.formats import as_html, as_markdown, as_text, document_of
from components.audit.registry import checks
from components.audit.rows import report_of
from components.audit.waivers import NONE, Waivers, read_waivers
from components.cli.exits import Exit, exit_of
from components.cli.look import LookOptions, look_options, looked, out_option, summarize
from components.cli.options import (
    FILE,
    Output,
    Result,
    Verb,
    is_given,
    output_options,
    stack_options,
    verb,
)
from components.inventory.document import load
from components.inventory.model import Inventory
from components.stack import Stack
from stacks.frozen import frozen

FAIL_ON = {severity.word: severity for severity in Severity}


@frozen
class AuditOptions:
    """What an audit reads besides hosts, and when it fails: the options of `audit` and `gate`."""

    source: Path | None
    since: Path | None
    waiver_file: Path | None
    fail_on: Severity

    def earlier(self) -> Inventory | None:
        return load(self.since) if self.since else None

    def waivers(self) -> Waivers:
        if self.waiver_file is None:
            return NONE
        return read_waivers(self.waiver_file, checks(), datetime.now(UTC).date())


def audit_options(run: Verb) -> Verb:
    """Adds the options of an audit; the verb gets them as `audit_options`."""

    @click.option(
        "--from", "source", type=FILE, help="Audit this inventory of `rocelab look`, not the hosts."
    )
    @click.option(
        "--since",
        type=FILE,
        help="Compare counters with this earlier inventory.  [default of gate: its last look]",
    )
    @click.option(
        "--waivers", "waiver_file", type=FILE, help="Accept the faults that this YAML file lists."
    )
    @click.option(
        "--fail-on",
        type=click.Choice(list(FAIL_ON)),
        default=Severity.HIGH.word,
        show_default=True,
        help="Fail for a finding of this severity and for every worse one.",
    )
    @functools.wraps(run)
    def with_options(*given: object, fail_on: str, **named: Any) -> Result:
        files = {}
        for name in ("source", "since", "waiver_file"):
            files[name] = named.pop(name)
        options = AuditOptions(fail_on=FAIL_ON[fail_on], **files)
        return run(*given, audit_options=options, **named)

    return with_options


@verb(
    "rocelab audit --from inventory.json",
    "rocelab audit --stack pod1 --since yesterday.json --fail-on medium",
    "rocelab audit --from inventory.json --html audit.html --waivers waivers.yaml",
)
@audit_options
@click.option(
    "--no-names",
    is_flag=True,
    help="Name no host, interface, address or reason: for public places.",
)
@output_options
@stack_options
@look_options
@out_option
def command(
    stack: Stack,
    options: LookOptions,
    audit_options: AuditOptions,
    no_names: bool,
    output: Output,
    out: Path,
) -> Exit:
    """Find what is wrong: against the lab file, the majority of peers, and good practice.

    Nothing is changed. Without --from it reads the hosts first, as `rocelab look` with the same
    options. It compares with a lab file if you name one, or if it reads a lab. Exit code 4 means
    that a host, a switch or the cluster was not read.
    """
    source = audit_options.source
    if source and options.sets:
        raise click.UsageError("--from reads a file, --hosts reads hosts: use only one")
    is_lab = is_given(stack) or not (source or options.sets)
    lab = stack.lab() if is_lab else None
    waivers, earlier = audit_options.waivers(), audit_options.earlier()
    if source:
        inventory = load(source)
    else:
        inventory = looked(options, out, stack)
        summarize(out, inventory, err=True)
    audited = audit(inventory, lab, earlier, waivers)
    report = report_of(audited, names=not no_names)
    document = document_of(audited, report)
    output.write(as_text(report), document, lambda: as_markdown(report), lambda: as_html(report))
    bad = audited.worst is not None and audited.worst <= audit_options.fail_on
    return exit_of(findings=bad, unreached=bool(audited.unread))

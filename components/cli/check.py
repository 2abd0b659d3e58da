"""`rocelab check`."""

from pathlib import Path

import click

from components.cli.exits import Exit, exit_of
from components.cli.options import FILE, json_option, show, verb
from components.review.effects import review_of
from components.review.preview import read_preview
from components.review.rules import broken_rules


@verb(
    "pulumi preview --json --stack dgx > preview.json && rocelab check preview.json",
    "rocelab check preview.json --reviewed sn2700",
)
@click.argument("file", type=FILE)
@click.option(
    "--reviewed",
    multiple=True,
    metavar="SWITCH",
    help="A person has reviewed the switch-wide settings of this switch; may be repeated.",
)
@json_option
def command(file: Path, reviewed: tuple[str, ...], as_json: bool) -> Exit:
    """Check a preview against three rules, for CI.

    Hosts in use are interrupted only after a fresh pass; a switch with `allow_global` changes only
    after a review; every image has a digest. Exit code 4 means that hosts or switches were not
    read, and the rules hold for the rest.
    """
    preview = read_preview(file.read_text(encoding="utf-8", errors="replace"))
    review = review_of(preview)
    findings = broken_rules(preview, review, reviewed)
    lines = [f"{finding.code}: {finding}" for finding in findings]
    if not findings:
        lines.append("all rules hold" + (" for what was read" if review.unread else ""))
    rows = [finding.model_dump() for finding in findings]
    show("\n".join(lines), {"findings": rows, "unread": review.unread}, as_json=as_json)
    return exit_of(findings=bool(findings), unreached=review.unread)

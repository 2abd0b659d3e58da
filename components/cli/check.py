"""`rocelab check`."""

from pathlib import Path

import click

from components.cli.exits import Exit, exit_of
from components.cli.options import FILE, examples, json_option, print_json
from components.review.effects import review_of
from components.review.preview import read_preview
from components.review.rules import broken_rules


@click.command(
    epilog=examples(
        "pulumi preview --json --stack dgx > preview.json && rocelab check preview.json",
        "rocelab check preview.json --reviewed sn2700",
    )
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
    if as_json:
        rows = [finding.model_dump() for finding in findings]
        print_json({"findings": rows, "unread": review.unread})
    else:
        for finding in findings:
            click.echo(f"{finding.code}: {finding}")
        if not findings:
            click.echo("all rules hold" + (" for what was read" if review.unread else ""))
    return exit_of(findings=bool(findings), unreached=review.unread)

"""`rocelab review`."""

from pathlib import Path

import click

from components.cli.exits import Exit, exit_of
from components.cli.options import FILE, json_option, show, verb
from components.finding import COMMENT_LIMIT
from components.review.comment import LEAST_LIMIT, as_markdown, comment_of, document_of
from components.review.effects import Rank, review_of
from components.review.preview import read_preview

FAIL_ON = {
    "failed": Rank.FAILED,
    "replace": Rank.REPLACE,
    "reboot": Rank.REBOOT,
    "pods": Rank.PODS,
    "link": Rank.LINK,
    "member": Rank.MEMBER,
    "any": Rank.REST,
}
"""The least severe effect that counts as a finding."""


@verb(
    "rocelab review preview.json > comment.md",
    "rocelab review preview.json --fail-on reboot",
    "rocelab review preview.json --no-names --title 'this change'",
)
@click.argument("file", type=FILE)
@click.option(
    "--title",
    metavar="TEXT",
    help="Show this instead of the stack's name; it also identifies the comment in later runs.",
)
@click.option("--note", metavar="TEXT", default="", help="Add a last line, such as the commit.")
@click.option(
    "--no-names",
    is_flag=True,
    help="Name no host, interface, resource or error: for public repositories.",
)
@click.option(
    "--fail-on",
    type=click.Choice(list(FAIL_ON)),
    default="failed",
    show_default=True,
    help="Exit with 1 for this effect and for every worse one.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=LEAST_LIMIT),
    default=COMMENT_LIMIT,
    show_default=True,
    metavar="CHARACTERS",
    help="Omit the least severe effects of a longer comment.",
)
@json_option
def command(
    file: Path,
    title: str | None,
    note: str,
    no_names: bool,
    fail_on: str,
    limit: int,
    as_json: bool,
) -> Exit:
    """Print one comment for code review from `pulumi preview --json`: the worst effect first.

    Exit code 4 means that hosts or switches were not read, so that the comment is incomplete.
    """
    review = review_of(read_preview(file.read_text(encoding="utf-8", errors="replace")))
    comment = comment_of(review, title=title, note=note, names=not no_names)
    show(as_markdown(comment, limit), document_of(comment, review), as_json=as_json)
    bad = review.worst is not None and review.worst <= FAIL_ON[fail_on]
    return exit_of(findings=bad, unreached=review.unread)

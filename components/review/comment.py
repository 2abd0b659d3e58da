"""A review as one Markdown comment or one JSON document. Pure: the same preview gives the same text."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from components.report.lines import escaped
from components.review.effects import Effect, Kind, Rank, Review
from components.validation.memory.redact import redacted
from stacks.sets import folded, folded_places
from stacks.words import plural

LIMIT = 60_000
"""Characters of a comment. GitHub takes 65,536, GitLab 1,000,000."""
LEAST_LIMIT = 4_000
LONGEST_CELL = 300
"""Of a row that was shortened to fit."""
LONGEST_CHANGE = 600
"""Of any row: a host may say of itself what it likes."""
LONGEST_ERROR = 1_500
MOST_ERRORS = 10
LONGEST_TITLE = LONGEST_NOTE = 80
MOST_VALUES = 4
"""Rows of one field: with more different values they become one row."""
PUBLIC_VALUES = re.compile(
    r"(\d+|none|True|False|active|drained|absent) => (\d+|none|True|False|active|drained|absent)"
)
"""Values that name nothing, so that a public comment may have them."""
NOUNS: Mapping[Kind, tuple[str, ...]] = {
    Kind.PORT: ("switch", "switches"),
    Kind.RESOURCE: ("resource",),
    Kind.SWITCH_UNREAD: ("switch", "switches"),
    Kind.FABRIC_REPLACED: ("object",),
    Kind.FABRIC_DELETED: ("object",),
    **dict.fromkeys(
        (Kind.VM_REPLACED, Kind.VM_DELETED, Kind.VM_CREATED, Kind.VM_RESTART, Kind.VM_MAY_RESTART), ("VM",)
    ),
}
"""What is counted, where that is not a host."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommentRow:
    """The same effect on several hosts, ports or resources."""

    kind: Kind
    where: str
    change: str
    count: str
    """How many there are, where names are not said or were shortened."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comment:
    """What is said, before it is cut to a length."""

    title: str
    """Name of the stack, or what was given in its place; empty for none."""
    headline: str
    rows: tuple[CommentRow, ...]
    facts_read: tuple[str, ...]
    note: str


def comment_of(review: Review, *, title: str | None = None, note: str = "", names: bool = True) -> Comment:
    """What is said of a review.

    Args:
        review: the effects.
        title: replaces the stack's name, in the headline and in the marker that finds the comment again.
        note: a last line, such as the commit.
        names: whether hosts, interfaces, resources, values and errors are named.
    """
    said = title if title is not None else review.stack if names else ""
    return Comment(
        title=said[:LONGEST_TITLE],
        headline=_headline(review),
        rows=tuple(_rows(review.effects, names=names)),
        facts_read=review.facts_read,
        note=note[:LONGEST_NOTE],
    )


def document_of(comment: Comment, review: Review) -> dict[str, JsonValue]:
    """The whole comment as data."""
    return {
        "title": comment.title,
        "headline": comment.headline,
        "worst": review.worst.name.lower() if review.worst is not None else None,
        "unread": review.unread,
        "rows": [
            {"rank": row.kind.rank.name.lower(), "effect": row.kind.label, "where": row.where, "change": row.change}
            for row in comment.rows
        ],
    }


def as_markdown(comment: Comment, limit: int = LIMIT) -> str:
    """The comment, cut to a length: the mildest rows are shortened first, then left out; the headline stays."""
    whole = [_cells(row) for row in comment.rows]
    short = [_cells(row, LONGEST_CELL) for row in comment.rows]
    count = len(whole)

    def cut(steps: int) -> str:
        """With this many cuts: first each row shortened from the last one on, then each left out."""
        shortened, gone = min(steps, count), max(steps - count, 0)
        cells = [*whole[: count - shortened], *short[count - shortened :]][: count - gone]
        return _assembled(comment, cells, comment.rows[count - gone :])

    return cut(_first(2 * count, lambda steps: len(cut(steps)) <= limit))


def _first(most: int, fits: Callable[[int], bool]) -> int:
    """The smallest number from 0 to most that fits, by halving; most where none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def _assembled(comment: Comment, cells: Sequence[tuple[str, str]], gone: Sequence[CommentRow]) -> str:
    marker = re.sub(r"[^A-Za-z0-9._]+", "-", comment.title)
    title = f"{escaped(comment.title)}: " if comment.title else ""
    lines = [f"<!-- rocelab:review {marker or '-'} -->", f"### {title}{comment.headline}", ""]
    shown = list(zip(comment.rows, cells, strict=False))
    table = [(row.kind.label, *both) for row, both in shown if row.kind.rank < Rank.UNREAD]
    if table:
        lines += ["| Effect | Where | Change |", "|---|---|---|", *(f"| {' | '.join(cell)} |" for cell in table), ""]
    unread = [both for row, both in shown if row.kind.rank is Rank.UNREAD]
    if unread:
        lines += [
            "**Not read**, so this comment is incomplete:",
            "",
            *(f"- {where}: {what}" for where, what in unread),
            "",
        ]
    if gone:
        counts = Counter(row.kind.label for row in gone)
        left = ", ".join(f"{label} ({count})" for label, count in counts.items())
        lines += [f"**Left out, since the comment would be too long:** {plural(len(gone), 'row')}: {left}.", ""]
    rest = [both for row, both in shown if row.kind.rank is Rank.REST]
    if rest:
        lines += [f"<details><summary>{plural(len(rest), 'row')} without disruption</summary>", ""]
        lines += ["| Where | Change |", "|---|---|", *(f"| {where} | {what} |" for where, what in rest)]
        lines += ["", "</details>", ""]
    lines += _footer(comment)
    return "\n".join(lines).rstrip() + "\n"


def _footer(comment: Comment) -> list[str]:
    said = [escaped(comment.note)] if comment.note else []
    if comment.facts_read:
        first, last = comment.facts_read
        said.append(f"VFs in use as the hosts said at {first}{'' if first == last else f' to {last}'} UTC")
    return [f"<sub>{'; '.join(said)}</sub>"] if said else []


def _headline(review: Review) -> str:
    found: dict[Kind, set[tuple[str, str]]] = {}
    for one in review.effects:
        part = one.part if one.kind.rank is Rank.LINK else ""
        found.setdefault(one.kind, set()).add((one.name, part))
    said = [kind.said(len(found[kind])) for kind in Kind if kind in found and kind.rank < Rank.REST]
    if said:
        return ", ".join(said)
    return "no disruption" if review.effects else "no changes"


def _rows(effects: Iterable[Effect], *, names: bool) -> Iterator[CommentRow]:
    places = {kind: place for place, kind in enumerate(Kind)}
    errors: list[Effect] = []
    fields: dict[tuple[int, str], list[Effect]] = {}
    for one in effects:
        if one.kind is Kind.FAILED:
            errors.append(one)
        else:
            fields.setdefault((places[one.kind], one.what), []).append(one)
    yield from _errors(errors, names=names)
    for _, alike in sorted(fields.items()):
        ways: dict[tuple[str, str], list[Effect]] = {}
        for one in alike:
            ways.setdefault((one.values, one.note), []).append(one)
        if len(ways) > MOST_VALUES:
            yield _row(
                alike, f"in {len(ways)} ways, such as {min(ways)[0]}" if names else f"in {len(ways)} ways", names
            )
            continue
        for (values, note), same in sorted(ways.items()):
            said = values if names or PUBLIC_VALUES.fullmatch(values) else ""
            yield _row(same, "; ".join(filter(None, (said, note))), names)


def _errors(errors: Sequence[Effect], *, names: bool) -> Iterator[CommentRow]:
    """The first ones; all of them are in the log of the preview."""
    texts = _alike({(one.name, one.what) for one in errors})
    count = plural(len(texts), "error")
    if texts and not names:
        yield CommentRow(kind=Kind.FAILED, where="", change=f"{count}, in the log of the preview", count=count)
        return
    for name, text in texts[:MOST_ERRORS]:
        yield CommentRow(kind=Kind.FAILED, where=name, change=_cut(text, LONGEST_ERROR), count="1 error")
    if len(texts) > MOST_ERRORS:
        more = plural(len(texts) - MOST_ERRORS, "more error")
        yield CommentRow(kind=Kind.FAILED, where="", change=f"{more}, in the log of the preview", count=more)


def _alike(errors: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Errors of one resource that differ in a single word, such as the host, become one with all these words."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, text in sorted(errors):
        groups.setdefault((name, re.sub(r"\d+", "0", text)), []).append(text)
    found: list[tuple[str, str]] = []
    for (name, _), texts in groups.items():
        words = [re.split(r"(\s+)", text) for text in texts]
        places = [place for place, same in enumerate(zip(*words, strict=True)) if len(set(same)) > 1]
        if len(places) == 1:
            words[0][places[0]] = ", ".join(folded(each[places[0]] for each in words))
            found.append((name, "".join(words[0])))
        else:
            found += [(name, text) for text in texts]
    return found


def _row(same: Sequence[Effect], values: str, names: bool) -> CommentRow:
    kind, what = same[0].kind, same[0].what
    if kind.rank is Rank.UNREAD and not names:
        what = "its changes may be missing here"
    counts = [one.vfs_in_use for one in same if one.vfs_in_use is not None]
    use = [f"{plural(sum(counts), 'VF')} in use"] if counts else []
    change = redacted("; ".join(filter(None, [f"{what} {values}".strip(), *use])))
    count = _counted(kind, same)
    where = folded_places((one.name, one.part) for one in same) if names or kind is Kind.HOSTS_UNREAD else count
    return CommentRow(kind=kind, where=where, change=_cut(change, LONGEST_CHANGE), count=count)


def _counted(kind: Kind, same: Sequence[Effect]) -> str:
    hosts = plural(len({one.name for one in same}), *NOUNS.get(kind, ("host",)))
    parts = len({(one.name, one.part) for one in same if one.part})
    return f"{plural(parts, 'port')} of {hosts}" if parts else hosts


def _cells(row: CommentRow, longest: int = 0) -> tuple[str, str]:
    """Where and what, as a table takes them."""
    where, change = row.where, row.change
    if longest:
        where = f"{_cut(where, longest)} ({row.count})" if len(where) > longest else where
        change = _cut(change, longest)
    return escaped(where), "<br>".join(map(escaped, change.splitlines()))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}\N{HORIZONTAL ELLIPSIS}"

"""A review as a Markdown comment or a JSON document. Pure: equal previews give equal texts."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import JsonValue

from components.finding import (
    COMMENT_LIMIT,
    Finding,
    comment_head,
    cut,
    details,
    escaped,
    fitted,
    table,
)
from components.review.effects import Effect, Kind, Rank, Review
from components.validation.redact import redacted
from stacks.frozen import frozen
from stacks.sets import folded, folded_places
from stacks.words import plural

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
        (Kind.VM_REPLACED, Kind.VM_DELETED, Kind.VM_CREATED, Kind.VM_RESTART, Kind.VM_MAY_RESTART),
        ("VM",),
    ),
}
"""What is counted, where that is not a host."""


class CommentRow(Finding):
    """The same effect on several hosts, ports or resources. Its evidence is the change."""

    kind: Kind
    count: str
    """How many there are, where names are not said or were shortened."""


@frozen
class Comment:
    """What is shown, before it is cut to a length."""

    title: str
    """Name of the stack, or what was given in its place; empty for none."""
    headline: str
    rows: tuple[CommentRow, ...]
    facts_read: tuple[str, ...]
    note: str


def comment_of(
    review: Review, *, title: str | None = None, note: str = "", names: bool = True
) -> Comment:
    """What is shown of a review.

    Args:
        review: the effects.
        title: replaces the stack's name, in the headline and in the marker that finds the comment
            again.
        note: a last line, such as the commit.
        names: whether hosts, interfaces, resources, values and errors are named.
    """
    if title is None:
        title = review.stack if names else ""
    return Comment(
        title=title[:LONGEST_TITLE],
        headline=_headline(review),
        rows=tuple(_rows(review.effects, names=names)),
        facts_read=review.facts_read,
        note=note[:LONGEST_NOTE],
    )


def document_of(comment: Comment, review: Review) -> dict[str, JsonValue]:
    """The whole comment as data."""
    rows: list[JsonValue] = []
    for row in comment.rows:
        rank = row.kind.rank.name.lower()
        rows.append(
            {"rank": rank, "effect": row.kind.label, "where": row.where, "change": row.evidence}
        )
    return {
        "title": comment.title,
        "headline": comment.headline,
        "worst": review.worst.name.lower() if review.worst is not None else None,
        "unread": review.unread,
        "rows": rows,
    }


def as_markdown(comment: Comment, limit: int = COMMENT_LIMIT) -> str:
    """The comment, cut to a length: rows are shortened, the mildest first, then left out."""
    return fitted(lambda cuts: _cut_comment(comment, cuts), 2 * len(comment.rows), limit)


def _cut_comment(comment: Comment, cuts: int) -> str:
    count = len(comment.rows)
    whole = count - min(cuts, count)
    shown = comment.rows[: min(count, 2 * count - cuts)]
    cells: dict[str, list[tuple[str, ...]]] = {"effects": [], "rest": []}
    unread = []
    for at, row in enumerate(shown):
        where, change = _cells(row, shortened=at >= whole)
        if row.kind.rank is Rank.UNREAD:
            unread.append(f"- {where}: {change}")
        elif row.kind.rank is Rank.REST:
            cells["rest"].append((where, change))
        else:
            cells["effects"].append((row.kind.label, where, change))
    lines = comment_head("review", comment.title, comment.headline)
    lines += table(("Effect", "Where", "Change"), cells["effects"])
    if unread:
        lines += ["**Not read**, so this comment is incomplete:", "", *unread, ""]
    if len(shown) < count:
        counts = Counter(row.kind.label for row in comment.rows[len(shown) :])
        labels = ", ".join(f"{label} ({number})" for label, number in counts.items())
        left_out = f"{plural(count - len(shown), 'row')}: {labels}"
        lines += [f"**Left out, since the comment would be too long:** {left_out}.", ""]
    rest = table(("Where", "Change"), cells["rest"])
    lines += details(f"{plural(len(cells['rest']), 'row')} without disruption", rest)
    lines += _footer(comment)
    return "\n".join(lines).rstrip() + "\n"


def _footer(comment: Comment) -> list[str]:
    remarks = [escaped(comment.note)] if comment.note else []
    if comment.facts_read:
        span = " to ".join(dict.fromkeys(comment.facts_read))
        remarks.append(f"VFs in use as hosts reported at {span} UTC")
    if remarks:
        return [f"<sub>{'; '.join(remarks)}</sub>"]
    return []


def _headline(review: Review) -> str:
    places: dict[Kind, set[tuple[str, str]]] = {}
    for effect in review.effects:
        part = effect.part if effect.kind.rank is Rank.LINK else ""
        places.setdefault(effect.kind, set()).add((effect.name, part))
    phrases = []
    for kind in Kind:
        if kind in places and kind.rank < Rank.REST:
            phrases.append(kind.phrase(len(places[kind])))
    if phrases:
        return ", ".join(phrases)
    return "no disruption" if review.effects else "no changes"


def _rows(effects: Iterable[Effect], *, names: bool) -> Iterator[CommentRow]:
    order = list(Kind)
    errors: list[Effect] = []
    fields: dict[tuple[int, str], list[Effect]] = {}
    for effect in effects:
        if effect.kind is Kind.FAILED:
            errors.append(effect)
        else:
            fields.setdefault((order.index(effect.kind), effect.what), []).append(effect)
    yield from _errors(errors, names=names)
    for _, alike in sorted(fields.items()):
        ways: dict[tuple[str, str], list[Effect]] = {}
        for effect in alike:
            ways.setdefault((effect.values, effect.note), []).append(effect)
        if len(ways) > MOST_VALUES:
            example = f", such as {min(ways)[0]}" if names else ""
            yield _row(alike, f"in {len(ways)} ways{example}", names)
            continue
        for (values, note), same in sorted(ways.items()):
            shown_values = ""
            if names or PUBLIC_VALUES.fullmatch(values):
                shown_values = values
            yield _row(same, "; ".join(filter(None, (shown_values, note))), names)


def _errors(errors: Sequence[Effect], *, names: bool) -> Iterator[CommentRow]:
    """The first ones; all of them are in the log of the preview."""
    texts = _alike({(error.name, error.what) for error in errors})
    count = plural(len(texts), "error")
    if texts and not names:
        yield _comment_row(Kind.FAILED, "", f"{count}, in the log of the preview", count)
        return
    for name, text in texts[:MOST_ERRORS]:
        yield _comment_row(Kind.FAILED, name, cut(text, LONGEST_ERROR), "1 error")
    if len(texts) > MOST_ERRORS:
        more = plural(len(texts) - MOST_ERRORS, "more error")
        yield _comment_row(Kind.FAILED, "", f"{more}, in the log of the preview", more)


def _alike(errors: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Errors of a resource that differ in one word, such as the host, become one error."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, text in sorted(errors):
        groups.setdefault((name, re.sub(r"\d+", "0", text)), []).append(text)
    errors_shown: list[tuple[str, str]] = []
    for (name, _), texts in groups.items():
        words = [re.split(r"(\s+)", text) for text in texts]
        columns = zip(*words, strict=True)
        places = []
        for place, column in enumerate(columns):
            if len(set(column)) > 1:
                places.append(place)
        if len(places) == 1:
            words[0][places[0]] = ", ".join(folded(sentence[places[0]] for sentence in words))
            errors_shown.append((name, "".join(words[0])))
        else:
            errors_shown += [(name, text) for text in texts]
    return errors_shown


def _row(same: Sequence[Effect], values: str, names: bool) -> CommentRow:
    kind, what = same[0].kind, same[0].what
    if kind.rank is Rank.UNREAD and not names:
        what = "its changes may be missing here"
    counts = [effect.vfs_in_use for effect in same if effect.vfs_in_use is not None]
    use = [f"{plural(sum(counts), 'VF')} in use"] if counts else []
    change = redacted("; ".join(filter(None, [f"{what} {values}".strip(), *use])))
    count = _counted(kind, same)
    where = count
    if names or kind is Kind.HOSTS_UNREAD:
        where = folded_places((effect.name, effect.part) for effect in same)
    return _comment_row(kind, where, cut(change, LONGEST_CHANGE), count)


def _comment_row(kind: Kind, where: str, change: str, count: str) -> CommentRow:
    return CommentRow(code=kind.name, kind=kind, where=where, evidence=change, count=count)


def _counted(kind: Kind, same: Sequence[Effect]) -> str:
    hosts = plural(len({effect.name for effect in same}), *NOUNS.get(kind, ("host",)))
    parts = len({(effect.name, effect.part) for effect in same if effect.part})
    if parts:
        return f"{plural(parts, 'port')} of {hosts}"
    return hosts


def _cells(row: CommentRow, *, shortened: bool) -> tuple[str, str]:
    """Where and what, as a table takes them."""
    where, change = row.where, row.evidence
    if shortened:
        if len(where) > LONGEST_CELL:
            where = f"{cut(where, LONGEST_CELL)} ({row.count})"
        change = cut(change, LONGEST_CELL)
    return escaped(where), "<br>".join(map(escaped, change.splitlines()))

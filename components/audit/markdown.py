"""An audit as one Markdown comment. What hosts say of themselves cannot act in it."""

import re
from collections.abc import Iterable, Iterator

from components.audit.findings import Severity
from components.audit.registry import PRACTICE
from components.audit.rows import Report, Row, evidence_of, looked_at
from components.report.lines import escaped
from stacks.words import plural

LIMIT = 60_000
"""Characters of a comment. GitHub takes 65,536."""
LONGEST_CELL = 300


def as_markdown(report: Report, limit: int = LIMIT) -> str:
    """The comment, cut to a length: first the details go, then the mildest findings; the headline stays."""
    text = _assembled(report, report.rows, details=True)
    shown = len(report.rows)
    while len(text) > limit and shown:
        text = _assembled(report, report.rows[:shown], details=False)
        shown -= max(1, shown // 10)
    return text


def _assembled(report: Report, rows: tuple[Row, ...], *, details: bool) -> str:
    marker = re.sub(r"[^A-Za-z0-9._]+", "-", report.title)
    title = f"{escaped(report.title)}: " if report.title else ""
    lines = [f"<!-- rocelab:audit {marker or '-'} -->", f"### {title}{report.headline}", ""]
    if rows:
        lines += ["| Severity | Fault | Where | Found | Wanted |", "|---|---|---|---|---|"]
        lines += [f"| {' | '.join(_cells(row))} |" for row in rows]
        lines.append("")
    if len(rows) < len(report.rows):
        left = plural(len(report.rows) - len(rows), "finding")
        lines += [f"**Left out, since the comment would be too long:** {left}, the mildest ones.", ""]
    lines += _listed("**Not read**, so this audit is incomplete:", (_because(*one) for one in report.unread))
    lines += _listed("**Expired waivers:**", map(escaped, report.expired))
    if details:
        lines += _details(report)
    drained = f"; left alone: {escaped(report.drained)}" if report.drained else ""
    return "\n".join([*lines, f"<sub>looked {looked_at(report)}{drained}</sub>"]) + "\n"


def _details(report: Report) -> Iterator[str]:
    if report.rows:
        yield from ("<details><summary>Reasons and remedies</summary>", "")
        for row in {row.check.code: row for row in report.rows}.values():
            source = row.check.source
            link = "from practice" if source == PRACTICE else f"[source]({source})"
            read = f" Read: {escaped(evidence_of(row))}." if row.source else ""
            yield f"- `{row.check.code}`: {escaped(row.check.why)} ({link}). Fix: {escaped(row.check.remedy)}.{read}"
        yield from ("", "</details>", "")
    if report.waived:
        yield from ("<details><summary>Waived</summary>", "")
        yield from (f"- `{row.check.code}` on {escaped(row.where)}: {escaped(row.waiver)}" for row in report.waived)
        yield from ("", "</details>", "")
    if report.not_checked:
        yield from ("<details><summary>Not checked</summary>", "")
        for codes, where, why in report.not_checked:
            yield f"- {_because(f'{codes} on {where}' if where else codes, why)}"
        yield from ("", "</details>", "")


def _cells(row: Row) -> tuple[str, ...]:
    severity = row.check.severity
    word = f"**{severity.word}**" if severity <= Severity.HIGH else severity.word
    cells = (f"{row.check.title} (`{row.check.code}`)", *map(_short, (row.where, row.found, row.wanted)))
    return word, *cells


def _short(text: str) -> str:
    cut = text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}\N{HORIZONTAL ELLIPSIS}"
    return escaped(cut)


def _listed(title: str, texts: Iterable[str]) -> list[str]:
    lines = [f"- {text}" for text in texts]
    return [title, "", *lines, ""] if lines else []


def _because(what: str, why: str) -> str:
    return escaped(f"{what}: {why}" if why else what)

"""An audit as text for the terminal and for mail, as a Markdown comment, as an HTML page, and as one JSON document."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from jinja2 import Template
from pydantic import JsonValue

from components.audit.findings import Audit, Severity
from components.audit.registry import PRACTICE
from components.audit.rows import AuditReport, AuditRow
from components.report.frame import environment
from components.report.lines import escaped, plain
from stacks.words import plural

LIMIT = 60_000
"""Characters of a comment. GitHub takes 65,536."""
LONGEST_CELL = 300
TEMPLATES = Path(__file__).parent / "templates"
CLASSES = {Severity.CRITICAL: "fail", Severity.HIGH: "fail", Severity.MEDIUM: "warn", Severity.LOW: "still"}
"""Of the page's style."""
SCHEMA = 1
"""Of the JSON document. Rises when a field changes its meaning or name."""


def as_text(report: AuditReport) -> str:
    """The whole text, the worst first."""
    return "".join(f"{plain(line)}\n" for line in _text_lines(report))


def _text_lines(report: AuditReport) -> Iterator[str]:
    yield report.heading
    yield f"looked {report.looked_at}"
    for row in report.rows:
        check = row.check
        fields = {
            "where": row.where,
            "found": row.found,
            "wanted": row.wanted,
            "read": row.evidence,
            "why": f"{check.why} (from practice)" if check.source == PRACTICE else f"{check.why} [{check.source}]",
            "fix": check.remedy,
        }
        yield from ("", f"{check.severity.name} {check.code}: {check.title}")
        yield from (f"  {name:<7} {text}" for name, text in fields.items() if text)
    sections = {
        "Waived:": [f"{row.check.code} on {row.where}: {_change(row)} ({row.waiver})" for row in report.waived],
        "Expired waivers:": report.expired,
        "Not read:": report.unread,
    }
    for title, texts in sections.items():
        if texts:
            yield from ("", title, *(f"  {text}" for text in texts))
    if report.drained:
        yield from ("", f"Left alone, since the lab file has them drained: {report.drained}")
    if report.not_checked:
        yield from ("", "Not checked:", *(f"  {missing}" for missing in report.not_checked))


def _change(row: AuditRow) -> str:
    return f"{row.found}, wanted {row.wanted}" if row.found else row.check.title


def as_markdown(report: AuditReport, limit: int = LIMIT) -> str:
    """A comment, cut to a length: first the details go, then the mildest findings; the headline stays.

    What hosts say of themselves cannot act in it.
    """
    text = _comment(report, report.rows, details=True)
    shown = len(report.rows)
    while len(text) > limit and shown:
        text = _comment(report, report.rows[:shown], details=False)
        shown -= max(1, shown // 10)
    return text


def _comment(report: AuditReport, rows: tuple[AuditRow, ...], *, details: bool) -> str:
    marker = re.sub(r"[^A-Za-z0-9._]+", "-", report.title)
    lines = [f"<!-- rocelab:audit {marker or '-'} -->", f"### {escaped(report.heading)}", ""]
    if rows:
        lines += ["| Severity | Fault | Where | Found | Wanted |", "|---|---|---|---|---|"]
        lines += [f"| {' | '.join(_cells(row))} |" for row in rows]
        lines.append("")
    if len(rows) < len(report.rows):
        left = plural(len(report.rows) - len(rows), "finding")
        lines += [f"**Left out, since the comment would be too long:** {left}, the mildest ones.", ""]
    lines += _listed("**Not read**, so this audit is incomplete:", report.unread)
    lines += _listed("**Expired waivers:**", report.expired)
    if details:
        lines += _folded("Reasons and remedies", map(_reason, {row.check.code: row for row in report.rows}.values()))
        waived = (f"- `{row.check.code}` on {escaped(row.where)}: {escaped(row.waiver)}" for row in report.waived)
        lines += _folded("Waived", waived)
        lines += _folded("Not checked", (f"- {escaped(str(missing))}" for missing in report.not_checked))
    drained = f"; left alone: {escaped(report.drained)}" if report.drained else ""
    return "\n".join([*lines, f"<sub>looked {report.looked_at}{drained}</sub>"]) + "\n"


def _cells(row: AuditRow) -> tuple[str, ...]:
    severity = row.check.severity
    word = f"**{severity.word}**" if severity <= Severity.HIGH else severity.word
    return word, f"{row.check.title} (`{row.check.code}`)", *map(_short, (row.where, row.found, row.wanted))


def _short(text: str) -> str:
    return escaped(text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}\N{HORIZONTAL ELLIPSIS}")


def _reason(row: AuditRow) -> str:
    check = row.check
    link = "from practice" if check.source == PRACTICE else f"[source]({check.source})"
    read = f" Read: {escaped(row.evidence)}." if row.source else ""
    return f"- `{check.code}`: {escaped(check.why)} ({link}). Fix: {escaped(check.remedy)}.{read}"


def _listed(title: str, entries: Iterable[object]) -> list[str]:
    lines = [f"- {escaped(str(entry))}" for entry in entries]
    return [title, "", *lines, ""] if lines else []


def _folded(title: str, lines: Iterable[str]) -> list[str]:
    """Lines that a reader opens."""
    shown = list(lines)
    return [f"<details><summary>{title}</summary>", "", *shown, "", "</details>", ""] if shown else []


def as_html(report: AuditReport) -> str:
    """One page, in the style of the report."""
    title = f"Audit of {report.title}" if report.title else "Audit"
    text = _template().render(
        title=f"{title}: {report.headline}",
        name=title,
        headline=report.headline,
        kind="",
        report=report,
        facts=(("looked", report.looked_at), ("hosts", str(report.hosts)), ("left alone", report.drained)),
        worst=CLASSES[report.rows[0].check.severity] if report.rows else "warn" if report.unread else "pass",
        classes=CLASSES,
        practice=PRACTICE,
        names=bool(report.title) or any(row.source for row in report.rows),
    )
    return str(text) + "\n"


@cache
def _template() -> Template:
    return environment(TEMPLATES).get_template("audit.html")


def document_of(audit: Audit, report: AuditReport) -> dict[str, JsonValue]:
    """The whole audit as data, for programs."""
    return {
        "schema": SCHEMA,
        "title": report.title,
        "headline": report.headline,
        "worst": audit.worst.word if audit.worst is not None else None,
        "counts": {severity.word: count for severity, count in audit.counts.items()},
        "hosts": report.hosts,
        "drained": report.drained,
        "looked": {"first": report.looked[0], "last": report.looked[1], "since": report.since},
        "findings": [_entry(row) for row in report.rows],
        "waived": [{**_entry(row), "waiver": row.waiver} for row in report.waived],
        "expired_waivers": list(report.expired),
        "not_checked": [
            {"checks": list(one.codes), "where": one.where, "reason": one.why} for one in report.not_checked
        ],
        "unread": [{"where": one.where, "reason": one.why} for one in report.unread],
    }


def _entry(row: AuditRow) -> dict[str, JsonValue]:
    return {
        "code": row.check.code,
        "group": row.check.group,
        "severity": row.check.severity.word,
        "title": row.check.title,
        "where": row.where,
        "found": row.found,
        "wanted": row.wanted,
        "evidence": {"source": row.source, "at": row.at},
        "why": row.check.why,
        "source": row.check.source,
        "remedy": row.check.remedy,
    }

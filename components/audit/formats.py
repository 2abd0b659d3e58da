"""An audit as text, as a Markdown comment, as an HTML page, and as one JSON document."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from jinja2 import Template
from pydantic import JsonValue

from components.audit.findings import Audit, Severity
from components.audit.registry import PRACTICE
from components.audit.rows import AuditReport, AuditRow
from components.finding import (
    COMMENT_LIMIT,
    bullets,
    comment_head,
    cut,
    details,
    escaped,
    fitted,
    plain,
    table,
)
from components.report.frame import environment
from stacks.words import plural

LONGEST_CELL = 300
TEMPLATES = Path(__file__).parent / "templates"
CLASSES = {
    Severity.CRITICAL: "fail",
    Severity.HIGH: "fail",
    Severity.MEDIUM: "warn",
    Severity.LOW: "still",
}
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
        fields = {
            "where": row.where,
            "found": row.evidence,
            "wanted": row.wanted_value,
            "read": row.origin,
            "why": _reason(row),
            "fix": row.hint,
        }
        yield from ("", f"{row.severity.name} {row.code}: {row.title}")
        for name, text in fields.items():
            if text:
                yield f"  {name:<7} {text}"
    waived = [f"{row.code} on {row.where}: {_change(row)} ({row.waiver})" for row in report.waived]
    yield from _section("Waived:", waived)
    yield from _section("Expired waivers:", report.expired)
    yield from _section("Not read:", report.unread)
    if report.drained:
        yield from ("", f"Not audited, since the lab file has them drained: {report.drained}")
    yield from _section("Not checked:", report.not_checked)


def _section(title: str, texts: Sequence[object]) -> Iterator[str]:
    if texts:
        yield from ("", title, *(f"  {text}" for text in texts))


def _reason(row: AuditRow) -> str:
    if row.source == PRACTICE:
        return f"{row.reason} (from practice)"
    return f"{row.reason} [{row.source}]"


def _change(row: AuditRow) -> str:
    if row.evidence:
        return f"{row.evidence}, wanted {row.wanted_value}"
    return row.title


def as_markdown(report: AuditReport, limit: int = COMMENT_LIMIT) -> str:
    """A comment, cut to a length: first the details, then the mildest findings; the headline stays.

    What hosts say of themselves cannot act in it.
    """
    return fitted(lambda cuts: _comment(report, cuts), len(report.rows) + 1, limit)


def _comment(report: AuditReport, cuts: int) -> str:
    """With this many cuts: first the details, then each finding from the last on."""
    left_out = max(cuts - 1, 0)
    rows = report.rows[: len(report.rows) - left_out]
    lines = comment_head("audit", report.title, report.headline)
    lines += table(("Severity", "Fault", "Where", "Found", "Wanted"), map(_cells, rows))
    if left_out:
        left = plural(left_out, "finding")
        lines += [
            f"**Left out, since the comment would be too long:** {left}, the least severe.",
            "",
        ]
    lines += bullets("**Not read**, so this audit is incomplete:", report.unread)
    lines += bullets("**Expired waivers:**", report.expired)
    if not cuts:
        by_code = {row.code: row for row in report.rows}
        lines += details("Reasons and remedies", map(_remedy, by_code.values()))
        lines += details("Waived", map(_waived, report.waived))
        lines += details("Not checked", (f"- {escaped(str(row))}" for row in report.not_checked))
    drained = ""
    if report.drained:
        drained = f"; left alone: {escaped(report.drained)}"
    return "\n".join([*lines, f"<sub>looked {report.looked_at}{drained}</sub>"]) + "\n"


def _cells(row: AuditRow) -> tuple[str, ...]:
    if row.severity <= Severity.HIGH:
        word = f"**{row.severity.word}**"
    else:
        word = row.severity.word
    values = (
        escaped(cut(text, LONGEST_CELL)) for text in (row.where, row.evidence, row.wanted_value)
    )
    return word, f"{row.title} (`{row.code}`)", *values


def _waived(row: AuditRow) -> str:
    return f"- `{row.code}` on {escaped(row.where)}: {escaped(row.waiver)}"


def _remedy(row: AuditRow) -> str:
    if row.source == PRACTICE:
        source = "from practice"
    else:
        source = f"[source]({row.source})"
    read = f" Read: {escaped(row.origin)}." if row.read_from else ""
    return f"- `{row.code}`: {escaped(row.reason)} ({source}). Fix: {escaped(row.hint)}.{read}"


def as_html(report: AuditReport) -> str:
    """One page, in the style of the report."""
    title = f"Audit of {report.title}" if report.title else "Audit"
    worst = "warn" if report.unread else "pass"
    if report.rows:
        worst = CLASSES[report.rows[0].severity]
    text = _template().render(
        title=f"{title}: {report.headline}",
        name=title,
        headline=report.headline,
        kind="",
        report=report,
        facts={
            "looked": report.looked_at,
            "hosts": str(report.hosts),
            "left alone": report.drained,
        },
        worst=worst,
        classes=CLASSES,
        names=bool(report.title) or any(row.read_from for row in report.rows),
    )
    return str(text) + "\n"


@cache
def _template() -> Template:
    return environment(TEMPLATES).get_template("audit.html")


def document_of(audit: Audit, report: AuditReport) -> dict[str, JsonValue]:
    """The whole audit as data, for programs."""
    not_checked: list[JsonValue] = []
    for gap in report.not_checked:
        not_checked.append({"checks": list(gap.codes), "where": gap.where, "reason": gap.why})
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
        "not_checked": not_checked,
        "unread": [{"where": gap.where, "reason": gap.why} for gap in report.unread],
    }


def _entry(row: AuditRow) -> dict[str, JsonValue]:
    return {
        "code": row.code,
        "group": row.group,
        "severity": row.severity.word,
        "title": row.title,
        "where": row.where,
        "found": row.evidence,
        "wanted": row.wanted_value,
        "evidence": {"source": row.read_from, "at": row.read_at},
        "why": row.reason,
        "source": row.source,
        "remedy": row.hint,
    }

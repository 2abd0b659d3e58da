"""An audit as plain text, for the terminal and for mail from cron."""

from collections.abc import Iterator

from components.audit.registry import PRACTICE
from components.audit.rows import Report, Row, evidence_of, looked_at
from components.report.lines import plain


def as_text(report: Report) -> str:
    """The whole text, the worst first."""
    return "".join(f"{plain(line)}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield f"{report.title}: {report.headline}" if report.title else report.headline
    yield f"looked {looked_at(report)}"
    for row in report.rows:
        yield ""
        yield f"{row.check.severity.name} {row.check.code}: {row.check.title}"
        yield from _row(row)
    if report.waived:
        yield from ("", "Waived:")
        yield from (f"  {row.check.code} on {row.where}: {_change(row)} ({row.waiver})" for row in report.waived)
    if report.expired:
        yield from ("", "Expired waivers:", *(f"  {text}" for text in report.expired))
    if report.unread:
        yield from ("", "Not read:", *(f"  {_because(where, why)}" for where, why in report.unread))
    if report.drained:
        yield from ("", f"Left alone, since the lab file says so: {report.drained}")
    if report.not_checked:
        yield from ("", "Not checked:")
        for codes, where, why in report.not_checked:
            yield f"  {_because(f'{codes} on {where}' if where else codes, why)}"


def _row(row: Row) -> Iterator[str]:
    source = " (from practice)" if row.check.source == PRACTICE else f" [{row.check.source}]"
    fields = {
        "where": row.where,
        "found": row.found,
        "wanted": row.wanted,
        "read": evidence_of(row),
        "why": f"{row.check.why}{source}",
        "fix": row.check.remedy,
    }
    yield from (f"  {name:<7} {text}" for name, text in fields.items() if text)


def _change(row: Row) -> str:
    return f"{row.found}, wanted {row.wanted}" if row.found else row.check.title


def _because(what: str, why: str) -> str:
    return f"{what}: {why}" if why else what

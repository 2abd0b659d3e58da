"""An audit as one HTML page, in the style of the report."""

from pathlib import Path

from components.audit.findings import Severity
from components.audit.registry import PRACTICE
from components.audit.rows import Report, Row, evidence_of, looked_at
from components.report.frame import environment

TEMPLATES = Path(__file__).parent / "templates"
CLASSES = {Severity.CRITICAL: "fail", Severity.HIGH: "fail", Severity.MEDIUM: "warn", Severity.LOW: "still"}


def as_html(report: Report) -> str:
    """The file's text."""
    title = f"Audit of {report.title}" if report.title else "Audit"
    page = environment(TEMPLATES, filters={"evidence": evidence_of}).get_template("audit.html")
    text = page.render(
        title=f"{title}: {report.headline}",
        name=title,
        headline=report.headline,
        kind="",
        facts=(("looked", looked_at(report)), ("hosts", str(report.hosts)), ("left alone", report.drained)),
        worst=CLASSES[report.rows[0].check.severity] if report.rows else "warn" if report.unread else "pass",
        unread=[f"{where}: {why}" if why else where for where, why in report.unread],
        expired=list(report.expired),
        findings=[(row, row.check, CLASSES[row.check.severity]) for row in report.rows],
        practice=PRACTICE,
        waived=[_waived(row) for row in report.waived],
        not_checked=[_unchecked(*one) for one in report.not_checked],
        names=bool(report.title) or any(row.source for row in report.rows),
    )
    return str(text) + "\n"


def _waived(row: Row) -> str:
    return f"{row.check.code} on {row.where}: {row.check.title}, {row.waiver}"


def _unchecked(codes: str, where: str, why: str) -> str:
    what = f"{codes} on {where}" if where else codes
    return f"{what}: {why}" if why else what

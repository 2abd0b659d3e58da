"""An audit as one JSON document, for programs."""

from pydantic import JsonValue

from components.audit.findings import Audit
from components.audit.rows import Report, Row

SCHEMA = 1
"""Rises when a field changes its meaning or name."""


def document_of(audit: Audit, report: Report) -> dict[str, JsonValue]:
    """The whole audit as data."""
    return {
        "schema": SCHEMA,
        "title": report.title,
        "headline": report.headline,
        "worst": audit.worst.word if audit.worst is not None else None,
        "counts": {severity.word: count for severity, count in audit.counts.items()},
        "hosts": report.hosts,
        "drained": report.drained,
        "looked": {"first": report.looked[0], "last": report.looked[1], "since": report.since},
        "findings": [_row(row) for row in report.rows],
        "waived": [{**_row(row), "waiver": row.waiver} for row in report.waived],
        "expired_waivers": list(report.expired),
        "not_checked": [
            {"checks": list(codes.split(", ")), "where": where, "reason": why}
            for codes, where, why in report.not_checked
        ],
        "unread": [{"where": where, "reason": why} for where, why in report.unread],
    }


def _row(row: Row) -> dict[str, JsonValue]:
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

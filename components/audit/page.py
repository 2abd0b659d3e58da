"""An audit as one HTML page, in the style of the report."""

from collections.abc import Iterable

from components.audit.findings import Severity
from components.audit.registry import PRACTICE
from components.audit.rows import Report, Row, evidence_of, looked_at
from components.report.html.frame import framed
from components.report.html.parts import bullets, section
from components.report.html.tags import Content, Html, tag

CLASSES = {Severity.CRITICAL: "fail", Severity.HIGH: "fail", Severity.MEDIUM: "warn", Severity.LOW: "still"}
COLUMNS = ("severity", "fault", "where", "found", "wanted", "fix")


def as_html(report: Report) -> str:
    """The file's text."""
    title = f"Audit of {report.title}" if report.title else "Audit"
    facts = {"looked": looked_at(report), "hosts": str(report.hosts), "left alone": report.drained}
    worst = CLASSES[report.rows[0].check.severity] if report.rows else "warn" if report.unread else "pass"
    head = tag(
        "header",
        tag("h1", title),
        tag(
            "dl", [tag("div", tag("dt", name), tag("dd", text)) for name, text in facts.items() if text], class_="facts"
        ),
        tag(
            "div",
            tag("div", tag("b", "What is wrong?"), tag("span", report.headline), class_=f"axis {worst}"),
            class_="axes",
        ),
    )
    unread = [f"{where}: {why}" if why else where for where, why in report.unread]
    parts: list[Content] = [
        head,
        _band("Not read, so this audit is incomplete", unread),
        _band("Expired waivers", report.expired),
        section("Findings", "findings", _findings(report.rows)) if report.rows else None,
        section("Waived", "waived", bullets([_waived(row) for row in report.waived])) if report.waived else None,
        section("Not checked", "not-checked", bullets([_unchecked(*one) for one in report.not_checked]))
        if report.not_checked
        else None,
        tag("footer", "Made by rocelab audit from an inventory. It has names and addresses of hosts.")
        if report.title or any(row.source for row in report.rows)
        else tag("footer", "Made by rocelab audit from an inventory."),
    ]
    return framed(f"{title}: {report.headline}", report.headline, *parts)


def _band(title: str, texts: Iterable[str]) -> Html | None:
    lines = list(texts)
    return tag("div", tag("p", tag("strong", f"{title}:")), bullets(lines), class_="band warn") if lines else None


def _findings(rows: Iterable[Row]) -> Html:
    names = [tag("th", name, scope="col") for name in COLUMNS]
    body = [
        tag(
            "tr",
            [
                tag("td", tag("span", cell, class_="v") if cell else None, data_name=name)
                for name, cell in zip(COLUMNS, _cells(row), strict=True)
            ],
        )
        for row in rows
    ]
    table = tag("table", tag("thead", tag("tr", names)), tag("tbody", body))
    return tag("div", table, class_="scroll stack", tabindex="0")


def _cells(row: Row) -> tuple[Content, ...]:
    check = row.check
    source: Content = "from practice" if check.source == PRACTICE else tag("a", "source", href=check.source)
    why = [check.why, " (", source, ")"]
    return (
        tag("span", check.severity.word, class_=f"chip {CLASSES[check.severity]}"),
        [check.title, tag("small", why, class_="note"), tag("code", check.code)],
        row.where,
        [row.found, tag("small", evidence_of(row), class_="note")] if row.found or row.source else None,
        row.wanted,
        check.remedy,
    )


def _waived(row: Row) -> str:
    return f"{row.check.code} on {row.where}: {row.check.title}, {row.waiver}"


def _unchecked(codes: str, where: str, why: str) -> str:
    what = f"{codes} on {where}" if where else codes
    return f"{what}: {why}" if why else what

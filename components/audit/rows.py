"""An audit as rows of text for every format: names folded, or left out, and secrets blanked."""

import re
from collections.abc import Iterable, Iterator

from components.audit.findings import Audit, AuditFinding, NotChecked, Severity, Waived
from components.audit.registry import checks
from components.finding import Finding
from components.report.lines import when
from components.validation.redact import redacted
from stacks.frozen import frozen
from stacks.sets import folded, folded_places
from stacks.words import plural

PUBLIC = re.compile(r"\d+(\.\d+)?( (Gbit/s|bytes|VFs|allocatable))?|none|on|off|missing")
"""Values that name nothing."""


class AuditRow(Finding):
    """A finding as it is shown. Its evidence is the value that was read."""

    group: str
    severity: Severity
    title: str
    wanted_value: str
    read_from: str
    """File or command; empty where names are left out."""
    read_at: str
    source: str
    """Page that gives the reason, or `practice`."""
    waiver: str = ""
    """Reason and last day, of a waived one."""

    @property
    def origin(self) -> str:
        """Where and when the value was read."""
        at = " to ".join(when(part) for part in self.read_at.split(" to "))
        return ", ".join(filter(None, (self.read_from, at)))


@frozen
class Missing:
    """What could not be read, and the checks that lack it."""

    codes: tuple[str, ...] = ()
    """Empty for a host, switch or cluster of which nothing was read."""
    where: str
    why: str

    def __str__(self) -> str:
        what = " on ".join(filter(None, (", ".join(self.codes), self.where)))
        return f"{what}: {self.why}" if self.why else what


@frozen
class AuditReport:
    """An audit as it is shown."""

    title: str
    headline: str
    looked: tuple[str, str]
    since: str
    hosts: int
    drained: str
    rows: tuple[AuditRow, ...]
    waived: tuple[AuditRow, ...]
    expired: tuple[str, ...]
    not_checked: tuple[Missing, ...]
    unread: tuple[Missing, ...]

    @property
    def heading(self) -> str:
        """The headline with the title, if there is one."""
        if self.title:
            return f"{self.title}: {self.headline}"
        return self.headline

    @property
    def looked_at(self) -> str:
        """When the hosts were looked at, for people."""
        first, last = map(when, self.looked)
        span = first if first == last else f"{first} to {last}"
        if self.since:
            return f"{span}, counters since {when(self.since)}"
        return span


def report_of(audit: Audit, *, names: bool = True) -> AuditReport:
    """What is shown of an audit.

    Args:
        audit: what was found.
        names: whether hosts, interfaces, addresses and reasons are named.
    """
    expired: Iterable[str] = map(redacted, audit.expired)
    if not names:
        expired = [f"{plural(len(audit.expired), 'waiver')} expired"] * bool(audit.expired)
    return AuditReport(
        title=audit.name * names,
        headline=_headline(audit),
        looked=audit.looked,
        since=audit.since,
        hosts=audit.hosts,
        drained=_named(audit.drained, names),
        rows=tuple(_row(finding, names) for finding in audit.findings),
        waived=tuple(_waived(waived, names) for waived in audit.waived),
        expired=tuple(expired),
        not_checked=tuple(_not_checked(audit.not_checked, names)),
        unread=tuple(_unread(audit, names)),
    )


def _headline(audit: Audit) -> str:
    counts = ", ".join(f"{count} {severity.word}" for severity, count in audit.counts.items())
    unread = f", {len(audit.unread)} NOT READ" * bool(audit.unread)
    return f"{counts or 'no findings'} on {plural(audit.hosts, 'host')}{unread}"


def _waived(waived: Waived, names: bool) -> AuditRow:
    reason = f": {waived.reason}" * names
    return _row(waived.finding, names, f"until {waived.expires}{reason}")


def _row(finding: AuditFinding, names: bool, waiver: str = "") -> AuditRow:
    check = checks()[finding.code]
    where = folded_places(finding.places)
    if not names:
        where = _count(finding)
    return AuditRow(
        code=check.code,
        group=check.group,
        severity=check.severity,
        title=check.title,
        where=where,
        evidence=_value(finding.actual, names),
        wanted_value=_value(finding.expected, names),
        read_from=redacted(finding.source) * names,
        read_at=finding.at,
        reason=check.why,
        source=check.source,
        hint=check.remedy,
        waiver=redacted(waiver),
    )


def _value(text: str, names: bool) -> str:
    bare = text.removesuffix(", as most peers")
    if names or PUBLIC.fullmatch(bare):
        return redacted(text)
    return ""


def _count(finding: AuditFinding) -> str:
    nodes = plural(len(finding.nodes), "node") if finding.nodes else ""
    parts = len({place for place in finding.places if place[1]})
    if not nodes:
        return plural(parts or 1, "object")
    if parts > len(finding.nodes):
        return f"{plural(parts, 'place')} on {nodes}"
    return nodes


def _named(nodes: Iterable[str], names: bool) -> str:
    every = tuple(nodes)
    if names or not every:
        return ", ".join(folded(every))
    return plural(len(every), "node")


def _not_checked(checked: Iterable[NotChecked], names: bool) -> Iterator[Missing]:
    """The same reason at the same places is said once for all checks."""
    groups: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for row in checked:
        groups.setdefault((row.nodes, row.reason * names), []).append(row.code)
    for (nodes, reason), codes in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        yield Missing(codes=tuple(codes), where=_named(nodes, names), why=redacted(reason))


def _unread(audit: Audit, names: bool) -> Iterator[Missing]:
    groups: dict[str, list[str]] = {}
    for name, reason in audit.unread:
        groups.setdefault(reason * names, []).append(name)
    for reason, some in groups.items():
        yield Missing(where=_named(some, names), why=redacted(reason))

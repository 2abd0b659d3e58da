"""Runs all checks over an inventory and folds what they find. Pure."""

from collections.abc import Iterable, Sequence

from components.audit.findings import Audit, AuditFault, AuditFinding, NotChecked, Waived
from components.audit.fleet import AuditFleet
from components.audit.registry import Check, checks
from components.audit.view import View, instant
from components.audit.waivers import NONE, Waivers
from components.inventory.model import Inventory
from stacks.lab import Lab

MOST_WAYS = 6
"""Findings of one check; with more different values they become one finding."""


def audit(
    inventory: Inventory,
    lab: Lab | None = None,
    earlier: Inventory | None = None,
    waivers: Waivers = NONE,
) -> Audit:
    """What is wrong.

    Args:
        inventory: what `rocelab look` found.
        lab: what the lab file wants; without it, peers and good practice decide.
        earlier: another look at the same hosts; without it, counters say nothing.
        waivers: faults that are accepted.
    """
    fleet = AuditFleet(inventory, lab, earlier)
    findings: list[AuditFinding] = []
    waived: list[Waived] = []
    not_checked: list[NotChecked] = []
    for check in checks().values():
        view = View(fleet)
        accepted: dict[tuple[str, str], list[AuditFault]] = {}
        open_faults = []
        for fault in dict.fromkeys(check.judge(view)):
            if waiver := waivers.waiver_for(check.code, fault):
                accepted.setdefault((waiver.reason, waiver.expires.isoformat()), []).append(fault)
            else:
                open_faults.append(fault)
        findings += _folded(check, open_faults)
        for (reason, expires), some in accepted.items():
            for finding in _folded(check, some):
                waived.append(Waived(finding=finding, reason=reason, expires=expires))
        for reason, nodes in sorted(view.unknown.items()):
            known = tuple(sorted(nodes - {""}))
            not_checked.append(NotChecked(code=check.code, reason=reason, nodes=known))
    order = {code: place for place, code in enumerate(checks())}
    findings.sort(key=lambda row: (row.severity, order[row.code], -len(row.places), row.actual))
    looked = sorted(instant(host.read_at) for host in inventory.hosts if host.read_at)
    if not looked:
        looked = [instant(inventory.read_at)]
    since = ""
    if earlier is not None:
        since = instant(earlier.read_at)
    return Audit(
        name=(lab and lab.name) or "",
        looked=(looked[0], looked[-1]),
        since=since,
        hosts=len(fleet.hosts),
        drained=fleet.drained,
        findings=tuple(findings),
        waived=tuple(waived),
        expired=tuple(waivers.expired()),
        not_checked=tuple(not_checked),
        unread=tuple(fleet.unread),
    )


def _folded(check: Check, faults: Sequence[AuditFault]) -> list[AuditFinding]:
    """Equal faults as one finding; many different ones become one finding with an example."""
    ways: dict[tuple[str, str], list[AuditFault]] = {}
    for fault in faults:
        ways.setdefault((fault.actual, fault.expected), []).append(fault)
    if len(ways) > MOST_WAYS:
        actual, expected = next(iter(ways))
        return [
            _finding(
                check,
                faults,
                f"{len(ways)} different values, such as {actual}",
                f"such as {expected}",
            )
        ]
    return [_finding(check, same, actual, expected) for (actual, expected), same in ways.items()]


def _finding(check: Check, same: Iterable[AuditFault], actual: str, expected: str) -> AuditFinding:
    faults = list(same)
    return AuditFinding(
        code=check.code,
        severity=check.severity,
        places=tuple(dict.fromkeys((fault.node, fault.part) for fault in faults)),
        actual=actual,
        expected=expected,
        source=faults[0].source,
        at=faults[0].at,
    )

"""Runs all checks over an inventory and folds what they find. Pure: the same input gives the same audit."""

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
    inventory: Inventory, lab: Lab | None = None, earlier: Inventory | None = None, waivers: Waivers = NONE
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
        waived += [
            Waived(finding=finding, reason=reason, expires=expires)
            for (reason, expires), some in accepted.items()
            for finding in _folded(check, some)
        ]
        not_checked += [
            NotChecked(code=check.code, reason=reason, nodes=tuple(sorted(nodes - {""})))
            for reason, nodes in sorted(view.unknown.items())
        ]
    order = {code: place for place, code in enumerate(checks())}
    findings.sort(key=lambda one: (one.severity, order[one.code], -len(one.places), one.found))
    looked = sorted(instant(host.read_at) for host in inventory.hosts if host.read_at)
    return Audit(
        name=lab.name if lab else "",
        looked=(looked[0], looked[-1]) if looked else (instant(inventory.read_at),) * 2,
        since=instant(earlier.read_at) if earlier else "",
        hosts=len(fleet.hosts),
        drained=fleet.drained,
        findings=tuple(findings),
        waived=tuple(waived),
        expired=tuple(waivers.expired()),
        not_checked=tuple(not_checked),
        unread=tuple(fleet.unread),
    )


def _folded(check: Check, faults: Sequence[AuditFault]) -> list[AuditFinding]:
    """Equal faults as one finding; a check with many different ones becomes one finding with examples."""
    ways: dict[tuple[str, str], list[AuditFault]] = {}
    for fault in faults:
        ways.setdefault((fault.found, fault.wanted), []).append(fault)
    if len(ways) > MOST_WAYS:
        found, wanted = next(iter(ways))
        return [_finding(check, faults, f"{len(ways)} different values, such as {found}", f"such as {wanted}")]
    return [_finding(check, same, found, wanted) for (found, wanted), same in ways.items()]


def _finding(check: Check, same: Iterable[AuditFault], found: str, wanted: str) -> AuditFinding:
    faults = list(same)
    return AuditFinding(
        code=check.code,
        severity=check.severity,
        places=tuple(dict.fromkeys((fault.node, fault.part) for fault in faults)),
        found=found,
        wanted=wanted,
        evidence=faults[0].evidence,
    )

"""The cost of a changed number of VFs: which are in use, whether a reboot is needed, and how old these facts are. Pure.

The facts are from the last run, or from a refresh in this one. Without facts the cost is unknown, never zero.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue

from components.hosts.effects import WORDS
from components.hosts.records import HostRecord, record_before
from stacks.base import Effect

IN_USE, OFFERED, SEEN = "vfs_in_use", "vfs_offered", "seen"
"""Facts: per PF how many are in use and why, how many its NIC offers, and when that was seen (UTC)."""
MINUTE = "%Y-%m-%dT%H:%MZ"
LONGEST_REASON = 80
FREE_THEM = "; drain the node or delete the pods that use them, or revert the change"
LOOK = "pulumi preview --refresh --run-program reads the hosts again"


def without_users(text: str) -> str:
    """A refusal of `vfs_refused` without the names of the VFs' users."""
    return re.sub(rf"( in use), such as .*?(?={re.escape(FREE_THEM)})", r"\1", text, flags=re.DOTALL)


@dataclass(frozen=True, slots=True)
class Known:
    in_use: Mapping[str, str]
    """Per PF, how many and why; PFs without are left out."""
    offered: Mapping[str, int]
    seen: datetime

    def age(self, now: datetime) -> str:
        """The age of the facts, as text."""
        minutes = max(int((now - self.seen).total_seconds() // 60), 0)
        if minutes < 1:
            return "seen just now"
        if minutes < 120:
            return f"seen {minutes} min ago"
        return f"seen {minutes // 60} h ago" if minutes < 60 * 48 else f"seen {minutes // 1440} days ago"


def vf_facts(facts: Mapping[str, JsonValue], now: datetime) -> dict[str, JsonValue]:
    """The part of a host's facts that a later preview needs, small enough for the state."""
    uses, offered = facts.get(IN_USE), facts.get(OFFERED)
    if not isinstance(uses, dict) or offered is None:
        return {}
    by_pf: dict[str, list[str]] = {}
    for vf, reason in uses.items():
        pf, _, number = vf.partition(" ")
        by_pf.setdefault(pf, []).append(f"{number}: {reason}")
    in_use: dict[str, JsonValue] = {
        pf: f"{len(found)} in use, such as {found[0]}"[:LONGEST_REASON] for pf, found in by_pf.items()
    }
    return {IN_USE: in_use, OFFERED: offered, SEEN: now.strftime(MINUTE)}


def known_of(facts: object) -> Known | None:
    """What the facts contain about VFs; None when something is missing."""
    if not isinstance(facts, Mapping):
        return None
    in_use, offered, seen = facts.get(IN_USE), facts.get(OFFERED), facts.get(SEEN)
    if not (isinstance(in_use, Mapping) and isinstance(offered, Mapping) and isinstance(seen, str)):
        return None
    try:
        when = datetime.strptime(seen, MINUTE).replace(tzinfo=UTC)
        return Known(
            {str(pf): str(said) for pf, said in in_use.items()}, {str(p): int(n) for p, n in offered.items()}, when
        )
    except (ValueError, TypeError):
        return None


def effect_of(pf: str, before: JsonValue, target: int, known: Known | None) -> Effect:
    """The worst that a changed number of VFs is known to do."""
    if known is not None and target > known.offered.get(pf, target):
        return "reboot"
    return "none" if before == 0 else "pods"


def cost_of(pf: str, before: JsonValue, target: int, known: Known | None, now: datetime) -> str:
    """The effect of a changed number of VFs, as a preview prints it."""
    loss = "no pod has one yet" if before == 0 else WORDS["pods"]
    if known is None:
        return f"{loss}; may reboot: facts unknown ({LOOK})"
    most = known.offered.get(pf)
    if most is None:
        reboot = "may reboot: it is unknown how many its NIC offers"
    elif target <= most:
        reboot = f"no reboot, its NIC offers {most}"
    else:
        reboot = f"needs a reboot: its NIC offers {most}, and the firmware can add more"
    use = known.in_use.get(pf, "")
    said = f"{use}, and refused until they are free: drain the node" if use else "none is in use"
    return "; ".join([loss, *([said] if before != 0 else []), f"{reboot} ({known.age(now)})"])


def vfs_refused(
    olds: Mapping[str, HostRecord], news: Mapping[str, HostRecord], fresh: Mapping[str, object]
) -> Iterator[str]:
    """A text for each PF whose VFs would be taken away while some are in use, by facts of this run.

    Older facts refuse nothing: the pods may have ended since, and the host checks again before it touches a VF.
    """
    for name, new in news.items():
        old = record_before(olds, name, new)
        known = known_of(fresh.get(name))
        if old is None or known is None or "active" not in (old.state, new.state):
            continue
        for pf, before, after in resized(old, new):
            if pf in known.in_use:
                yield (
                    f"{name}: {pf}.vfs {before} => {after} first removes every VF of {pf}, and {known.in_use[pf]}"
                    f"{FREE_THEM}"
                )


def resized(old: HostRecord, new: HostRecord) -> Iterator[tuple[str, int, int]]:
    """PF, old and new number, of each PF whose number of VFs changes."""
    before, after = ({str(pf["interface"]): int(str(pf["vfs"])) for pf in record.pfs} for record in (old, new))
    for pf, count in after.items():
        if before.get(pf, 0) not in (0, count):
            yield pf, before[pf], count

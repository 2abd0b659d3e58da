"""What a change costs on a running host, what a preview says of it, and what it refuses. Pure."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal, cast

from pydantic import JsonValue

from components.hosts.program.steps import STEPS, changed_versions
from components.hosts.records import HostRecord, Known, Records, known_of, record_before, shorten
from components.ssh.connection import Endpoint
from stacks.base import Effect
from stacks.frozen import frozen
from stacks.words import some

WORDS: dict[Effect, str] = {
    "none": "no disruption",
    "link": "link flaps",
    "pods": "pods lose their VFs",
    "reboot": "needs a reboot",
    "replace": "machine is replaced",
}
EFFECTS: dict[str, str] = {
    field: effect for step in STEPS for field, effect in step.effects.items()
}
"""By the last part of a field's name."""

MOST_NAMED = 3
SILENT = "does not answer over SSH"


def field_effect(field: str) -> Effect:
    """Effect of a changed field such as `enp5s0.mtu_bytes`."""
    return cast("Effect", EFFECTS[field.rpartition(".")[2]])


@frozen
class Change:
    """One change on one host, and its effect on that host."""

    host: str
    what: str
    """A field such as `enp5s0.mtu_bytes`, or a description."""
    values: str = ""
    """Old and new value."""
    cost: str = ""
    """The effect, as a preview describes it."""
    effect: Effect | Literal["joins", "leaves", "unread"] = "none"

    def __str__(self) -> str:
        """As a preview prints it: `gpu01: enp5s0.mtu_bytes 9000 => 4200: link flaps`."""
        text = f"{self.host}: {self.what}{f' {self.values}' if self.values else ''}"
        return f"{text}: {self.cost}" if self.cost else text


def silent_text(name: str, endpoint: Endpoint, seconds: float) -> str:
    """The warning about a host that does not answer."""
    remedy = f"to leave it out: nodes.{name}.state: drained"
    return f"{name} ({endpoint.place}) {SILENT} within {seconds:.0f} s; {remedy}"


def changes(
    olds: Records,
    news: Records,
    facts: Mapping[str, object] = MappingProxyType({}),
    now: datetime | None = None,
) -> Iterator[Change]:
    """What changes, host by host and field by field.

    Args:
        olds: the hosts as they were last read.
        news: the hosts that the lab file describes.
        facts: per host what it reported; see `vf_facts`.
        now: the age of the facts counts up to this time.
    """
    now = now or datetime.now(UTC)
    renamed = {new.formerly for new in news.values()}
    places = {new.endpoint.place: name for name, new in news.items()}
    for name, new in news.items():
        old = record_before(olds, name, new)
        if old is None:
            yield Change(host=name, what="joins", values=f"({new.state})", effect="joins")
        else:
            if name not in olds:
                yield Change(host=name, what="was", values=str(new.formerly), cost=WORDS["none"])
            known = known_of(facts.get(name) or facts.get(new.formerly or ""))
            yield from _changes(name, old, new, known, now)
    for name, old in olds.items():
        if name not in news and name not in renamed:
            heir = places.get(old.endpoint.place)
            unless = f", unless {heir} turns out to be the same machine" if heir else ""
            cost = f"its VFs, links and rocelab's files are undone{unless}"
            yield Change(host=name, what="leaves", cost=cost, effect="leaves")


def reboots_refused(olds: Records, news: Records) -> Iterator[str]:
    """A text for each change that needs a reboot on a host that is configured already.

    It compares the lab file with the last applied one. Drift alone never blocks a run.
    """
    for name, new in news.items():
        old = record_before(olds, name, new)
        if old is None or old.state != "active" or new.state != "active":
            continue
        before = old.target
        for field, value in new.target.items():
            if field in before and before[field] != value and field_effect(field) == "reboot":
                yield (
                    f"{name} needs a reboot ({field} {before[field]} => {value}) and hosts.reboot "
                    "is never; set it to stage (you reboot the host) or roll (rocelab reboots it), "
                    "or revert the change"
                )


def upgrades_refused(olds: Records, news: Records) -> Iterator[str]:
    """A text for each version that changed on hosts with another one, with the steps by hand.

    rocelab installs drivers and Kubernetes once and only compares firmware.
    """
    pairs = [(name, record_before(olds, name, new), new) for name, new in news.items()]
    for step in STEPS:
        hosts: dict[tuple[str, str], list[str]] = {}
        for name, old, new in pairs:
            if old is None or "absent" in (old.state, new.state):
                continue
            changed = changed_versions(step, old.document, new.document)
            # a host that reports the new version was upgraded by hand already
            pending = set()
            for key, installed, declared in changed:
                if old.fields.get(key) != new.fields.get(key):
                    pending.add((installed, declared))
            for change in sorted(pending):
                hosts.setdefault(change, []).append(name)
        for (before, after), names in hosts.items():
            versions = f"{step.version_setting} {before} => {after}"
            yield (
                f"{some(names, MOST_NAMED)}: {versions} is refused: "
                f"rocelab cannot upgrade hosts in use yet. On each host: {step.upgrade}. "
                f"Then pulumi up --refresh, which finds {after} there and continues; "
                "or revert the change"
            )


def _changes(
    name: str, old: HostRecord, new: HostRecord, known: Known | None, now: datetime
) -> Iterator[Change]:
    if old.trouble:
        values = f"({old.trouble}) => {new.state}"
        yield Change(host=name, what="unknown", values=values, cost="read again", effect="unread")
    if old.state != new.state:
        effect, cost = _state_effect(new)
        states = f"{old.state} => {new.state}"
        yield Change(host=name, what="state", values=states, cost=cost, effect=effect)
    yield from _login_changes(name, old.endpoint, new.endpoint)
    if old.unfinished and old.fields == new.fields and not old.trouble:
        yield Change(host=name, what="the last run did not finish", cost="continues")
    if old.state == new.state == "active" and not old.trouble:
        for field in {**new.fields, **old.fields}:
            before, after = old.fields.get(field, "none"), new.fields.get(field, "none")
            if before != after:
                yield _changed(name, field, before, after, known, now)


def _login_changes(name: str, old: Endpoint, new: Endpoint) -> Iterator[Change]:
    if old.place != new.place:
        where = f"{old.place} => {new.place}"
        yield Change(host=name, what="reached at", values=where, cost=WORDS["none"])
    if old.host_key != new.host_key:
        yield Change(host=name, what="another host key in known_hosts", cost=WORDS["none"])
    if old.user != new.user:
        users = f"{old.user} => {new.user}"
        yield Change(host=name, what="logged in to as", values=users, cost=WORDS["none"])


def _changed(  # noqa: PLR0913, PLR0917  # two of a kind, and what they mean
    host: str, field: str, before: JsonValue, after: JsonValue, known: Known | None, now: datetime
) -> Change:
    pf, _, what = field.rpartition(".")
    effect = field_effect(field)
    cost = WORDS[effect]
    if what == "vfs" and isinstance(after, int):
        effect = effect_of(pf, before, after, known)
        cost = cost_of(pf, before, after, known, now)
    return Change(host=host, what=field, values=_change(before, after), cost=cost, effect=effect)


def _change(before: JsonValue, after: JsonValue) -> str:
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = []
        for position, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new:
                pairs.append(f"[{position}] {old} => {new}")
        return some(pairs, 2)
    return f"{shorten(before)} => {shorten(after)}"


def _state_effect(new: HostRecord) -> tuple[Literal["joins", "leaves"], str]:
    match new.state:
        case "active":
            return "joins", "it is configured"
        case "drained":
            return "leaves", "it is left alone"
        case "absent":
            return "leaves", "everything that rocelab changed is undone"


# -- the cost of another number of VFs

FREE_THEM = "; drain the node or delete the pods that use them, or revert the change"
LOOK = "pulumi preview --refresh reads the hosts again"


def without_users(text: str) -> str:
    """A refusal of `vfs_refused` without the names of the VFs' users."""
    return re.sub(
        rf"( in use), such as .*?(?={re.escape(FREE_THEM)})", r"\1", text, flags=re.DOTALL
    )


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
    parts = [loss]
    use = known.in_use.get(pf, "")
    if before != 0 and use:
        parts.append(f"{use}, and refused until they are free: drain the node")
    elif before != 0:
        parts.append("none is in use")
    return "; ".join([*parts, f"{reboot} ({known.age(now)})"])


def vfs_refused(olds: Records, news: Records, fresh: Mapping[str, object]) -> Iterator[str]:
    """A text for each PF whose VFs would be taken away while some are in use, by facts of this run.

    Older facts refuse nothing: the pods may have ended since, and the host checks again before it
    touches a VF.
    """
    for name, new in news.items():
        old = record_before(olds, name, new)
        known = known_of(fresh.get(name))
        if old is None or known is None or "active" not in (old.state, new.state):
            continue
        for pf, before, after in resized(old, new):
            if pf in known.in_use:
                change = f"{pf}.vfs {before} => {after} first removes every VF of {pf}"
                yield f"{name}: {change}, and {known.in_use[pf]}{FREE_THEM}"


def resized(old: HostRecord, new: HostRecord) -> Iterator[tuple[str, int, int]]:
    """PF, old and new number, of each PF whose number of VFs changes."""
    before = _vf_counts(old)
    for pf, count in _vf_counts(new).items():
        if before.get(pf, 0) not in (0, count):
            yield pf, before[pf], count


def _vf_counts(record: HostRecord) -> dict[str, int]:
    return {str(pf["interface"]): int(str(pf["vfs"])) for pf in record.pfs}

"""What a preview does to the lab, worst first: from records of hosts and switches. Pure."""

import re
from collections.abc import Iterator, Mapping
from enum import Enum, IntEnum
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from components.hosts.changes import SILENT, Change, changes, without_users
from components.hosts.records import HostRecord, Known, known_of, records_of
from components.review.preview import Preview, PreviewStep, Props, State
from components.switches.records import SwitchRecord, in_order
from components.switches.settings import PortSettings, differences
from stacks.frozen import frozen

T = TypeVar("T")

STACK = "pulumi:pulumi:Stack"
FLEET, SWITCH = "rocelab:hosts:Fleet", "rocelab:switches:SwitchConfig"
HARDWARE = "rocelab:fabric:MachineHardware"
MACHINE, VSPHERE = "vsphere:index/virtualMachine:VirtualMachine", "vsphere:"

VERBS = {
    "create": "created",
    "import": "created",
    "update": "updated",
    "delete": "deleted",
    "replace": "replaced",
    "create-replacement": "replaced",
    "delete-replaced": "replaced",
}
"""What becomes of a resource by the step's operation; operations that change nothing are not
here."""
QUIET_MACHINE_PROPERTIES = frozenset({"annotation", "customAttributes", "folder", "name", "tags"})
"""A VM keeps running when these change. The provider decides on any other while it applies it."""
OTHER_VERSION = (
    "a record is not known yet, or of another version of rocelab; its changes are missing here"
)
ADDRESS = re.compile(r"^\S+:\d+ ")
SILENT_HOST = re.compile(rf"^(?P<name>\S+) \(.*\) (?P<reason>{SILENT}.*?)(;|$)")


class Rank(IntEnum):
    """From the worst to the mildest."""

    FAILED = 0
    REPLACE = 1
    REBOOT = 2
    PODS = 3
    LINK = 4
    MEMBER = 5
    UNREAD = 6
    REST = 7


class Kind(Enum):
    """What happens: its rank, its label in the table, and its two phrases in the headline."""

    FAILED = Rank.FAILED, "Preview failed", "the preview failed", "the preview failed"
    VM_REPLACED = Rank.REPLACE, "VM replaced", "1 VM is replaced", "{} VMs are replaced"
    VM_DELETED = Rank.REPLACE, "VM deleted", "1 VM is deleted", "{} VMs are deleted"
    FABRIC_REPLACED = (
        Rank.REPLACE,
        "vSphere replaced",
        "1 vSphere object is replaced",
        "{} vSphere objects are replaced",
    )
    FABRIC_DELETED = (
        Rank.REPLACE,
        "vSphere deleted",
        "1 vSphere object is deleted",
        "{} vSphere objects are deleted",
    )
    REBOOT = Rank.REBOOT, "Reboot", "1 host needs a reboot", "{} hosts need a reboot"
    VM_RESTART = Rank.REBOOT, "VM restarts", "1 VM restarts", "{} VMs restart"
    VM_MAY_RESTART = Rank.REBOOT, "VM may restart", "1 VM may restart", "{} VMs may restart"
    PODS = Rank.PODS, "Pods lose VFs", "pods lose VFs on 1 host", "pods lose VFs on {} hosts"
    LINK = Rank.LINK, "Link flaps", "1 link flaps", "{} links flap"
    PORT = Rank.LINK, "Switch port", "1 switch port changes", "{} switch ports change"
    JOINS = Rank.MEMBER, "Joins", "1 host joins", "{} hosts join"
    VM_CREATED = Rank.MEMBER, "VM created", "1 VM is created", "{} VMs are created"
    LEAVES = Rank.MEMBER, "Leaves", "1 host leaves", "{} hosts leave"
    UNREAD = Rank.UNREAD, "Not read", "1 host is NOT READ", "{} hosts are NOT READ"
    SWITCH_UNREAD = Rank.UNREAD, "Not read", "1 switch is NOT READ", "{} switches are NOT READ"
    HOSTS_UNREAD = Rank.UNREAD, "Not read", "hosts are NOT READ", "hosts are NOT READ"
    HOST = Rank.REST, "Host", "", ""
    RESOURCE = Rank.REST, "Resource", "", ""

    def __init__(self, rank: Rank, label: str, singular: str, plural: str) -> None:
        self.rank, self.label, self.singular, self.plural = rank, label, singular, plural

    def phrase(self, count: int) -> str:
        """The text in the headline."""
        if count == 1:
            return self.singular
        return self.plural.format(count)


@frozen
class Effect:
    """One thing that happens to one host, VM, switch port or resource."""

    kind: Kind
    name: str
    part: str = ""
    """The interface or port."""
    what: str
    values: str = ""
    """What was and what is asked for."""
    note: str = ""
    vfs_in_use: int | None = None
    """Of the PF; None where it is unknown, or the number of VFs does not change."""


@frozen
class Review:
    """All that a preview does."""

    stack: str
    effects: tuple[Effect, ...]
    facts_read: tuple[str, ...] = ()
    """The first and the last minute in which the hosts said what pods use; empty where none did."""
    idle_hosts: frozenset[str] = frozenset()
    """Hosts that said that none of their VFs is in use."""

    @property
    def worst(self) -> Rank | None:
        """The worst that happens; what was not read is no effect. None when nothing changes."""
        ranks = {effect.kind.rank for effect in self.effects}
        return min(ranks - {Rank.UNREAD}, default=None)

    @property
    def unread(self) -> bool:
        """Whether something could not be read, so that its effects are not among these."""
        return any(effect.kind.rank is Rank.UNREAD for effect in self.effects)


def review_of(preview: Preview) -> Review:
    """What a preview does, in no order: steps come in another order each time."""
    steps = [step for step in preview.steps if step.op in VERBS]
    effects = list(_failures(preview))
    facts: dict[str, object] = {}
    for step in steps:
        effects += _of_step(step)
        if step.type == FLEET:
            facts |= _facts(step)
    # after a refresh the host's record says it too
    unread = {effect.name for effect in effects if effect.kind is Kind.UNREAD}
    effects += [effect for effect in _silent(preview) if effect.name not in unread]
    failed = any(effect.kind is Kind.FAILED for effect in effects)
    if failed and not any(step.type == FLEET for step in steps):
        why = "the preview ended before the hosts were compared"
        effects.append(Effect(kind=Kind.HOSTS_UNREAD, name="all hosts", what=why))
    known_by_host = {name: known_of(fact) for name, fact in facts.items()}
    times = [known.read_at for known in known_by_host.values() if known]
    idle = [name for name, known in known_by_host.items() if known and not known.in_use]
    facts_read: tuple[str, ...] = ()
    if times:
        facts_read = f"{min(times):%Y-%m-%d %H:%M}", f"{max(times):%Y-%m-%d %H:%M}"
    return Review(
        stack=preview.stack,
        effects=tuple(dict.fromkeys(effects)),
        facts_read=facts_read,
        idle_hosts=frozenset(idle),
    )


def _failures(preview: Preview) -> Iterator[Effect]:
    """Errors, without the names of pods that an error may have."""
    for diagnostic in preview.diagnostics:
        if diagnostic.level == "error":
            resource = ""
            if diagnostic.urn:
                resource = diagnostic.urn.split("::", 3)[-1]
            yield Effect(kind=Kind.FAILED, name=resource, what=without_users(diagnostic.text))
    if preview.corrupt:
        yield Effect(kind=Kind.FAILED, name="", what="Pulumi says that the state may be corrupt")


def _silent(preview: Preview) -> Iterator[Effect]:
    """Hosts that did not answer now; only a message says so, since the state stays the same."""
    for diagnostic in preview.diagnostics:
        silence = SILENT_HOST.match(diagnostic.text)
        if diagnostic.level == "warning" and silence:
            what = f"{silence['reason']}; its changes are relative to the last run"
            yield Effect(kind=Kind.UNREAD, name=silence["name"], what=what)


def _of_step(step: PreviewStep) -> Iterator[Effect]:
    verb = VERBS[step.op]
    if step.type == FLEET:
        yield from _hosts(step)
    elif step.type == SWITCH:
        yield from _switch(step)
    elif step.type in {MACHINE, HARDWARE}:
        yield from _machine(step)
    elif step.type.startswith(VSPHERE) and verb in {"replaced", "deleted"}:
        if verb == "replaced":
            kind = Kind.FABRIC_REPLACED
        else:
            kind = Kind.FABRIC_DELETED
        yield Effect(kind=kind, name=step.name, what=_short_type(step))
    elif step.type != STACK:
        yield _resource(step)


def _resource(step: PreviewStep) -> Effect:
    return Effect(kind=Kind.RESOURCE, name=step.name, what=f"{_short_type(step)} {VERBS[step.op]}")


def _short_type(step: PreviewStep) -> str:
    return step.type.rpartition(":")[2]


def _hosts(step: PreviewStep) -> Iterator[Effect]:
    old, new = _known(step.old), _inputs(step.new)
    olds, news = records_of(old), records_of(new)
    hidden = {*_hidden(old, olds), *_hidden(new, news)}
    for name in sorted(hidden):
        yield Effect(kind=Kind.UNREAD, name=name, what=OTHER_VERSION)
    facts = _facts(step)
    try:
        of_hosts = list(changes(_without(olds, hidden), _without(news, hidden), facts))
    except (KeyError, TypeError, ValueError):  # a field that this version does not know
        yield Effect(kind=Kind.HOSTS_UNREAD, name="all hosts", what=OTHER_VERSION)
        return
    for change in of_hosts:
        yield _host_effect(change, facts, olds, news)


KINDS = {
    "none": Kind.HOST,
    "link": Kind.LINK,
    "pods": Kind.PODS,
    "reboot": Kind.REBOOT,
    "replace": Kind.VM_REPLACED,
}
MEMBERSHIP = ("unread", "joins", "leaves")


def _membership_effect(
    change: Change, olds: Mapping[str, HostRecord], news: Mapping[str, HostRecord]
) -> Effect:
    if change.effect == "unread":
        reason = "no answer"
        if change.host in olds:
            reason = ADDRESS.sub("", olds[change.host].trouble)
        what = f"{reason}; its changes are missing here"
        return Effect(kind=Kind.UNREAD, name=change.host, what=what)
    if change.effect == "joins":
        what = f"is new ({news[change.host].state})"
        if change.what == "state":
            what = "becomes active"
        return Effect(kind=Kind.JOINS, name=change.host, what=what)
    what = "its VFs, links and files are undone"
    if change.what == "state":
        what = f"state {change.values}"
    return Effect(kind=Kind.LEAVES, name=change.host, what=what)


def _host_effect(
    change: Change,
    facts: Mapping[str, object],
    olds: Mapping[str, HostRecord],
    news: Mapping[str, HostRecord],
) -> Effect:
    part, _, field = change.what.rpartition(".")
    if change.effect in MEMBERSHIP:
        return _membership_effect(change, olds, news)
    if change.effect == "none" and field != "vfs":
        # what a file holds is the host's matter: the comment names the field only
        return Effect(kind=Kind.HOST, name=change.host, part=part, what=field)
    note, in_use = "", None
    if field == "vfs":
        note, in_use = _vfs(part, known_of(facts.get(change.host)))
    return Effect(
        kind=KINDS[change.effect],
        name=change.host,
        part=part,
        what=field,
        values=change.values,
        note=note,
        vfs_in_use=in_use,
    )


def _vfs(pf: str, known: Known | None) -> tuple[str, int | None]:
    """A PF's VFs, and how many are in use. Users are not named: names of pods tell too much."""
    if known is None:
        return "what is in use and whether it reboots: unknown", None
    count = re.match(r"\d+", known.in_use.get(pf, ""))
    offered = "may reboot: the NIC's limit is unknown"
    if pf in known.offered:
        offered = f"the NIC offers {known.offered[pf]}"
    return offered, int(count[0]) if count else 0


def _switch(step: PreviewStep) -> Iterator[Effect]:
    old, new = _known(step.old), _inputs(step.new)
    try:
        name = SwitchRecord.model_validate((new or old).get("record")).switch.name
    except ValidationError:
        yield Effect(kind=Kind.SWITCH_UNREAD, name=step.name, what=OTHER_VERSION)
        return
    hidden: set[str] = set()
    before, after = _ports(old, hidden), _ports(new, hidden)
    for port in sorted(hidden):
        yield Effect(kind=Kind.SWITCH_UNREAD, name=name, part=port, what=OTHER_VERSION)
    before, after = _without(before, hidden), _without(after, hidden)
    for port, settings in after.items():
        if port not in before:
            what = "is taken over; its present settings are not in the preview"
            yield Effect(kind=Kind.PORT, name=name, part=port, what=what)
            continue
        for change in differences(settings, before[port]):
            earlier = "none" if change.actual is None else change.actual
            values = f"{earlier} => {change.expected}"
            yield Effect(kind=Kind.PORT, name=name, part=port, what=change.field, values=values)
    for port in before:
        if port not in after:
            yield Effect(
                kind=Kind.PORT, name=name, part=port, what="leaves; its first settings are put back"
            )


def _ports(props: Props, hidden: set[str]) -> dict[str, PortSettings]:
    """The ports of a switch; the names of those that this version cannot read join `hidden`."""
    ports = props.get("ports")
    read: dict[str, PortSettings] = {}
    for port, settings in ports.items() if isinstance(ports, dict) else ():
        try:
            read[port] = PortSettings.model_validate(settings)
        except ValidationError:
            hidden.add(port)
    return in_order(read)


def _machine(step: PreviewStep) -> Iterator[Effect]:
    old, new, verb = _known(step.old), _inputs(step.new), VERBS[step.op]
    name = new.get("name") or old.get("name")
    if not isinstance(name, str):
        name = step.name
    if step.type == MACHINE and verb != "updated":
        kind = {
            "created": Kind.VM_CREATED,
            "deleted": Kind.VM_DELETED,
            "replaced": Kind.VM_REPLACED,
        }[verb]
        reasons = ""
        if verb == "replaced":
            reasons = ", ".join(sorted(step.diff_reasons))
        yield Effect(kind=kind, name=name, what=reasons and f"changed: {reasons}")
        return
    changed = []
    if verb == "updated":
        changed = sorted(_changed(step, old, new))
    if not changed:
        yield _resource(step)
        return
    if step.type == HARDWARE:
        kind = Kind.VM_RESTART
    else:
        kind = Kind.VM_MAY_RESTART
    yield Effect(kind=kind, name=name, what=", ".join(changed))


def _changed(step: PreviewStep, old: Props, new: Props) -> set[str]:
    """Properties of a VM that change and may need it powered off."""
    if step.type == HARDWARE:
        now = old.get("now")
        before = now if isinstance(now, dict) else {}
        names = {"vgpus"}
        if new.get("roce_version"):  # without one it is vCenter's own
            names.add("roce_version")
        return {name for name in names if (before.get(name) or []) != (new.get(name) or [])}
    return set(step.diff_reasons) - QUIET_MACHINE_PROPERTIES


def _known(state: State | None) -> Props:
    return state.known if state else {}


def _inputs(state: State | None) -> Props:
    return state.inputs if state else {}


def _hidden(props: Props, read: Mapping[str, object]) -> set[str]:
    """Hosts that have a record which says nothing to this version."""
    hosts = props.get("hosts")
    if isinstance(hosts, dict):
        return set(hosts) - set(read)
    return set()


def _without(records: Mapping[str, T], names: set[str]) -> dict[str, T]:
    return {name: record for name, record in records.items() if name not in names}


def _facts(step: PreviewStep) -> dict[str, JsonValue]:
    facts = _known(step.old).get("facts")
    return facts if isinstance(facts, dict) else {}

"""What is done with a VM that is somebody else's: what may be, what is given to it, and what is given back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.power import turn_on
from components.fabric.vms.hardware import pvrdma_among, refuse_unknown_profiles
from components.fabric.vms.theirs import ADAPTER, ROCE_VERSION, VGPUS, Theirs, group_of, still_there
from components.fabric.vms.theirs_changes import put, while_off
from stacks.base import LabError
from stacks.machines import LINUX_64


@dataclass(frozen=True, slots=True)
class Given:
    """What came of giving."""

    now: Mapping[str, object]
    """The declared fields as they are then."""
    left: str
    """Why some of them are left as they are; empty: none is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What is asked of one VM, and how far one may go for it."""

    path: str
    wanted: Mapping[str, object]
    before: Mapping[str, object]
    networks: Mapping[str, str]
    """Managed object id of the port group by rail; one that is not made yet is missing."""
    allow_power_off: bool
    hosts: tuple[str, ...]
    """The ESXi hosts that its rails reach."""
    host: str
    """The one that it has to be on; empty: any of these."""
    least_hardware: int
    needs: str
    """What needs that virtual hardware."""
    several_pvrdma: bool
    guest_s: int


def refusal(
    vcenter: VCenter,
    theirs: Theirs,
    terms: Terms,
    returned: Mapping[str, object] | None = None,
    *,
    changes: bool = True,
) -> str:
    """Why a VM cannot be given what is declared of it; empty when it can.

    Args:
        vcenter: the session.
        theirs: the VM.
        terms: what is declared, and what may be done for it.
        returned: fields that are declared no more, with what they had before.
        changes: whether it counts that it would have to stop; not for drift, which is told and left.
    """
    if said := next(_unfit(theirs, terms), ""):
        return f"{terms.path} {said}"
    if profiles := list(filter(None, str(terms.wanted.get(VGPUS, "")).split(","))):
        if str(theirs.facts.get("config.firmware")) != "efi":
            return f"{terms.path} has firmware bios, which cannot map a vGPU's memory: take one with efi"
        if said := refuse_unknown_profiles(vcenter, terms.path, profiles, [theirs.host]):
            return said
    if not changes:
        return ""
    return _has_to_stop(theirs, terms, _changes(theirs, {**(returned or {}), **terms.wanted}, terms.networks))


def changed_lines(theirs: Theirs, terms: Terms) -> Iterator[str]:
    """A line for each field that will be changed, with what it does to the machine."""
    now = theirs.read(terms.wanted, terms.networks)
    for key, value in sorted(_changes(theirs, terms.wanted, terms.networks).items()):
        effect = "shut down for it, and started again" if theirs.on and while_off([key]) else "no disruption"
        yield f"{terms.path}: {key} {now[key]!r} => {value!r}: {effect}"
    if not theirs.on:
        yield f"{terms.path} is off, and stays off"


def take_over(vcenter: VCenter, theirs: Theirs, terms: Terms, *, was_on: bool) -> Given:
    """Gives a VM for the first time what it lacks, and starts it where a run was killed that had shut it down.

    Raises:
        LabError: when it would have to be stopped and may not be, or keeps something else.
    """
    given = give(vcenter, theirs, terms, {}, refuse=True)
    now = still_there(vcenter, theirs.instance, terms.path)
    if was_on and not now.on and terms.allow_power_off:  # without the word it was somebody else
        turn_on(vcenter, now.machine, now.name, guest_s=terms.guest_s)
    return given


def give(vcenter: VCenter, theirs: Theirs, terms: Terms, returned: Mapping[str, object], *, refuse: bool) -> Given:
    """Sets what differs and reads it back.

    Args:
        vcenter: the session.
        theirs: the VM.
        terms: what is declared, and what may be done for it.
        returned: fields that are declared no more, with what they had before.
        refuse: whether to fail where the VM would have to stop and may not; else that is told, and left as it is.

    Raises:
        LabError: when it may not be stopped for it, or keeps something else.
    """
    target = {**returned, **terms.wanted}
    changes = _changes(theirs, target, terms.networks)
    said = _has_to_stop(theirs, terms, changes)
    if said and refuse:
        raise LabError(said)
    if said:
        changes = {key: value for key, value in changes.items() if not while_off([key])}
    if changes or theirs.marked:
        put(vcenter, theirs, changes, terms.networks, guest_s=terms.guest_s)
        theirs = still_there(vcenter, theirs.instance, terms.path)
    now = theirs.read(terms.wanted, terms.networks)
    lost = _changes(theirs, terms.wanted, terms.networks)
    if lost and not said:
        told = ", ".join(f"{key} is {now[key]!r} instead of {value!r}" for key, value in sorted(lost.items()))
        raise LabError(f"{terms.path}: {told} after it was set")
    return Given(now, said)


def give_back(vcenter: VCenter, theirs: Theirs, terms: Terms) -> list[str]:
    """Gives a VM what it had before; a line for each field that somebody else has changed since: it is theirs.

    Raises:
        LabError: when it runs, and may not be stopped for it.
    """
    ours, others = to_return(theirs, terms)
    changes = _changes(theirs, ours, terms.networks)
    if said := _has_to_stop(theirs, replace(terms, wanted=ours), changes):
        raise LabError(f"{said}. Until then it keeps what it was given")
    if changes or theirs.marked:
        put(vcenter, theirs, changes, terms.networks, guest_s=terms.guest_s)
    return others


def to_return(theirs: Theirs, terms: Terms) -> tuple[dict[str, object], list[str]]:
    """Fields that still are as we gave them, with what they had before; a line for each that somebody has changed."""
    now = theirs.read(terms.wanted, terms.networks)
    others = [
        f"{terms.path}: {key} is {value!r}, not ours ({terms.wanted[key]!r}): left alone"
        for key, value in sorted(now.items())
        if value not in (terms.wanted[key], terms.before.get(key))
    ]
    return {key: terms.before[key] for key in now if now[key] == terms.wanted[key] and key in terms.before}, others


def _changes(theirs: Theirs, target: Mapping[str, object], networks: Mapping[str, str]) -> dict[str, object]:
    now = theirs.read(target, networks)
    return {
        key: value
        for key, value in target.items()
        # a protocol goes with its adapter, and vCenter's own choice is none that one could name
        if now[key] != value and not (key.startswith(ROCE_VERSION) and not value)
    }


def _has_to_stop(theirs: Theirs, terms: Terms, changes: Mapping[str, object]) -> str:
    held = while_off(changes)
    if not held or not theirs.on or terms.allow_power_off:
        return ""
    return (
        f"{terms.path} runs, and {', '.join(held)} can only be changed while it is off: machine.allow_power_off: true "
        "lets it be shut down and started again, or power it off yourself"
    )


def _unfit(theirs: Theirs, terms: Terms) -> Iterator[str]:
    if theirs.facts.get("config.template"):
        yield "is a template: give it as machine.template and have a machine made, or take another VM"
    if terms.host not in ("", theirs.host):
        yield f"is on {theirs.host}, and is to be on {terms.host} (machine.host): move it there, or mend the lab"
    if theirs.hardware_version < terms.least_hardware:
        yield (
            f"has virtual hardware {theirs.hardware_version}, and {terms.needs} from {terms.least_hardware} on: "
            "upgrade it in vCenter, from where there is no way back"
        )
    if any(key.startswith(ADAPTER) for key in terms.wanted):
        guest = str(theirs.facts.get("config.guestId", ""))
        if not LINUX_64.match(guest):
            yield f"has guest {guest}, which is no 64-bit Linux, and PVRDMA has a driver for nothing else"
        if theirs.host not in terms.hosts:
            yield f"is on {theirs.host}, which its rails do not reach: move it to {' or '.join(terms.hosts)}"
    if not terms.several_pvrdma and (others := _other_adapters(theirs, terms)):
        yield (
            f"has {others} PVRDMA adapter on another network, and VMware documents one a VM (KB 328676): take it off, "
            "or set machine.several_pvrdma: true"
        )


def _other_adapters(theirs: Theirs, terms: Terms) -> int:
    ours = set(terms.networks.values())
    wanted = any(key.startswith(ADAPTER) for key in terms.wanted)
    return sum(wanted and group_of(one) not in ours for one in pvrdma_among(theirs.devices))

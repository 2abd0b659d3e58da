"""Changes to a VM that rocelab did not create: what is permitted, what is set, and what is restored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.power import turn_on
from components.fabric.vms.existing import (
    ADAPTER,
    ROCE_VERSION,
    VGPUS,
    ExistingVm,
    group_of,
    put,
    still_there,
    while_off,
)
from components.fabric.vms.hardware import pvrdma_among, refuse_unknown_profiles
from stacks.base import LabError
from stacks.machines import LINUX_64


@dataclass(frozen=True, slots=True)
class Given:
    """The result of `give`."""

    now: Mapping[str, object]
    """The declared fields afterwards."""
    left: str
    """Why some fields were not set; empty: all were."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What the lab file declares of one existing VM, and what rocelab may do for it."""

    path: str
    wanted: Mapping[str, object]
    before: Mapping[str, object]
    networks: Mapping[str, str]
    """Managed object ID of the port group by rail, without those that do not exist yet."""
    allow_power_off: bool = False
    hosts: tuple[str, ...] = ()
    """The ESXi hosts that its rails reach."""
    host: str = ""
    """The host that it must be on; empty: any of these."""
    least_hardware: int = 0
    needs: str = ""
    """What needs that virtual hardware."""
    several_pvrdma: bool = False
    guest_s: int = 0


def refusal(
    vcenter: VCenter,
    vm: ExistingVm,
    terms: Terms,
    returned: Mapping[str, object] | None = None,
    *,
    changes: bool = True,
) -> str:
    """Why a VM cannot get its declared fields; empty when it can.

    Args:
        vcenter: the session.
        vm: the VM.
        terms: what is declared, and what may be done for it.
        returned: fields that are no longer declared, with their earlier values.
        changes: whether a needed shutdown counts; not for drift, which is only reported.
    """
    if said := next(_unfit(vm, terms), ""):
        return f"{terms.path} {said}"
    if profiles := list(filter(None, str(terms.wanted.get(VGPUS, "")).split(","))):
        if str(vm.facts.get("config.firmware")) != "efi":
            return f"{terms.path} has firmware bios, which cannot map a vGPU's memory; use a VM with firmware efi"
        if said := refuse_unknown_profiles(vcenter, terms.path, profiles, [vm.host]):
            return said
    if not changes:
        return ""
    return _has_to_stop(vm, terms, _changes(vm, {**(returned or {}), **terms.wanted}, terms.networks))


def changed_lines(vm: ExistingVm, terms: Terms) -> Iterator[str]:
    """A line per field that will change, with the effect on the VM."""
    now = vm.read(terms.wanted, terms.networks)
    for key, value in sorted(_changes(vm, terms.wanted, terms.networks).items()):
        effect = "shuts the VM down and starts it again" if vm.on and while_off([key]) else "no disruption"
        yield f"{terms.path}: {key} {now[key]!r} => {value!r}: {effect}"
    if not vm.on:
        yield f"{terms.path} is powered off and stays off"


def take_over(vcenter: VCenter, vm: ExistingVm, terms: Terms, *, was_on: bool) -> Given:
    """Sets the declared fields for the first time, and starts a VM that an interrupted run has shut down.

    Raises:
        LabError: when the VM must stop but may not, or has another value afterwards.
    """
    given = give(vcenter, vm, terms, {}, refuse=True)
    now = still_there(vcenter, vm.instance, terms.path)
    if was_on and not now.on and terms.allow_power_off:  # without that permission, another user turned it off
        turn_on(vcenter, now.machine, now.name, guest_s=terms.guest_s)
    return given


def give(vcenter: VCenter, vm: ExistingVm, terms: Terms, returned: Mapping[str, object], *, refuse: bool) -> Given:
    """Sets what differs and reads it back.

    Args:
        vcenter: the session.
        vm: the VM.
        terms: what is declared, and what may be done for it.
        returned: fields that are no longer declared, with their earlier values.
        refuse: whether to fail if the VM must stop but may not; otherwise that is reported and skipped.

    Raises:
        LabError: when the VM must stop but may not, or has another value afterwards.
    """
    target = {**returned, **terms.wanted}
    changes = _changes(vm, target, terms.networks)
    said = _has_to_stop(vm, terms, changes)
    if said and refuse:
        raise LabError(said)
    if said:
        changes = {key: value for key, value in changes.items() if not while_off([key])}
    if changes or vm.marked:
        put(vcenter, vm, changes, terms.networks, guest_s=terms.guest_s)
        vm = still_there(vcenter, vm.instance, terms.path)
    now = vm.read(terms.wanted, terms.networks)
    lost = _changes(vm, terms.wanted, terms.networks)
    if lost and not said:
        differences = ", ".join(f"{key} is {now[key]!r} instead of {value!r}" for key, value in sorted(lost.items()))
        raise LabError(f"{terms.path}: {differences} after it was set")
    return Given(now, said)


def give_back(vcenter: VCenter, vm: ExistingVm, terms: Terms) -> list[str]:
    """Restores the earlier values; returns a line per field that another user has changed since, which stays.

    Raises:
        LabError: when the VM runs and may not be stopped.
    """
    ours, others = to_return(vm, terms)
    changes = _changes(vm, ours, terms.networks)
    if said := _has_to_stop(vm, replace(terms, wanted=ours), changes):
        raise LabError(f"{said}. Until then it keeps its current settings")
    if changes or vm.marked:
        put(vcenter, vm, changes, terms.networks, guest_s=terms.guest_s)
    return others


def to_return(vm: ExistingVm, terms: Terms) -> tuple[dict[str, object], list[str]]:
    """The earlier values of fields that rocelab set, and a line per field that another user has changed since."""
    now = vm.read(terms.wanted, terms.networks)
    others = [
        f"{terms.path}: {key} is {value!r}, not the {terms.wanted[key]!r} that rocelab set; left as it is"
        for key, value in sorted(now.items())
        if value not in (terms.wanted[key], terms.before.get(key))
    ]
    return {key: terms.before[key] for key in now if now[key] == terms.wanted[key] and key in terms.before}, others


def _changes(vm: ExistingVm, target: Mapping[str, object], networks: Mapping[str, str]) -> dict[str, object]:
    now = vm.read(target, networks)
    return {
        key: value
        for key, value in target.items()
        # a protocol is removed with its adapter, and vCenter's own choice cannot be set
        if now[key] != value and not (key.startswith(ROCE_VERSION) and not value)
    }


def _has_to_stop(vm: ExistingVm, terms: Terms, changes: Mapping[str, object]) -> str:
    held = while_off(changes)
    if not held or not vm.on or terms.allow_power_off:
        return ""
    return (
        f"{terms.path} is running, but {', '.join(held)} can only be changed while it is powered off; set "
        "machine.allow_power_off: true to let rocelab shut it down and start it again, or power it off yourself"
    )


def _unfit(vm: ExistingVm, terms: Terms) -> Iterator[str]:
    if vm.facts.get("config.template"):
        yield "is a template; name it as machine.template to create a VM from it, or choose another VM"
    if terms.host not in ("", vm.host):
        yield f"is on {vm.host}, but machine.host is {terms.host}; move it there, or correct machine.host"
    if vm.hardware_version < terms.least_hardware:
        yield (
            f"has virtual hardware {vm.hardware_version}, but {terms.needs} from {terms.least_hardware} on; "
            "upgrade it in vCenter, which cannot be undone"
        )
    if any(key.startswith(ADAPTER) for key in terms.wanted):
        guest = str(vm.facts.get("config.guestId", ""))
        if not LINUX_64.match(guest):
            yield f"has guest {guest}, but PVRDMA has drivers only for 64-bit Linux; use another VM"
        if vm.host not in terms.hosts:
            yield f"is on {vm.host}, which its rails do not reach; move it to {' or '.join(terms.hosts)}"
    if not terms.several_pvrdma and (others := _other_adapters(vm, terms)):
        yield (
            f"has {others} PVRDMA adapter on another network, but VMware documents one per VM (KB 328676); remove it, "
            "or set machine.several_pvrdma: true"
        )


def _other_adapters(vm: ExistingVm, terms: Terms) -> int:
    ours = set(terms.networks.values())
    wanted = any(key.startswith(ADAPTER) for key in terms.wanted)
    return sum(wanted and group_of(one) not in ours for one in pvrdma_among(vm.devices))

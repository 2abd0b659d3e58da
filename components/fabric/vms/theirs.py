"""VMs that somebody else made: found by name, and read field by field.

Plain functions on a session with the vCenter; the dynamic resources around them are thin. What cannot be put back is no
field: virtual hardware is never raised, since it never goes back.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyVmomi import vim

from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.objects import entity_named
from components.fabric.vcenter.properties import Found, collect, collect_all, known
from components.fabric.vms.hardware import profile_of, pvrdma_among, vgpus_among
from stacks.base import LabError

Values = Mapping[str, object]
RESERVATION, ALL = "memory_reservation_mbytes", "all"
VGPUS = "vgpus"
MARK = "rocelab.starts_again"
"""A setting of the VM's file that stands there while a run of ours has it shut down: a killed run starts nothing."""
ADAPTER, ROCE_VERSION, OPTION = "adapter.", "roce_version.", "option."
"""Before the name of a rail: whether a PVRDMA adapter is on its port group, and with which protocol. Before the name
of a setting of the VM's file: its value."""
PATHS = (
    *("name", "runtime.powerState", "runtime.host", "runtime.connectionState"),
    *(f"config.{name}" for name in ("uuid", "instanceUuid", "template", "version", "firmware", "guestId")),
    *("config.hardware.numCPU", "config.hardware.memoryMB", "config.hardware.device"),
    *("config.memoryAllocation", "config.memoryReservationLockedToMax", "config.extraConfig"),
)


@dataclass(frozen=True, slots=True)
class Theirs:
    """A VM as it is now."""

    machine: vim.VirtualMachine
    facts: Found
    host: str
    """Name of the ESXi host that it is on."""

    @property
    def name(self) -> str:
        """Its name in vCenter."""
        return str(self.facts["name"])

    @property
    def instance(self) -> str:
        """The vCenter's own UUID of it, which it keeps under another name, and on another host."""
        return str(self.facts["config.instanceUuid"])

    @property
    def on(self) -> bool:
        """Whether it runs."""
        return str(self.facts["runtime.powerState"]) == "poweredOn"

    @property
    def marked(self) -> bool:
        """Whether a run of ours shut it down, or was about to, and was killed before it ran again."""
        return bool(self._options().get(MARK))

    @property
    def hardware_version(self) -> int:
        """Of its virtual hardware, such as 17 for vmx-17."""
        number = str(self.facts.get("config.version", "")).rpartition("-")[2]
        return int(number) if number.isdigit() else 0

    @property
    def devices(self) -> Sequence[vim.vm.device.VirtualDevice]:
        """Its virtual devices."""
        return list(self.facts.get("config.hardware.device") or [])

    def read(self, fields: Iterable[str], networks: Mapping[str, str]) -> dict[str, object]:
        """Values of the fields now; of a port group that is not made yet, none has an adapter."""
        return {field: self._value(field, networks) for field in fields}

    def _value(self, field: str, networks: Mapping[str, str]) -> object:
        kind, _, rest = field.partition(".")
        adapters = self.adapters(networks.get(rest, ""))
        values: Mapping[str, Callable[[], object]] = {
            "cpus": lambda: int(self.facts["config.hardware.numCPU"]),
            "memory_mbytes": lambda: int(self.facts["config.hardware.memoryMB"]),
            RESERVATION: self._reservation,
            VGPUS: lambda: ",".join(sorted(profile_of(one) for one in vgpus_among(self.devices))),
            OPTION[:-1]: lambda: self._options().get(rest, ""),
            ADAPTER[:-1]: lambda: bool(adapters),
            ROCE_VERSION[:-1]: lambda: ",".join(sorted({str(one.deviceProtocol or "") for one in adapters})),
        }
        return values[kind]()

    def _reservation(self) -> object:
        if self.facts.get("config.memoryReservationLockedToMax"):
            return ALL
        return int(getattr(self.facts.get("config.memoryAllocation"), "reservation", None) or 0)

    def _options(self) -> dict[str, str]:
        return {one.key: str(one.value) for one in self.facts.get("config.extraConfig") or []}

    def adapters(self, network: str) -> list[vim.vm.device.VirtualVmxnet3Vrdma]:
        """Its PVRDMA adapters on a port group."""
        return [one for one in pvrdma_among(self.devices) if network and group_of(one) == network]


def by_name(vcenter: VCenter, path: str) -> Theirs:
    """The VM of a path `datacenter/name`.

    Raises:
        LabError: when there is none of that name, or more than one.
    """
    datacenter, _, name = path.partition("/")
    place = entity_named(vcenter, vim.Datacenter, datacenter, None)
    there = collect_all(vcenter.content, vim.VirtualMachine, ["name", "parent", "runtime.host"], place)
    named = [(machine, found) for machine, found in there if found.get("name") == name]
    if len(named) == 1:
        return _looked_at(vcenter, named[0][0])
    if named:
        where = " and ".join(sorted(_where(vcenter, found) for _, found in named))
        raise LabError(
            f"{path}: there are {len(named)} VMs of that name, {where}. Nothing tells which one is meant: rename one "
            "of them in vCenter, and write the right name as machine.existing"
        )
    near = difflib.get_close_matches(name, [str(found.get("name")) for _, found in there], n=3)
    raise LabError(
        f"{path}: there is no VM of that name that our user may see; "
        + (f"there is {', '.join(near)}" if near else f"none of {len(there)} is called anything like it")
        + ". Mend machine.existing, or give a template and have one made"
    )


def by_instance(vcenter: VCenter, instance: str) -> Theirs | None:
    """The VM that was found before, whatever it is called now; None when it is gone."""
    found: vim.VirtualMachine | None = known(vcenter.content, "searchIndex").FindByUuid(None, instance, True, True)
    return _looked_at(vcenter, found) if found is not None else None


def still_there(vcenter: VCenter, instance: str, path: str) -> Theirs:
    """The same VM where it has to be there.

    Raises:
        LabError: when it is gone.
    """
    found = by_instance(vcenter, instance)
    if found is None:
        raise LabError(f"{path} is gone from the vCenter: run it again with --refresh")
    return found


def group_of(adapter: vim.vm.device.VirtualEthernetCard) -> str:
    """Managed object id of the port group that an adapter is on; empty where it is on none of a distributed switch."""
    port = getattr(adapter.backing, "port", None)
    return str(getattr(port, "portgroupKey", None) or "")


def _looked_at(vcenter: VCenter, machine: vim.VirtualMachine) -> Theirs:
    facts = collect(vcenter.content, [machine], PATHS)[0]
    if "config.instanceUuid" not in facts:
        # its file cannot be read, and whatever is read then looks like a VM that has nothing
        raise LabError(
            f"{facts.get('name', machine)} is {facts.get('runtime.connectionState', 'gone')} in the vCenter: its "
            "settings cannot be read. Bring its host or datastore back, and run it again"
        )
    host = facts.get("runtime.host")
    name = collect(vcenter.content, [host], ["name"])[0].get("name", "") if host is not None else ""
    return Theirs(machine, facts, str(name))


def _where(vcenter: VCenter, found: Found) -> str:
    folder, host = found.get("parent"), found.get("runtime.host")
    names = [
        str(collect(vcenter.content, [one], ["name"])[0].get("name", "?")) if one is not None else "?"
        for one in (folder, host)
    ]
    return f"one in folder {names[0]} on {names[1]}"

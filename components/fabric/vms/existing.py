"""VMs that rocelab did not create: found by name, read, and compared with the lab file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyVmomi import vim

from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.properties import Found, collect, named
from components.fabric.vms.hardware import profile_of, pvrdma_among, vgpus_among
from components.provider.base import Properties
from stacks.base import LabError
from stacks.machines import LINUX_64

RESERVATION, ALL = "memory_reservation_mbytes", "all"
VGPUS = "vgpus"
OPTION = "option."
"""Prefix of a field that is a setting of the VM, before the setting's name."""
DIALOG = {
    "cpus": "CPU",
    "memory_mbytes": "Memory",
    RESERVATION: "Memory, Reserve all guest memory",
    VGPUS: "Add new device, PCI Device, the vGPU profile",
}
"""Where vCenter sets a field, below Edit Settings."""
PATHS = (
    *("name", "runtime.host", "runtime.connectionState"),
    *(f"config.{name}" for name in ("uuid", "template", "version", "firmware", "guestId")),
    *("config.hardware.numCPU", "config.hardware.memoryMB", "config.hardware.device"),
    *("config.memoryAllocation", "config.memoryReservationLockedToMax", "config.extraConfig"),
)


class DeclaredMachine(Properties):
    path: str
    """`datacenter/name`."""
    fields: dict[str, str | int]
    """What the lab file sets, by the names of `ExistingVm.value`."""
    rails: tuple[str, ...]
    """It needs a PVRDMA adapter on the port group of each."""
    roce_version: str = ""
    """Of these adapters; empty: any."""
    hosts: tuple[str, ...]
    """The ESXi hosts that its rails reach."""
    host: str = ""
    """The ESXi host that it must be on; empty: any of these."""
    least_hardware: int
    """Oldest virtual hardware that it may have."""
    needs: str
    """What needs that virtual hardware."""


@dataclass(frozen=True, slots=True)
class ExistingVm:
    """A VM as it is now."""

    facts: Found
    host: str
    """Name of the ESXi host that it is on."""

    @property
    def hardware_version(self) -> int:
        """Virtual hardware version, such as 17 for vmx-17."""
        number = str(self.facts.get("config.version", "")).rpartition("-")[2]
        return int(number) if number.isdigit() else 0

    @property
    def devices(self) -> Sequence[vim.vm.device.VirtualDevice]:
        return list(self.facts.get("config.hardware.device") or [])

    def value(self, field: str) -> str | int:
        """Current value of a declared field."""
        if field == "cpus":
            return int(self.facts["config.hardware.numCPU"])
        if field == "memory_mbytes":
            return int(self.facts["config.hardware.memoryMB"])
        if field == RESERVATION:
            return self._reservation()
        if field == VGPUS:
            return ",".join(sorted(profile_of(device) for device in vgpus_among(self.devices)))
        return self._options().get(field.removeprefix(OPTION), "")

    def _reservation(self) -> str | int:
        if self.facts.get("config.memoryReservationLockedToMax"):
            return ALL
        return int(getattr(self.facts.get("config.memoryAllocation"), "reservation", None) or 0)

    def _options(self) -> dict[str, str]:
        return {
            option.key: str(option.value) for option in self.facts.get("config.extraConfig") or []
        }

    def adapters(self, network: str) -> list[vim.vm.device.VirtualVmxnet3Vrdma]:
        """Its PVRDMA adapters on a port group."""
        adapters = []
        for adapter in pvrdma_among(self.devices):
            if network and group_of(adapter) == network:
                adapters.append(adapter)
        return adapters


def by_name(vcenter: VCenter, path: str) -> ExistingVm:
    """The VM of a path `datacenter/name`.

    Raises:
        LabError: when there is none of that name, or more than one.
    """
    datacenter, _, name = path.partition("/")
    place, _ = named(vcenter.content, vim.Datacenter, datacenter)
    try:
        machine, _ = named(vcenter.content, vim.VirtualMachine, name, place)
    except LabError as error:
        raise LabError(f"machine.existing: {error}") from None
    return _read(vcenter, machine)


def group_of(adapter: vim.vm.device.VirtualEthernetCard) -> str:
    """Managed object ID of the adapter's port group; empty when it is on no distributed switch."""
    port = getattr(adapter.backing, "port", None)
    return str(getattr(port, "portgroupKey", None) or "")


def _read(vcenter: VCenter, machine: vim.VirtualMachine) -> ExistingVm:
    facts = collect(vcenter.content, [machine], PATHS)[0]
    if "config.uuid" not in facts:
        # its settings cannot be read, and would look like those of a VM without any
        raise LabError(
            f"{facts.get('name', machine)} is {facts.get('runtime.connectionState', 'gone')} in "
            "the vCenter, so its settings cannot be read; bring its host or datastore back"
        )
    host = facts.get("runtime.host")
    name = ""
    if host is not None:
        name = collect(vcenter.content, [host], ["name"])[0].get("name", "")
    return ExistingVm(facts, str(name))


def differences(
    vm: ExistingVm,
    declared: DeclaredMachine,
    networks: Mapping[str, str],
    port_groups: Mapping[str, str],
) -> Iterator[str]:
    """What is wrong with a VM, each with the remedy.

    Args:
        vm: the VM.
        declared: what the lab file says of it.
        networks: managed object ID of each port group that exists, by rail.
        port_groups: name of the port group by rail.
    """
    if vm.facts.get("config.template"):
        yield "is a template; name it as machine.template, or choose another VM"
        return
    if declared.host not in ("", vm.host):
        yield (
            f"is on {vm.host}, but machine.host is {declared.host}; move it there, or correct "
            "machine.host"
        )
    if vm.hardware_version < declared.least_hardware:
        yield (
            f"has virtual hardware {vm.hardware_version}, but {declared.needs} from "
            f"{declared.least_hardware} on; upgrade it, which cannot be undone"
        )
    firmware = str(vm.facts.get("config.firmware"))
    if declared.fields.get(VGPUS) and firmware != "efi":
        yield (
            f"has firmware {firmware}, which cannot map a vGPU's memory; use a VM with firmware efi"
        )
    for field, value in declared.fields.items():
        now = vm.value(field)
        if now != value:
            place = (
                DIALOG.get(field)
                or f"VM Options, Configuration Parameters, {field.removeprefix(OPTION)}"
            )
            yield f"has {field} {now!r}, but should have {value!r}: Edit Settings, {place}"
    if declared.rails:
        yield from _adapters(vm, declared, networks, port_groups)


def _adapters(
    vm: ExistingVm,
    declared: DeclaredMachine,
    networks: Mapping[str, str],
    port_groups: Mapping[str, str],
) -> Iterator[str]:
    guest = str(vm.facts.get("config.guestId", ""))
    if not LINUX_64.match(guest):
        yield f"has guest {guest}, but PVRDMA has drivers only for 64-bit Linux; use another VM"
    if vm.host not in declared.hosts:
        yield (
            f"is on {vm.host}, which its rails do not reach; move it to "
            f"{' or '.join(declared.hosts)}"
        )
    for rail in declared.rails:
        if rail not in networks:
            continue
        adapters = vm.adapters(networks[rail])
        if not adapters:
            yield (
                f"has no PVRDMA adapter on port group {port_groups[rail]}, which {rail} needs: "
                "power it off, then Edit Settings, Add new device, Network Adapter, adapter type "
                "PVRDMA"
            )
        for adapter in adapters:
            version = str(adapter.deviceProtocol or "")
            if declared.roce_version not in ("", version):
                yield (
                    f"has a PVRDMA adapter on port group {port_groups[rail]} with device protocol "
                    f"{version or 'unset'}, but should have {declared.roce_version}: power it "
                    "off, then Edit Settings, Network Adapter, Device Protocol"
                )

"""VMs that rocelab did not create: found by name, read and changed field by field.

Only what can be restored is a field: virtual hardware is never upgraded, because that cannot be undone.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyVmomi import vim

from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.objects import entity_named
from components.fabric.vcenter.power import finish, is_on, turn_off, turn_on
from components.fabric.vcenter.properties import Found, collect, collect_all, known
from components.fabric.vms.hardware import Hardware, device_changes, profile_of, pvrdma_among, vgpus_among
from stacks.base import LabError

Values = Mapping[str, object]
RESERVATION, ALL = "memory_reservation_mbytes", "all"
VGPUS = "vgpus"
MARK = "rocelab.starts_again"
"""A setting of the VM while rocelab has it shut down, so that the run after an interrupted one starts it again."""
ADAPTER, ROCE_VERSION, OPTION = "adapter.", "roce_version.", "option."
"""Prefixes of fields. With the name of a rail: whether a PVRDMA adapter is on its port group, and its protocol. With
the name of a VM setting: its value."""
PATHS = (
    *("name", "runtime.powerState", "runtime.host", "runtime.connectionState"),
    *(f"config.{name}" for name in ("uuid", "instanceUuid", "template", "version", "firmware", "guestId")),
    *("config.hardware.numCPU", "config.hardware.memoryMB", "config.hardware.device"),
    *("config.memoryAllocation", "config.memoryReservationLockedToMax", "config.extraConfig"),
)


@dataclass(frozen=True, slots=True)
class ExistingVm:
    """A VM as it is now."""

    machine: vim.VirtualMachine
    facts: Found
    host: str
    """Name of the ESXi host that it is on."""

    @property
    def name(self) -> str:
        return str(self.facts["name"])

    @property
    def instance(self) -> str:
        """VCenter's UUID of the VM, which stays when the VM is renamed or moved."""
        return str(self.facts["config.instanceUuid"])

    @property
    def on(self) -> bool:
        return str(self.facts["runtime.powerState"]) == "poweredOn"

    @property
    def marked(self) -> bool:
        """Whether an interrupted run shut the VM down, or was about to."""
        return bool(self._options().get(MARK))

    @property
    def hardware_version(self) -> int:
        """Virtual hardware version, such as 17 for vmx-17."""
        number = str(self.facts.get("config.version", "")).rpartition("-")[2]
        return int(number) if number.isdigit() else 0

    @property
    def devices(self) -> Sequence[vim.vm.device.VirtualDevice]:
        return list(self.facts.get("config.hardware.device") or [])

    def read(self, fields: Iterable[str], networks: Mapping[str, str]) -> dict[str, object]:
        """Current values of the fields; a port group that does not exist yet has no adapter."""
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


def by_name(vcenter: VCenter, path: str) -> ExistingVm:
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
            f"{path}: {len(named)} VMs have that name: {where}; rename one of them in vCenter, and name the right one "
            "in machine.existing"
        )
    near = difflib.get_close_matches(name, [str(found.get("name")) for _, found in there], n=3)
    raise LabError(
        f"{path}: fabric.user sees no VM of that name; "
        + (f"similar names: {', '.join(near)}" if near else f"none of {len(there)} has a similar name")
        + ". Correct machine.existing, or set machine.template to create a VM"
    )


def by_instance(vcenter: VCenter, instance: str) -> ExistingVm | None:
    """The VM by its UUID, whatever its name is now; None when it no longer exists."""
    found: vim.VirtualMachine | None = known(vcenter.content, "searchIndex").FindByUuid(None, instance, True, True)
    return _looked_at(vcenter, found) if found is not None else None


def still_there(vcenter: VCenter, instance: str, path: str) -> ExistingVm:
    """The VM by its UUID.

    Raises:
        LabError: when it no longer exists.
    """
    found = by_instance(vcenter, instance)
    if found is None:
        raise LabError(f"{path} no longer exists in the vCenter; run again with --refresh")
    return found


def group_of(adapter: vim.vm.device.VirtualEthernetCard) -> str:
    """Managed object ID of the adapter's port group; empty when it is on no distributed switch."""
    port = getattr(adapter.backing, "port", None)
    return str(getattr(port, "portgroupKey", None) or "")


def _looked_at(vcenter: VCenter, machine: vim.VirtualMachine) -> ExistingVm:
    facts = collect(vcenter.content, [machine], PATHS)[0]
    if "config.instanceUuid" not in facts:
        # its settings cannot be read, and would look like those of a VM without any
        raise LabError(
            f"{facts.get('name', machine)} is {facts.get('runtime.connectionState', 'gone')} in the vCenter, so its "
            "settings cannot be read; bring its host or datastore back, then run again"
        )
    host = facts.get("runtime.host")
    name = collect(vcenter.content, [host], ["name"])[0].get("name", "") if host is not None else ""
    return ExistingVm(machine, facts, str(name))


def _where(vcenter: VCenter, found: Found) -> str:
    folder, host = found.get("parent"), found.get("runtime.host")
    names = [
        str(collect(vcenter.content, [one], ["name"])[0].get("name", "?")) if one is not None else "?"
        for one in (folder, host)
    ]
    return f"one in folder {names[0]} on {names[1]}"


WHILE_IT_RUNS = frozenset({RESERVATION})
"""What vCenter can change while a VM runs. Some VMs accept more CPUs and memory, but none gives them back."""


def while_off(changes: Iterable[str]) -> list[str]:
    """The fields that can only change while the VM is powered off."""
    return sorted(field for field in changes if field not in WHILE_IT_RUNS)


def put(vcenter: VCenter, vm: ExistingVm, changes: Values, networks: Mapping[str, str], *, guest_s: int) -> None:
    """Sets fields. Shuts a running VM down if a field needs that, and starts it again.

    The caller has checked that the VM may be shut down. A VM that an interrupted run left off is started in any case.
    """
    spec = _spec(vm, changes, networks, _switches(vcenter) if any(map(_is_adapter, changes)) else {})
    has_to_stop = vm.on and bool(while_off(changes))
    if has_to_stop and not vm.marked:
        _mark(vcenter, vm, "true")
    said: list[str] = []
    try:
        if has_to_stop:
            turn_off(vcenter, vm.machine, vm.name)
        if changes:
            what = "change " + ", ".join(sorted(changes))
            finish(vcenter, lambda: vm.machine.ReconfigVM_Task(spec), vm.name, what)
    except LabError as refused:
        said.append(str(refused))
    finally:
        if has_to_stop or vm.marked:  # refused or not: it ran before
            said += _runs_again(vcenter, vm, guest_s)
    if said:
        raise LabError("\n".join(said))


def _runs_again(vcenter: VCenter, vm: ExistingVm, guest_s: int) -> list[str]:
    """Starts the VM if it is off, and removes the mark once it runs; returns what went wrong."""
    said = []
    try:
        if not is_on(vcenter, vm.machine):
            turn_on(vcenter, vm.machine, vm.name, guest_s=guest_s)
    except LabError as error:
        said.append(str(error))
    if is_on(vcenter, vm.machine):  # it may run although its guest does not answer
        try:
            _mark(vcenter, vm, "")
        except LabError as error:
            said.append(str(error))
    return said


def _mark(vcenter: VCenter, vm: ExistingVm, value: str) -> None:
    spec = vim.vm.ConfigSpec(extraConfig=[vim.option.OptionValue(key=MARK, value=value)])
    what = "record that it must run again" if value else "remove the record that it must run again"
    finish(vcenter, lambda: vm.machine.ReconfigVM_Task(spec), vm.name, what)


def _is_adapter(field: str) -> bool:
    return field.startswith(ADAPTER)


def _switches(vcenter: VCenter) -> dict[str, str]:
    """UUID of the distributed switch of each port group, by the group's managed object id."""
    asked = ["config.distributedVirtualSwitch"]
    rows = collect_all(vcenter.content, vim.dvs.DistributedVirtualPortgroup, asked)
    return {str(group._GetMoId()): str(found[asked[0]].uuid) for group, found in rows if found.get(asked[0])}


def _spec(
    vm: ExistingVm, changes: Values, networks: Mapping[str, str], switches: Mapping[str, str]
) -> vim.vm.ConfigSpec:
    memory_mbytes = int(str(changes.get("memory_mbytes", vm.facts["config.hardware.memoryMB"])))
    spec = vim.vm.ConfigSpec(
        numCPUs=int(str(changes["cpus"])) if "cpus" in changes else None,
        memoryMB=memory_mbytes if "memory_mbytes" in changes else None,
    )
    if RESERVATION in changes:
        locked = changes[RESERVATION] == ALL
        spec.memoryReservationLockedToMax = locked
        amount_mbytes = memory_mbytes if locked else int(str(changes[RESERVATION]))
        spec.memoryAllocation = vim.ResourceAllocationInfo(reservation=amount_mbytes)
    spec.extraConfig = [
        vim.option.OptionValue(key=field.removeprefix(OPTION), value=str(value))
        for field, value in changes.items()
        if field.startswith(OPTION)
    ]
    spec.deviceChange = _device_specs(vm, changes, networks, switches)
    return spec


def _device_specs(
    vm: ExistingVm, changes: Values, networks: Mapping[str, str], switches: Mapping[str, str]
) -> list[vim.vm.device.VirtualDeviceSpec]:
    specs: list[vim.vm.device.VirtualDeviceSpec] = []
    if VGPUS in changes:
        profiles = tuple(filter(None, str(changes[VGPUS]).split(",")))
        specs += device_changes(vm.devices, Hardware(vgpus=profiles, roce_version=""))
    for number, (field, value) in enumerate(changes.items()):
        kind, _, rail = field.partition(".")
        there = vm.adapters(networks.get(rail, ""))
        version = str(changes.get(ROCE_VERSION + rail) or "")
        if kind == ADAPTER[:-1] and value:
            added = _adapter(networks[rail], switches, version, number)
            specs.append(vim.vm.device.VirtualDeviceSpec(operation="add", device=added))
        elif kind == ADAPTER[:-1]:
            specs += [vim.vm.device.VirtualDeviceSpec(operation="remove", device=one) for one in there]
        elif kind == ROCE_VERSION[:-1] and changes.get(ADAPTER + rail) is None:
            for one in there:
                one.deviceProtocol = str(value)
                specs.append(vim.vm.device.VirtualDeviceSpec(operation="edit", device=one))
    return specs


def _adapter(network: str, switches: Mapping[str, str], version: str, number: int) -> vim.vm.device.VirtualVmxnet3Vrdma:
    if network not in switches:
        raise LabError(f"port group {network} no longer exists in the vCenter; run again with --refresh")
    port = vim.dvs.PortConnection(portgroupKey=network, switchUuid=switches[network])
    backing = vim.vm.device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
    plugged = vim.vm.device.VirtualDevice.ConnectInfo(startConnected=True, allowGuestControl=True, connected=True)
    made = vim.vm.device.VirtualVmxnet3Vrdma(
        key=-200 - number,  # negative keys distinguish new devices; those of vGPUs begin at -100
        backing=backing,
        connectable=plugged,
        addressType="generated",
    )
    if version:
        made.deviceProtocol = version
    return made

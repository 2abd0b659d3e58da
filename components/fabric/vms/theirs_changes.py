"""Changes to a VM that somebody else made, as the vCenter wants them asked for, and what they do to its power."""

from collections.abc import Iterable, Mapping

from pyVmomi import vim

from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.power import finish, is_on, turn_off, turn_on
from components.fabric.vcenter.properties import collect_all
from components.fabric.vms.hardware import Hardware, device_changes
from components.fabric.vms.theirs import ADAPTER, ALL, MARK, OPTION, RESERVATION, ROCE_VERSION, VGPUS, Theirs, Values
from stacks.base import LabError

WHILE_IT_RUNS = frozenset({RESERVATION})
"""What a vCenter changes of a machine that is on. CPUs and memory may be added to some, and taken back from none."""


def while_off(changes: Iterable[str]) -> list[str]:
    """The fields among these for which a machine has to be off."""
    return sorted(field for field in changes if field not in WHILE_IT_RUNS)


def put(vcenter: VCenter, theirs: Theirs, changes: Values, networks: Mapping[str, str], *, guest_s: int) -> None:
    """Sets fields. A machine that runs is shut down where that has to be, and runs again afterwards.

    Who calls it has made sure that it may. One that a killed run of ours has left off is started, whatever changes.
    """
    spec = _spec(theirs, changes, networks, _switches(vcenter) if any(map(_is_adapter, changes)) else {})
    has_to_stop = theirs.on and bool(while_off(changes))
    if has_to_stop and not theirs.marked:
        _mark(vcenter, theirs, "true")
    said: list[str] = []
    try:
        if has_to_stop:
            turn_off(vcenter, theirs.machine, theirs.name)
        if changes:
            what = "change " + ", ".join(sorted(changes))
            finish(vcenter, lambda: theirs.machine.ReconfigVM_Task(spec), theirs.name, what)
    except LabError as refused:
        said.append(str(refused))
    finally:
        if has_to_stop or theirs.marked:  # refused or not: it ran before
            said += _runs_again(vcenter, theirs, guest_s)
    if said:
        raise LabError("\n".join(said))


def _runs_again(vcenter: VCenter, theirs: Theirs, guest_s: int) -> list[str]:
    """Starts it where it is off, and takes the mark away once it runs; what went wrong with that."""
    said = []
    try:
        if not is_on(vcenter, theirs.machine):
            turn_on(vcenter, theirs.machine, theirs.name, guest_s=guest_s)
    except LabError as error:
        said.append(str(error))
    if is_on(vcenter, theirs.machine):  # it may run, and its guest not answer
        try:
            _mark(vcenter, theirs, "")
        except LabError as error:
            said.append(str(error))
    return said


def _mark(vcenter: VCenter, theirs: Theirs, value: str) -> None:
    spec = vim.vm.ConfigSpec(extraConfig=[vim.option.OptionValue(key=MARK, value=value)])
    what = "note that it is to run again" if value else "take the note away that it is to run again"
    finish(vcenter, lambda: theirs.machine.ReconfigVM_Task(spec), theirs.name, what)


def _is_adapter(field: str) -> bool:
    return field.startswith(ADAPTER)


def _switches(vcenter: VCenter) -> dict[str, str]:
    """UUID of the distributed switch of each port group, by the group's managed object id."""
    asked = ["config.distributedVirtualSwitch"]
    rows = collect_all(vcenter.content, vim.dvs.DistributedVirtualPortgroup, asked)
    return {str(group._GetMoId()): str(found[asked[0]].uuid) for group, found in rows if found.get(asked[0])}


def _spec(
    theirs: Theirs, changes: Values, networks: Mapping[str, str], switches: Mapping[str, str]
) -> vim.vm.ConfigSpec:
    memory_mbytes = int(str(changes.get("memory_mbytes", theirs.facts["config.hardware.memoryMB"])))
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
    spec.deviceChange = _device_specs(theirs, changes, networks, switches)
    return spec


def _device_specs(
    theirs: Theirs, changes: Values, networks: Mapping[str, str], switches: Mapping[str, str]
) -> list[vim.vm.device.VirtualDeviceSpec]:
    specs: list[vim.vm.device.VirtualDeviceSpec] = []
    if VGPUS in changes:
        profiles = tuple(filter(None, str(changes[VGPUS]).split(",")))
        specs += device_changes(theirs.devices, Hardware(vgpus=profiles, roce_version=""))
    for number, (field, value) in enumerate(changes.items()):
        kind, _, rail = field.partition(".")
        there = theirs.adapters(networks.get(rail, ""))
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
        raise LabError(f"port group {network} is gone from the vCenter: run it again with --refresh")
    port = vim.dvs.PortConnection(portgroupKey=network, switchUuid=switches[network])
    backing = vim.vm.device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
    plugged = vim.vm.device.VirtualDevice.ConnectInfo(startConnected=True, allowGuestControl=True, connected=True)
    made = vim.vm.device.VirtualVmxnet3Vrdma(
        key=-200 - number,  # new devices are told apart by negative keys; those of vGPUs begin at -100
        backing=backing,
        connectable=plugged,
        addressType="generated",
    )
    if version:
        made.deviceProtocol = version
    return made

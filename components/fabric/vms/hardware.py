"""What the vSphere provider cannot set on a VM: vGPUs, and the RoCE version of its PVRDMA
adapters.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from pyVmomi import vim

from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.power import finish, is_on, turn_off, turn_on
from components.fabric.vcenter.properties import collect, known
from stacks.base import LabError
from stacks.frozen import frozen


@frozen
class Hardware:
    """vGPUs and RoCE version of a VM."""

    vgpus: tuple[str, ...]
    """Profiles, one entry per vGPU, sorted."""
    roce_version: str
    """Of every PVRDMA adapter; empty: vCenter's default."""


class LeftOffError(LabError):
    """rocelab has powered a VM off, and cannot power it on again."""


@frozen
class HardwareChange:
    """What a change of hardware may do to the VM."""

    new: bool
    """Created in this run: nothing uses it yet, and it is left running."""
    may_restart: bool
    guest_s: int
    """How long its guest may take to come back; 0 without guest tools."""


def observe(vcenter: VCenter, uuid: str) -> Hardware | None:
    """The VM's hardware; None when the VM no longer exists."""
    machine = find(vcenter, uuid)
    if machine is None:
        return None
    devices = _devices(vcenter, machine)
    versions = {str(device.deviceProtocol or "") for device in pvrdma_among(devices)}
    if len(versions) == 1:
        roce_version = versions.pop()
    else:
        roce_version = ",".join(sorted(versions))
    return Hardware(
        vgpus=tuple(sorted(profile_of(device) for device in vgpus_among(devices))),
        roce_version=roce_version,
    )


def offers(vcenter: VCenter, hosts: Iterable[str]) -> dict[str, list[str]]:
    """The vGPU profiles that each host offers."""
    names = list(hosts)
    properties = collect(
        vcenter.content, [vcenter.host(name) for name in names], ["config.sharedPassthruGpuTypes"]
    )
    profiles = {}
    for name, offered in zip(names, properties, strict=True):
        profiles[name] = sorted(offered.get("config.sharedPassthruGpuTypes") or [])
    return profiles


def refuse_unknown_profiles(
    vcenter: VCenter, name: str, profiles: Iterable[str], hosts: Sequence[str]
) -> str:
    """Why a VM cannot have these vGPUs on every host that it may run on; empty when it can."""
    required = sorted(set(profiles))
    offered = offers(vcenter, hosts) if required else {}
    for profile in required:
        lacking = [host for host, profiles in offered.items() if profile not in profiles]
        if lacking:
            known = (
                ", ".join(offered[lacking[0]])
                or "none: no vGPU manager, or host graphics are not Shared Direct"
            )
            having = [host for host in offered if host not in lacking]
            remedy = "or check the host's graphics settings"
            if having:
                remedy = f"or pin it to {having[0]} (machine.host)"
            return (
                f"{name}: {lacking[0]} does not offer vGPU {profile}; it offers {known}. Choose "
                f"one of these, {remedy}"
            )
    return ""


def put(vcenter: VCenter, uuid: str, name: str, declared: Hardware, change: HardwareChange) -> None:
    """Sets the hardware with the VM powered off, and reads it back.

    Raises:
        LabError: when the VM no longer exists, may not be restarted, or has other hardware
            afterwards.
    """
    machine = find(vcenter, uuid)
    if machine is None:
        raise LabError(f"{name}: its VM no longer exists in the vCenter; run again with --refresh")
    specs = device_changes(_devices(vcenter, machine), declared)
    running = is_on(vcenter, machine)
    if specs:
        if running and not (change.new or change.may_restart):
            raise LabError(f"{name} is running, but {restart_text(declared)}")
        if running:
            turn_off(vcenter, machine, name)
        spec = vim.vm.ConfigSpec(deviceChange=specs)
        try:
            finish(vcenter, lambda: machine.ReconfigVM_Task(spec), name, f"set {_words(declared)}")
        except LabError:
            if running:  # with its old hardware
                _turn_on(vcenter, machine, name, change)
            raise
    if (change.new or running) and not is_on(vcenter, machine):
        _turn_on(vcenter, machine, name, change)
    _refuse_other_hardware(observe(vcenter, uuid), name, declared)


def _refuse_other_hardware(actual: Hardware | None, name: str, declared: Hardware) -> None:
    if actual is None or not satisfied(actual, declared):
        raise LabError(
            f"{name} has {_words(actual) if actual else 'vanished'} after rocelab set "
            f"{_words(declared)}"
        )


def _turn_on(
    vcenter: VCenter, machine: vim.VirtualMachine, name: str, change: HardwareChange
) -> None:
    try:
        turn_on(vcenter, machine, name, guest_s=change.guest_s)
    except LabError as error:
        if is_on(vcenter, machine):
            raise
        raise LeftOffError(f"{error}. It is powered off now; the next run powers it on") from None


def satisfied(actual: Hardware, declared: Hardware) -> bool:
    return actual.vgpus == declared.vgpus and declared.roce_version in ("", actual.roce_version)


def restart_text(declared: Hardware) -> str:
    """Why rocelab does not change a running VM, and what permits it."""
    return (
        f"{_words(declared)} can only be set while it is powered off; drain it, then set "
        "hosts.reboot: roll, or power it off yourself"
    )


def find(vcenter: VCenter, uuid: str) -> vim.VirtualMachine | None:
    """A VM by its BIOS UUID, which the vSphere provider uses as its ID; None when it no longer
    exists.
    """
    machine: vim.VirtualMachine | None = known(vcenter.content, "searchIndex").FindByUuid(
        None, uuid, True, False
    )
    return machine


def device_changes(
    devices: Sequence[vim.vm.device.VirtualDevice], declared: Hardware
) -> list[vim.vm.device.VirtualDeviceSpec]:
    """Changes that turn these devices into the declared ones; other kinds of devices stay."""
    missing = Counter(declared.vgpus)
    specs = []
    for device in vgpus_among(devices):
        if missing[profile_of(device)] > 0:
            missing[profile_of(device)] -= 1
        else:
            specs.append(vim.vm.device.VirtualDeviceSpec(operation="remove", device=device))
    for number, profile in enumerate(sorted(missing.elements())):
        backing = vim.vm.device.VirtualPCIPassthrough.VmiopBackingInfo(vgpu=profile)
        # negative keys distinguish new devices
        added = vim.vm.device.VirtualPCIPassthrough(key=-100 - number, backing=backing)
        specs.append(vim.vm.device.VirtualDeviceSpec(operation="add", device=added))
    for adapter in pvrdma_among(devices):
        if declared.roce_version not in ("", adapter.deviceProtocol):
            adapter.deviceProtocol = declared.roce_version
            specs.append(vim.vm.device.VirtualDeviceSpec(operation="edit", device=adapter))
    return specs


def _devices(vcenter: VCenter, machine: vim.VirtualMachine) -> list[vim.vm.device.VirtualDevice]:
    path = "config.hardware.device"
    return list(collect(vcenter.content, [machine], [path])[0].get(path) or [])


def vgpus_among(
    devices: Sequence[vim.vm.device.VirtualDevice],
) -> list[vim.vm.device.VirtualPCIPassthrough]:
    """The vGPUs among the devices, without other PCI devices."""
    shared = vim.vm.device.VirtualPCIPassthrough.VmiopBackingInfo
    vgpus = []
    for device in devices:
        if isinstance(device, vim.vm.device.VirtualPCIPassthrough) and isinstance(
            device.backing, shared
        ):
            vgpus.append(device)
    return vgpus


def profile_of(device: vim.vm.device.VirtualPCIPassthrough) -> str:
    return str(getattr(device.backing, "vgpu", ""))


def pvrdma_among(
    devices: Sequence[vim.vm.device.VirtualDevice],
) -> list[vim.vm.device.VirtualVmxnet3Vrdma]:
    return [device for device in devices if isinstance(device, vim.vm.device.VirtualVmxnet3Vrdma)]


def _words(hardware: Hardware) -> str:
    vgpus = ", ".join(
        f"{count} x {profile}" for profile, count in sorted(Counter(hardware.vgpus).items())
    )
    return " and ".join(filter(None, [vgpus or "no vGPU", hardware.roce_version]))

"""vGPUs and RoCE version of one VM as a resource."""

from dataclasses import replace
from typing import Annotated

from components.fabric import login
from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.power import is_on
from components.fabric.vms.hardware import (
    Hardware,
    HardwareChange,
    LeftOffError,
    find,
    observe,
    put,
    refuse_unknown_profiles,
    restart_text,
    satisfied,
)
from components.provider import log
from components.provider.base import (
    REPLACES,
    Failure,
    PartialError,
    Properties,
    Resource,
    changed,
)


class HardwareInputs(Properties):
    name: str
    machine: Annotated[str, REPLACES]
    """UUID of the VM."""
    hosts: tuple[str, ...]
    """The ESXi hosts that it may run on."""
    vgpus: tuple[str, ...]
    """Profiles, one entry per vGPU, sorted."""
    roce_version: str
    """Of every PVRDMA adapter; empty: vCenter's default."""
    may_restart: bool
    guest_s: int
    """How long its guest may take to come back; 0 without guest tools."""

    @property
    def hardware(self) -> Hardware:
        return Hardware(vgpus=self.vgpus, roce_version=self.roce_version)


class HardwareState(HardwareInputs):
    now: Hardware
    """What the VM has; the inputs stay as declared, also when someone changes the VM."""
    left_off: bool = False
    """Whether rocelab has powered it off and could not power it on again."""


class MachineHardware(Resource[HardwareInputs, HardwareState]):
    """vGPUs and RoCE version of one VM. With neither declared, it detects what is added by hand."""

    async def check(self, old: HardwareInputs | None, new: HardwareInputs) -> list[Failure]:
        """Refuses in a preview profiles that a host lacks, and restarts without permission."""
        if not new.vgpus and not _declaration_changed(old, new):
            return []  # nothing to look up
        with login.configured_session(self.config) as vcenter:
            reason = refusal(vcenter, old, new)
        return [Failure("vgpus", reason)] if reason else []

    async def diff(self, old: HardwareState, new: HardwareInputs) -> list[str]:
        names = [name for name in changed(old, new) if name == "machine"]
        if old.now.vgpus != new.vgpus:
            names.append("vgpus")
            before, after = list(old.now.vgpus), list(new.vgpus)
            log.info(f"{new.name}: vgpus {before} => {after}: restarts the machine")
        # without a declared version, vCenter's own is no difference
        if new.roce_version not in ("", old.now.roce_version):
            names.append("roce_version")
            before_after = f"{old.now.roce_version!r} => {new.roce_version!r}"
            log.info(f"{new.name}: roce_version {before_after}: restarts the machine")
        if old.left_off:
            names.append("left_off")
        return names

    async def create(self, new: HardwareInputs) -> HardwareState:
        with login.configured_session(self.config) as vcenter:
            _put(vcenter, new, new=True)
        return HardwareState(**dict(new), now=new.hardware)

    def identify(self, state: HardwareState) -> str:
        return state.machine

    async def read(self, old: HardwareState) -> HardwareState | None:
        with login.configured_session(self.config) as vcenter:
            now = observe(vcenter, old.machine)
        if now is None:
            return None
        return old.model_copy(update={"now": _compared(now, old)})

    async def update(self, old: HardwareState, new: HardwareInputs) -> HardwareState:
        """Sets what differs; a VM that may not be restarted keeps what it has."""
        with login.configured_session(self.config) as vcenter:
            kept = kept_running(vcenter, new)
            if kept is None:
                try:
                    _put(vcenter, new, new=old.left_off)
                except LeftOffError as error:
                    now = _compared(observe(vcenter, new.machine) or old.now, new)
                    left = HardwareState(**dict(new), now=now, left_off=True)
                    raise PartialError(str(error), left) from None
            else:
                log.warn(f"{new.name} was changed by hand: {restart_text(new.hardware)}")
        return HardwareState(**dict(new), now=_compared(kept or new.hardware, new))

    async def delete(self, old: HardwareState) -> None:
        """Removes the vGPUs. A RoCE version stays: the VM is deleted next, so it is not restarted
        for that.
        """
        change = HardwareChange(new=False, may_restart=True, guest_s=0)
        with login.configured_session(self.config) as vcenter:
            if find(vcenter, old.machine) is not None:
                put(vcenter, old.machine, old.name, Hardware(vgpus=(), roce_version=""), change)


def refusal(vcenter: VCenter, old: HardwareInputs | None, new: HardwareInputs) -> str:
    """Why the VM cannot get this hardware; empty when it can."""
    if reason := refuse_unknown_profiles(vcenter, new.name, new.vgpus, new.hosts):
        return reason
    if _declaration_changed(old, new) and kept_running(vcenter, new):
        return f"{new.name} is running, but {restart_text(new.hardware)}"
    return ""


def kept_running(vcenter: VCenter, new: HardwareInputs) -> Hardware | None:
    """The other hardware of a running VM that may not be restarted; None when nothing keeps it."""
    machine = find(vcenter, new.machine)
    if new.may_restart or machine is None or not is_on(vcenter, machine):
        return None
    now = observe(vcenter, new.machine)
    if now is None or satisfied(now, new.hardware):
        return None
    return now


def _put(vcenter: VCenter, declared: HardwareInputs, *, new: bool) -> None:
    change = HardwareChange(new=new, may_restart=declared.may_restart, guest_s=declared.guest_s)
    put(vcenter, declared.machine, declared.name, declared.hardware, change)


def _declaration_changed(old: HardwareInputs | None, new: HardwareInputs) -> bool:
    """Whether the lab file changed for the same VM; a change by hand does not count."""
    if old is None or "machine" in new.unknown:
        return False
    return old.machine == new.machine and old.hardware != new.hardware


def _compared(now: Hardware, declared: HardwareInputs) -> Hardware:
    """Without a declared RoCE version, vCenter's own does not count."""
    if declared.roce_version:
        return now
    return replace(now, roce_version="")

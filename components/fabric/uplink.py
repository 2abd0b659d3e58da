"""The physical NIC of an ESXi host that becomes an uplink: found once, then watched for drift."""

from components.fabric import login
from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.nics import Nic, choose
from components.provider.base import Properties, Resource, changed
from stacks.base import LabError
from stacks.fabric import UplinkChoice


class UplinkInputs(Properties):
    host: str
    switch: str
    choice: UplinkChoice
    """What the lab file says of the NIC."""
    rdma: bool
    """Whether the NIC needs an RDMA device."""


class UplinkState(UplinkInputs):
    device: str
    """Such as `vmnic4`."""
    mac: str
    lost: str = ""
    """Why the NIC no longer fits, as a refresh found it."""


class Uplink(Resource[UplinkInputs, UplinkState]):
    """The NIC of one ESXi host for one switch. It finds the NIC, and changes nothing."""

    async def diff(self, old: UplinkState, new: UplinkInputs) -> list[str]:
        """Finds another choice, or a NIC that no longer fits; refuses to change the NIC under
        running VMs.
        """
        names = changed(old, new)
        if old.lost:
            names.append("lost")
        if names:
            with login.configured_session(self.config) as vcenter:
                if reason := refusal(vcenter, old, new):
                    raise LabError(reason)
        return names

    async def create(self, new: UplinkInputs) -> UplinkState:
        with login.configured_session(self.config) as vcenter:
            nic = find(vcenter, new)
        return UplinkState(**dict(new), device=nic.name, mac=nic.mac)

    def identify(self, state: UplinkState) -> str:
        return f"{state.switch}/{state.host}"

    async def read(self, old: UplinkState) -> UplinkState:
        """Keeps the NIC, and records why it no longer fits."""
        try:
            with login.configured_session(self.config) as vcenter:
                reason = lost(vcenter, old)
        except LabError as error:
            reason = str(error)
        return old.model_copy(update={"lost": reason})


def lost(vcenter: VCenter, state: UplinkState) -> str:
    """Why the NIC in the state no longer fits; empty when it does.

    Raises:
        LabError: when no NIC fits any more.
    """
    now = find(vcenter, state)
    if now.mac != state.mac:
        return f"{now.name} ({now.mac}) matches it now"
    on_switch = vcenter.uplinks(vcenter.host(state.host), state.switch)
    if on_switch in ((), (now.name,)):  # a host that is no member of the switch has none
        return ""
    return f"{state.switch} has {', '.join(on_switch)} instead"


def refusal(vcenter: VCenter, old: UplinkState, new: UplinkInputs) -> str:
    """Why the uplink cannot change now; empty when it can. Its VMs must be off (VMware KB
    328676).

    The switch's own uplink counts: if it was moved by hand, the provider would move it back.
    """
    if old.host != new.host:
        return ""
    host, then = vcenter.host(new.host), find(vcenter, new).name
    now = ", ".join(vcenter.uplinks(host, old.switch)) or old.device
    running = vcenter.running_pvrdma_vms(host) if now != then else []
    if not running:
        return ""
    return (
        f"{new.host}: the uplink of {new.switch} is {now}, and {', '.join(running[:3])} use PVRDMA "
        f"over it; power them off before it becomes {then}"
    )


def find(vcenter: VCenter, declared: UplinkInputs) -> Nic:
    """The NIC that fits.

    Raises:
        LabError: when not exactly one does.
    """
    nics = vcenter.nics(vcenter.host(declared.host))
    return choose(declared.host, nics, declared.choice, declared.switch, rdma=declared.rdma)

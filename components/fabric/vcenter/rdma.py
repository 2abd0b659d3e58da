"""RDMA devices of an ESXi host: in its description from 7.0 on, and asked by esxcli before that."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyVmomi import vim

from components.fabric.vcenter.esxcli import esxcli, text_of
from stacks.base import LabError

DEVICES = "rdma device list"
NAME, UPLINK, STATE = "Name", "Paired Uplink", "State"
"""As the command's own table names them."""
FIRST_TELLING = 7
"""The major release of ESXi whose description of a host's network has `rdmaDevice`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RdmaDevice:
    """One that stands over a physical NIC."""

    name: str
    """Such as `vmrdma0`."""
    state: str
    """Such as `active` or `down`, in small letters; empty: the host does not tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RdmaDevices:
    """Those of a host."""

    of: Mapping[str, RdmaDevice] = field(default_factory=dict)
    """By the name of the NIC."""
    untold: str = ""
    """Why nobody knows what there is; empty: those above are all."""


def asked(version: str, network: vim.host.NetworkInfo) -> bool:
    """Whether a host's devices are told by esxcli alone: it is older than 7.0, or of a release that we do not know."""
    major = version.partition(".")[0]
    return not network.rdmaDevice and not (major.isdecimal() and int(major) >= FIRST_TELLING)


def described(network: vim.host.NetworkInfo) -> RdmaDevices:
    """The devices in a host's own description."""
    names: dict[object, str] = {nic.key: nic.device for nic in network.pnic or []}
    return RdmaDevices(
        of={
            names[device.backing.pairedUplink]: RdmaDevice(
                name=device.device, state=str(device.connectionInfo.state or "").lower()
            )
            for device in network.rdmaDevice or []
            if isinstance(device.backing, vim.host.RdmaDevice.PnicBacking) and device.backing.pairedUplink in names
        }
    )


def listed(host: vim.HostSystem, place: str) -> RdmaDevices:
    """The devices as esxcli lists them. What a host does not answer is never taken for none.

    Args:
        host: which is asked.
        place: its name.
    """
    try:
        rows = [row for row in esxcli(host, place, DEVICES) if row]
    except LabError as error:
        return RdmaDevices(untold=str(error).removeprefix(f"{place}: "))
    found = {
        uplink: RdmaDevice(name=name, state=text_of(row, STATE).lower())
        for row in rows
        if (uplink := text_of(row, UPLINK)) and (name := text_of(row, NAME))
    }
    if rows and not found:
        fields = ", ".join(sorted({key for row in rows for key in row}))
        return RdmaDevices(untold=f"esxcli {DEVICES} tells no {NAME} with a {UPLINK}, but {fields}"[:300])
    return RdmaDevices(of=found)

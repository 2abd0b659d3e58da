"""What hosts tell of their cards only when it is asked for: where they are plugged in, and the versions of NIC drivers.

Versions are asked by esxcli where a host's own description leaves them out. That needs privileges that a role need not
have. What is refused stays unknown, and no run stops for that: whether a driver works is told by the RDMA devices and
vGPU profiles that it offers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pyVmomi import vim

from components.fabric.preflight.pcie import Pcie
from components.fabric.vcenter.esxcli import esxcli
from components.fabric.vcenter.nics import Nic
from components.fabric.vcenter.properties import collect
from stacks.base import LabError

NIC = "network nic get"


def pcie_of(content: vim.ServiceInstanceContent, hosts: Sequence[vim.HostSystem]) -> list[Pcie]:
    """Where the cards of each host are plugged in, in one call: some hundred devices a host, so for these alone."""
    return [
        _pcie(found.get("hardware.pciDevice") or (), found.get("hardware.numaInfo"))
        for found in collect(content, hosts, ["hardware.pciDevice", "hardware.numaInfo"])
    ]


def _pcie(devices: Iterable[vim.host.PciDevice], numa: vim.host.NumaInfo | None) -> Pcie:
    nodes = (numa.numaNode if numa is not None else None) or ()
    return Pcie(
        bridges={one.id: one.parentBridge for one in devices if one.parentBridge},
        numa_nodes={address: int(node.typeId) for node in nodes for address in node.pciId or ()},
    )


def with_drivers(host: vim.HostSystem, name: str, nics: Sequence[Nic]) -> list[Nic]:
    """The NICs, with driver version and firmware of those that can be an uplink of PVRDMA.

    ESXi tells both in its description of a NIC from 8.0 on; an older host is asked by esxcli.
    """
    found, answers = [], True
    for nic in nics:
        told: dict[str, str] = {}
        if nic.rdma_device and not nic.driver_version and answers:
            try:
                rows = esxcli(host, name, NIC, nicname=nic.name)
            except LabError:
                answers, rows = False, []  # the next NIC would be refused likewise
            told = rows[0] if rows else {}
        found.append(
            replace(
                nic,
                driver_version=nic.driver_version or told.get("DriverInfo.Version", ""),
                firmware=nic.firmware or told.get("DriverInfo.FirmwareVersion", ""),
            )
        )
    return found

"""What hosts tell of their cards only when it is asked for: where they are plugged in, and the drivers' versions.

Versions are read from a host's packages, or asked by esxcli where its own description leaves them out. Both need
privileges that a role need not have. What is refused stays unknown, and no run stops for that: whether a driver works
is told by the RDMA devices and vGPU profiles that it offers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pyVmomi import vim, vmodl

from components.fabric.preflight.pcie import Pcie
from components.fabric.vcenter.esxcli import esxcli
from components.fabric.vcenter.nics import Nic
from components.fabric.vcenter.properties import collect
from stacks.base import LabError

NIC, PACKAGES = "network nic get", "software vib list"
NVIDIA = ("NVIDIA", "NVD")
"""The vendor as packages name it."""


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


def vgpu_driver(host: vim.HostSystem, name: str, images: Any) -> str:
    """NVIDIA's host driver among a host's packages; their names have changed with every generation of it.

    Args:
        host: where to ask by esxcli, should the role not have Host.Config.Image.
        name: the host's name.
        images: its image manager; None: it has none.
    """
    if images is None:
        return ""
    try:
        packages = [(one.vendor, one.name, one.version) for one in images.FetchSoftwarePackages()]
    except TimeoutError:
        return ""  # a host that is too busy for this is too busy for esxcli
    except vmodl.MethodFault:
        packages = _listed(host, name)
    found = [(driver, version) for vendor, driver, version in packages if vendor in NVIDIA and "nmlx" not in driver]
    return ", ".join(f"{driver} {version}" for driver, version in sorted(found))


def _listed(host: vim.HostSystem, name: str) -> list[tuple[str, str, str]]:
    try:
        rows = esxcli(host, name, PACKAGES)
    except LabError:
        return []
    return [(one.get("Vendor", ""), one.get("Name", ""), one.get("Version", "")) for one in rows]


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

"""Ports of Mellanox adapters that a host has no vmnic for, asked only where no uplink was found.

A host has some hundred PCI devices, so nobody reads them for a host that is well.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from pyVmomi import vim

from components.fabric.preflight.facts import HostFacts
from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.properties import collect

MELLANOX = 0x15B3
INFINIBAND, ETHERNET = 0x0207, 0x0200
"""PCI classes of network controllers: a VPI adapter's port bears the class of its port type."""
WHY = {
    INFINIBAND: (
        "its port type is InfiniBand, of which ESXi makes no NIC: set it to Ethernet (mlxconfig: LINK_TYPE_P1=2, or P2 "
        "for the second port), and reboot"
    ),
    ETHERNET: "it is passed through to machines, or the host's driver did not take it: look for it in vmkernel.log",
}


def without_vmnic(vcenter: VCenter, hosts: Sequence[HostFacts]) -> Iterator[str]:
    """A sentence for each such port of hosts that have no uplink."""
    entities = [vcenter.host(host.name) for host in hosts]
    for host, found in zip(hosts, collect(vcenter.content, entities, ["hardware.pciDevice"]), strict=True):
        known = {nic.pci for nic in host.nics}
        for port, kind in portless(found.get("hardware.pciDevice") or (), known):
            yield f"{host.name}: the Mellanox port at {port} has no vmnic: {WHY[kind]}"


def portless(devices: Iterable[vim.host.PciDevice], nics: Collection[str]) -> Iterator[tuple[str, int]]:
    """Address and class of each port of theirs that is none of these NICs."""
    for one in devices:
        # the API's short is signed; its virtual functions are machines' own, and have no vmnic either
        if one.vendorId & 0xFFFF == MELLANOX and one.id not in nics and "Virtual" not in (one.deviceName or ""):
            kind = one.classId & 0xFFFF
            if kind in WHY:
                yield str(one.id), kind

"""What a vCenter reports before anything changes, and what each ESXi release supports."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import field

from components.fabric.vcenter.nics import Nic
from stacks.frozen import frozen

ONE_NODE = "on its NUMA node"
ACROSS = "on another NUMA node"


@frozen
class VmkernelFacts:
    address: str
    mtu_bytes: int


@frozen
class HostFacts:
    """An ESXi host. One that is not connected has a name only."""

    name: str
    connected: bool = True
    maintenance: bool = False
    version: str = ""
    build: str = ""
    model: str = ""
    nics: tuple[Nic, ...] = ()
    vmkernels: Mapping[str, VmkernelFacts] = field(default_factory=dict)
    graphics: str = ""
    """Default graphics type, such as `sharedDirect`; empty: unknown."""
    gpus: tuple[str, ...] = ()
    """PCI addresses of the NVIDIA GPUs, sorted."""
    numa_nodes: Mapping[str, int] = field(default_factory=dict)
    """Of NICs and GPUs, by PCI address, such as `0000:3b:00.0`."""
    vgpu_profiles: frozenset[str] = frozenset()
    """What NVIDIA's host driver offers; empty: the driver (a VIB) is not there, or found no GPU."""
    vgpu_driver: str = ""
    """Name and version of that driver; empty: none or unknown."""
    ntp_servers: tuple[str, ...] = ()
    ntp_running: bool = False
    pvrdma_allows: tuple[str, ...] | None = None
    """Addresses and networks that the ruleset pvrdma allows; None: all, or unknown."""
    under_profile: bool = False
    """A host profile manages its settings, and would undo rocelab's."""
    neighbour_mtu_bytes: Mapping[str, int] = field(default_factory=dict)
    """By NIC: the largest frame that the physical switch announces (CDP or LLDP), where it does."""

    def nic(self, name: str) -> Nic | None:
        for nic in self.nics:
            if nic.name == name:
                return nic
        return None

    def gpu_ways(self, nic: Nic) -> list[str]:
        """Where each GPU is, seen from a NIC, without those of which that is unknown."""
        own = self.numa_nodes.get(nic.pci)
        ways = []
        for gpu in self.gpus:
            node = self.numa_nodes.get(gpu)
            if own is None or node is None:
                continue
            if node == own:
                ways.append(ONE_NODE)
            else:
                ways.append(ACROSS)
        return ways

    def gpus_from(self, nic: Nic) -> str:
        """The same in words, such as `2 on its NUMA node, 2 on another NUMA node`."""
        counted = Counter(self.gpu_ways(nic))
        return ", ".join(f"{counted[way]} {way}" for way in (ONE_NODE, ACROSS) if counted[way])


@frozen
class SwitchFacts:
    name: str
    version: str
    mtu_bytes: int
    members: Mapping[str, tuple[str, ...]]
    """NICs by host."""
    port_groups: Mapping[str, int | None]
    """VLAN by name; 0 is untagged, None is something else, such as a trunk."""


@frozen
class MachineFacts:
    """A VM or template that can be cloned."""

    template: bool
    firmware: str
    """`bios` or `efi`; empty: unknown."""
    guest_id: str


@frozen
class FabricFacts:
    """All input of the preflight."""

    hosts: Mapping[str, HostFacts]
    switches: Mapping[str, SwitchFacts]
    networks: frozenset[str] = frozenset()
    """Names of all networks of the datacenter: a port group needs a free one."""
    host_names: frozenset[str] = frozenset()
    """All hosts of the datacenter."""
    datastores: frozenset[str] = frozenset()
    machines: Mapping[str, MachineFacts] = field(default_factory=dict)
    """VMs and templates of the datacenter by name; empty if the lab creates no VM."""
    under_configuration_profile: bool = False
    """vSphere Configuration Profiles manage the cluster's hosts, and would undo rocelab's
    settings."""


Release = tuple[int, ...]

SWITCH_NEEDS: Mapping[str, Release] = {
    "6.5.0": (6, 5, 0),
    "6.6.0": (6, 7, 0),
    "7.0.0": (7, 0, 0),
    "7.0.2": (7, 0, 2),
    "7.0.3": (7, 0, 3),
    "8.0.0": (8, 0, 0),
    "8.0.3": (8, 0, 3),
    "9.0.0": (9, 0, 0),
}
"""Oldest ESXi that can be a member, by the switch's version.

A host cannot join a switch that is newer than itself (Broadcom's KB 434420). The versions are those
that the provider takes (dvsVersions in its source); PowerCLI of 8.0 U1 lists the same up to 8.0.0.
Each bears the number of the release that it came with, but for 6.6.0, the newest that ESXi 6.7
knows (terraform-provider-vsphere, issue 1291).
"""
HARDWARE_NEEDS: Mapping[int, Release] = {
    13: (6, 5, 0),
    14: (6, 7, 0),
    15: (6, 7, 0),
    17: (7, 0, 0),
    18: (7, 0, 1),
    19: (7, 0, 2),
    20: (8, 0, 0),
    21: (8, 0, 2),
    22: (9, 0, 0),
}
"""Oldest ESXi that runs a virtual hardware version (Broadcom's KB 315655, formerly VMware's
2007240).

govmomi's vim25/types/esxi_version.go and the table of features in "vSphere Virtual Machine
Administration" 8.0 say the same up to 21; 22 came with 9.0. 15 came with 6.7 U2, which calls itself
6.7.0 too; 16 was never one of ESXi.
"""


def release_of(version: str) -> Release | None:
    """An ESXi version such as `7.0.3` as numbers; None for other texts."""
    words = version.split(".")[:3]
    if not all(word.isdigit() for word in words):
        return None
    return (*(int(word) for word in words), *([0] * (3 - len(words))))


def joins(esxi: str, switch: str) -> bool:
    """Whether a host can be a member of a switch; true if either version is unknown."""
    release, needed = release_of(esxi), SWITCH_NEEDS.get(switch)
    return release is None or needed is None or release >= needed


def newest_switch(esxi: str) -> str:
    """The newest switch version that a host can join; empty when it can join none."""
    return max((version for version in SWITCH_NEEDS if joins(esxi, version)), default="")


def newest_hardware(esxi: str) -> int | None:
    """The newest virtual hardware that a host runs; None if its version is unknown."""
    release = release_of(esxi)
    if release is None:
        return None
    return max(
        (version for version, needed in HARDWARE_NEEDS.items() if release >= needed), default=0
    )

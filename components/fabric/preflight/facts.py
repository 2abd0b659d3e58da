"""What a vCenter tells of ESXi hosts and switches before anything is changed. Plain data: no API, no judgement."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.fabric.preflight.pcie import Pcie
from components.fabric.vcenter.nics import Nic


@dataclass(frozen=True, kw_only=True, slots=True)
class VmkernelFacts:
    """A vmkernel adapter of a host."""

    address: str
    mtu_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Packages:
    """What a host said of its packages, and what of it has to be as it was for that to hold still."""

    driver: str
    """Name and version of NVIDIA's host driver; empty: there is none, or our role may not read the packages."""
    build: str = ""
    booted: str = ""
    """When the host started, by ISO 8601; empty: it does not tell."""

    @property
    def lasting(self) -> bool:
        """Whether it is kept: a host without the driver is about to get it, and one that refused may be asked again."""
        return bool(self.driver and self.build and self.booted)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostFacts:
    """An ESXi host as it is. A host that is not connected tells its name and nothing else."""

    name: str
    connected: bool = True
    maintenance: bool = False
    version: str = ""
    build: str = ""
    model: str = ""
    nics: tuple[Nic, ...] = ()
    vmkernels: Mapping[str, VmkernelFacts] = field(default_factory=dict)
    graphics: str = ""
    """Default graphics type, such as `sharedDirect`; empty: the host does not tell."""
    gpu_graphics: Mapping[str, str] = field(default_factory=dict)
    """Graphics type that each NVIDIA GPU has now, by PCI address: what is set holds from the next start of Xorg on."""
    pcie: Pcie = field(default_factory=Pcie)
    """Where NICs and GPUs are plugged in."""
    vgpu_profiles: frozenset[str] = frozenset()
    """What NVIDIA's host driver offers; empty: the driver (a VIB) is not there, or found no GPU."""
    packages: Packages | None = None
    """What is known of its packages; None: nobody asked."""
    ntp_servers: tuple[str, ...] = ()
    ntp_running: bool = False
    pvrdma_allows: tuple[str, ...] | None = None
    """Addresses and networks that the ruleset pvrdma lets in; None: all, or the host does not tell."""
    under_profile: bool = False
    """A host profile watches over its settings, and would undo ours."""
    neighbour_mtu_bytes: Mapping[str, int] = field(default_factory=dict)
    """By NIC: the largest frame that the physical switch announces (CDP or LLDP), where it does."""

    @property
    def vgpu_driver(self) -> str:
        """Name and version of NVIDIA's host driver (a VIB); empty: there is none, or nobody may know."""
        return self.packages.driver if self.packages else ""

    def nic(self, name: str) -> Nic | None:
        """One of its NICs."""
        return next((nic for nic in self.nics if nic.name == name), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class SwitchFacts:
    """A distributed switch as it is."""

    name: str
    uuid: str
    version: str
    mtu_bytes: int
    network_io_control: bool
    members: Mapping[str, tuple[str, ...]]
    """NICs by host."""
    uplink_ports: int
    port_groups: Mapping[str, int | None]
    """VLAN by name; 0 is untagged, None is something else, such as a trunk."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineFacts:
    """A VM or template as something to clone."""

    template: bool
    firmware: str
    """`bios` or `efi`; empty: the vCenter does not tell."""
    guest_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FabricFacts:
    """Everything that the preflight looks at."""

    hosts: Mapping[str, HostFacts]
    switches: Mapping[str, SwitchFacts]
    networks: frozenset[str] = frozenset()
    """Names of all networks of the datacenter: a port group needs a free one."""
    host_names: frozenset[str] = frozenset()
    """All hosts of the datacenter, those too that no switch of the lab has."""
    datastores: frozenset[str] = frozenset()
    machines: Mapping[str, MachineFacts] = field(default_factory=dict)
    """VMs and templates of the datacenter by name; empty where the lab makes no machine."""
    under_configuration_profile: bool = False
    """vSphere Configuration Profiles keep the cluster's hosts as a document says, and would undo our settings."""
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Privileges that our user lacks, with the objects on which it does."""

"""An inventory: hosts, switches and cluster as they are, in one JSON document. Data only.

A field that is not a `Reading` identifies its object or belongs to the look itself. Where a reading
holds a list, its elements' plain fields come from the same source. Files and commands are in the
readings themselves.
"""

from dataclasses import field
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from components.inventory.reading import NOT_READ, Reading
from components.switches.settings import Announcement, LearnedMac
from stacks.frozen import frozen

SCHEMA = 1
"""Rises when a field changes its meaning or name; new fields do not raise it."""


@frozen
class Gid:
    """One entry of an RDMA port's GID table."""

    index: int
    gid: str
    type: str
    """As sysfs has it: `RoCE v2`, `IB/RoCE v1`."""
    interface: str = ""
    ipv4: str = ""
    """Address of the GID; empty for a GID of IPv6."""


@frozen
class RdmaPort:
    """The RDMA device of a PF."""

    device: str
    link_layer: Reading[str] = NOT_READ
    """`Ethernet` or `InfiniBand`."""
    state: Reading[str] = NOT_READ
    """`ACTIVE`, `DOWN`, ..."""
    active_mtu_bytes: Reading[int] = NOT_READ
    gids: Reading[tuple[Gid, ...]] = NOT_READ
    """Entries in use."""
    traffic_class: Reading[int] = NOT_READ
    """Forced on all connections of RDMA devices by `tc/1/traffic_class`; -1 when nothing is
    forced."""
    soft: bool = False
    """Soft-RoCE over the interface, no device of the NIC."""


@frozen
class Vf:
    number: int
    pci: str
    interfaces: tuple[str, ...] = ()
    """Empty while it is in a pod's namespace."""
    mtu_bytes: Reading[int] = NOT_READ


@frozen
class Qos:
    """A port's quality of service."""

    trust: Reading[str] = NOT_READ
    """`dscp` or `pcp`."""
    pfc_priorities: Reading[tuple[int, ...]] = NOT_READ
    """Priorities that are paused one by one."""
    pause_rx: Reading[bool] = NOT_READ
    """Global pause, which stops all priorities."""
    pause_tx: Reading[bool] = NOT_READ
    dscp_priority: Reading[dict[int, int]] = NOT_READ
    """Priority of each code point."""
    dcbx_mode: Reading[str] = NOT_READ
    """`os` or `firmware`."""
    ecn_np_priorities: Reading[tuple[int, ...]] = NOT_READ
    """Priorities with DCQCN as notification point."""
    ecn_rp_priorities: Reading[tuple[int, ...]] = NOT_READ
    """Priorities with DCQCN as reaction point."""
    cnp_dscp: Reading[int] = NOT_READ
    cnp_priority: Reading[int] = NOT_READ


@frozen
class NearestGpus:
    """The GPUs that share the deepest PCI bridge with a NIC."""

    gpus: tuple[str, ...]
    """PCI addresses in order; empty when no GPU shares any bridge with it."""
    bridge: str = ""
    """PCI address of that bridge."""


@frozen
class ConfigFile:
    """A file that sets an interface at boot."""

    path: str
    manager: Literal[
        "netplan", "networkmanager", "networkd", "ifupdown", "ifcfg", "udev", "systemd", "rocelab"
    ]
    mtu_bytes: int | None = None
    """None where the file does not set it."""
    addresses: tuple[str, ...] = ()
    vfs: int | None = None


@frozen
class Counters:
    """Counters of a port since the driver was loaded; two looks make a rate."""

    uptime_s: float
    """The host's uptime when they were read. Rates are valid between two looks with the same
    `System.boot_id`."""
    values: dict[str, int]
    """By the kernel's names; what is not there is not counted by this NIC."""


@frozen
class PendingSetting:
    """A setting of a NIC's firmware that the next boot changes."""

    name: str
    """Such as `NUM_OF_VFS`."""
    now: str
    next: str


@frozen
class Pf:
    """A physical function: a port of a NIC on PCI that is no VF, whatever it is used for."""

    pci: str
    """Identity, such as `0000:19:00.0`; a function with two ports is listed with both
    interfaces."""
    interfaces: Reading[tuple[str, ...]] = NOT_READ
    """Empty when no driver gives it one, or when a pod has it."""
    mac: Reading[str] = NOT_READ
    """Permanent one, also below a bond; lower case."""
    driver: Reading[str] = NOT_READ
    """Empty when none is bound."""
    vendor_id: Reading[str] = NOT_READ
    """Four hexadecimal digits, as the next two: `15b3`."""
    device_id: Reading[str] = NOT_READ
    board_id: Reading[str] = NOT_READ
    """PSID, such as `MT_0000000224`."""
    firmware: Reading[str] = NOT_READ
    pending_firmware: Reading[tuple[PendingSetting, ...]] = NOT_READ
    """Read only when asked for, as the next two are."""
    firmware_settings: Reading[dict[str, int]] = NOT_READ
    """Those of PCIe and of RoCE's congestion control, as they are now."""
    roce_acceleration: Reading[dict[str, int]] = NOT_READ
    """Fields of the register ROCE_ACCL, such as `roce_adp_retrans_en`: adaptive retransmission."""
    up: Reading[bool] = NOT_READ
    """Whether it is set up; `carrier` says whether the cable is."""
    carrier: Reading[bool] = NOT_READ
    carrier_changes: Reading[int] = NOT_READ
    """Since the driver was loaded."""
    speed_mbit_s: Reading[int] = NOT_READ
    """Unknown without a link."""
    supported_speeds_mbit_s: Reading[tuple[int, ...]] = NOT_READ
    """Ascending."""
    fec: Reading[str] = NOT_READ
    """Active one: `rs`, `baser`, `off`, ..."""
    mtu_bytes: Reading[int] = NOT_READ
    addresses: Reading[tuple[str, ...]] = NOT_READ
    """With prefix length, sorted, IPv4 and IPv6, without link-local ones."""
    master: Reading[str] = NOT_READ
    """Bond, bridge or VRF above it; empty for none."""
    numa_node: Reading[int] = NOT_READ
    """-1: the machine names none."""
    pcie_speed_gt_s: Reading[float] = NOT_READ
    pcie_max_speed_gt_s: Reading[float] = NOT_READ
    """What the slot and the NIC could do, as the NIC reports."""
    pcie_width: Reading[int] = NOT_READ
    pcie_max_width: Reading[int] = NOT_READ
    max_read_request_bytes: Reading[int] = NOT_READ
    relaxed_ordering: Reading[bool] = NOT_READ
    """Whether its requests may overtake each other on PCIe."""
    ats: Reading[bool] = NOT_READ
    """Whether it keeps the IOMMU's translations itself (address translation service)."""
    bridges: Reading[tuple[str, ...]] = NOT_READ
    """PCI addresses of the bridges above it, root port first."""
    nearest_gpus: Reading[NearestGpus] = NOT_READ
    iommu_group_type: Reading[str] = NOT_READ
    """`identity`, `DMA`, ...; empty without IOMMU."""
    rdma: Reading[tuple[RdmaPort, ...]] = NOT_READ
    """Empty when it has no RDMA device."""
    vfs_num: Reading[int] = NOT_READ
    vfs: Reading[tuple[Vf, ...]] = NOT_READ
    """In the order of their numbers."""
    eswitch_mode: Reading[str] = NOT_READ
    """`legacy` or `switchdev`; empty where the driver has no such mode."""
    qos: Qos = field(default_factory=Qos)
    lldp: Reading[tuple[Announcement, ...]] = NOT_READ
    config_files: Reading[tuple[ConfigFile, ...]] = NOT_READ
    """Files that name its interface or MAC."""
    counters: Reading[Counters] = NOT_READ

    @property
    def interface(self) -> str:
        """Its first interface; empty where it has none, or its interfaces are unknown."""
        return next(iter(self.interfaces.or_else(())), "")

    @property
    def name(self) -> str:
        """Its interface, else its PCI address."""
        return self.interface or self.pci


@frozen
class GpuHealth:
    """What nvidia-smi reports of a GPU; None or empty where this model or driver does not."""

    ecc_uncorrected: int | None = None
    """Since the driver was loaded, as the next one."""
    sram_threshold_exceeded: bool | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    recovery_action: str = ""
    """`None`, `Reset`, `Reboot`, `Drain P2P`, ..."""
    throttled: tuple[str, ...] = ()
    """Reasons for a low clock that are not normal, such as `hw_thermal_slowdown`."""
    performance_state: str = ""
    """`P0` at full speed; in a lower one the PCIe link may be slow to save power."""
    pcie_generation: int | None = None
    pcie_max_generation: int | None = None
    pcie_width: int | None = None
    pcie_max_width: int | None = None
    fabric_state: str = ""
    """Registration with the NVLink fabric: `Completed`, `In Progress`; empty without NVSwitch."""
    fabric_status: str = ""


@frozen
class Xid:
    """An error that NVIDIA's driver has logged since boot."""

    pci: str
    """Without function, as the driver writes it: `0000:1a:00`."""
    code: int
    count: int = 1


@frozen
class Gpu:
    """A GPU on PCI."""

    pci: str
    vendor_id: str = ""
    device_id: str = ""
    bridges: Reading[tuple[str, ...]] = NOT_READ
    """As a PF's."""
    model: Reading[str] = NOT_READ
    """As the driver reports it."""
    health: Reading[GpuHealth] = NOT_READ
    nvlinks: Reading[tuple[float, ...]] = NOT_READ
    """GB/s of each link, 0 for an inactive one; empty without NVLink."""


@frozen
class Link:
    """An interface of the first namespace beside PFs and VFs: bond, VLAN, bridge, IPoIB."""

    name: str
    kind: str
    mac: str = ""
    mtu_bytes: int = 0
    master: str = ""
    lower: str = ""
    """Interface that it is built on."""
    vlan_id: int = 0
    up: bool = False
    addresses: tuple[str, ...] = ()


@frozen
class Route:
    """One route of any table, IPv4 or IPv6, without those of the tables `local` and of loopback."""

    destination: str
    """`default`, or with prefix length."""
    gateway: str = ""
    interface: str = ""
    source: str = ""
    table: str = "main"
    metric: int = 0
    family: Literal[4, 6] = 4


@frozen
class Rule:
    """One policy routing rule beyond the three that every kernel starts with."""

    priority: int
    source: str = "all"
    destination: str = "all"
    interface: str = ""
    table: str = ""


@frozen
class Peer:
    """An entry of the neighbour table (ARP, NDP) on a PF."""

    address: str
    interface: str
    mac: str
    state: str


@frozen
class Network:
    """What belongs to no single PF."""

    links: Reading[tuple[Link, ...]] = NOT_READ
    routes: Reading[tuple[Route, ...]] = NOT_READ
    rules: Reading[tuple[Rule, ...]] = NOT_READ
    peers: Reading[tuple[Peer, ...]] = NOT_READ
    sysctls: Reading[dict[str, int]] = NOT_READ
    """arp_ignore, arp_announce and rp_filter of `all`, `default` and each PF:
    `net.ipv4.conf.IFACE.rp_filter`."""


@frozen
class Carriers:
    """Interfaces that the host itself depends on, by name."""

    ssh: Reading[tuple[str, ...]] = NOT_READ
    """They carry the SSH connection of this inventory."""
    default_route: Reading[tuple[str, ...]] = NOT_READ
    storage: Reading[dict[str, str]] = NOT_READ
    """What is mounted or connected over it, such as `nfs /home`, by interface."""


@frozen
class Driver:
    """A kernel module as it runs, and as it would be loaded at the next boot."""

    module: str
    loaded: Reading[str] = NOT_READ
    """Version; empty when it is not loaded, and the kernel's release for a module without a
    version."""
    loaded_srcversion: Reading[str] = NOT_READ
    on_disk: Reading[str] = NOT_READ
    on_disk_srcversion: Reading[str] = NOT_READ


@frozen
class System:
    """The machine, its operating system, and the services that matter to RDMA."""

    hostname: Reading[str] = NOT_READ
    vendor: Reading[str] = NOT_READ
    product: Reading[str] = NOT_READ
    """Of DMI, as `vendor` is."""
    numa_nodes: Reading[int] = NOT_READ
    os: Reading[str] = NOT_READ
    """`Ubuntu 24.04.1 LTS`."""
    kernel: Reading[str] = NOT_READ
    kernel_arguments: Reading[tuple[str, ...]] = NOT_READ
    """Those of IOMMU and huge pages only."""
    boot_id: Reading[str] = NOT_READ
    drivers: Reading[tuple[Driver, ...]] = NOT_READ
    """RDMA and GPU modules: mlx5_core, ib_core, nvidia, ..."""
    modules: Reading[tuple[str, ...]] = NOT_READ
    """Loaded modules of RDMA, GPUs and storage over RDMA, sorted."""
    gpu_driver: Reading[str] = NOT_READ
    """Version that runs; empty without one."""
    fabric_manager: Reading[str] = NOT_READ
    """Version that is installed; empty without one."""
    containerd_memlock: Reading[str] = NOT_READ
    """`infinity` or bytes; empty without containerd."""
    reboot_required: Reading[bool] = NOT_READ
    governors: Reading[tuple[str, ...]] = NOT_READ
    """Frequency governors in use; empty where the CPU has none."""
    swap_kib: Reading[int] = NOT_READ
    clock_synchronized: Reading[bool] = NOT_READ
    rdma_namespaces: Reading[str] = NOT_READ
    """`exclusive` or `shared`."""
    kubelet_topology_policy: Reading[str] = NOT_READ
    """`none` is kubelet's default; empty without kubelet."""
    kernel_complaints: Reading[tuple[str, ...]] = NOT_READ
    """Last lines of the kernel's log in which a NIC reports its health, cable or power."""
    xids: Reading[tuple[Xid, ...]] = NOT_READ
    acs_bridges: Reading[tuple[str, ...]] = NOT_READ
    """PCI addresses of bridges above NICs or GPUs that redirect peer-to-peer traffic."""
    rocelab_owner: Reading[str] = NOT_READ
    """Lab and stack of rocelab that already changes this host; empty for none."""
    sudo: bool = False
    """Whether the look ran as root: without, more is unknown."""


@frozen
class Host:
    """One host, as one connection found it."""

    name: str
    """As you gave it to `rocelab look`."""
    address: str
    ssh_port: int = 22
    user: str = ""
    host_key: str = ""
    """The pinned public key that it answered with; empty when it did not."""
    read_at: datetime | None = None
    """UTC; None when nothing was read."""
    unread: str = ""
    """Why nothing was read; empty when the host answered."""
    offered_key: str = ""
    """Public key of a host that is not in the known_hosts file: compare it with the console's, then
    pin it."""
    system: System = field(default_factory=System)
    pfs: Reading[tuple[Pf, ...]] = NOT_READ
    """In the order of their PCI addresses."""
    gpus: Reading[tuple[Gpu, ...]] = NOT_READ
    """In the order of their PCI addresses."""
    network: Network = field(default_factory=Network)
    carriers: Carriers = field(default_factory=Carriers)

    def pf(self, pci: str) -> Pf | None:
        """The PF of a PCI address."""
        return next((pf for pf in self.pfs.or_else(()) if pf.pci == pci), None)


@frozen
class SwitchPort:
    """A port of a switch."""

    name: str
    neighbours: Reading[tuple[Announcement, ...]] = NOT_READ
    speed_mbit_s: Reading[int] = NOT_READ
    mtu_bytes: Reading[int] = NOT_READ
    vlans: Reading[tuple[int, ...]] = NOT_READ
    """All that it carries, the untagged one included."""
    native_vlan: Reading[int] = NOT_READ
    """0: none."""
    trust: Reading[str] = NOT_READ
    dscp_priority: Reading[dict[int, int]] = NOT_READ
    pfc_priorities: Reading[tuple[int, ...]] = NOT_READ
    ecn: Reading[dict[int, str]] = NOT_READ
    """Marking by traffic class, such as `150-1500 kB`; a class that is not there does not mark."""


@frozen
class Switch:
    name: str
    os: str
    address: str
    ssh_port: int = 22
    host_key: str = ""
    read_at: datetime | None = None
    unread: str = ""
    offered_key: str = ""
    chassis_id: Reading[str] = NOT_READ
    """What it announces by LLDP: two switches of one system name differ in it."""
    ports: Reading[tuple[SwitchPort, ...]] = NOT_READ
    macs: Reading[tuple[LearnedMac, ...]] = NOT_READ


@frozen
class KubeNode:
    """A node of the cluster."""

    name: str
    internal_ips: tuple[str, ...] = ()
    allocatable: dict[str, str] = field(default_factory=dict)
    """As the API has it: `cpu: "64"`, `nvidia.com/rdma_a: "8"`."""
    capacity: dict[str, str] = field(default_factory=dict)
    pod_cidrs: tuple[str, ...] = ()


@frozen
class Attachment:
    """A NetworkAttachmentDefinition."""

    namespace: str
    name: str
    resource_name: str = ""
    """Of its annotation; empty without one."""
    config: dict[str, JsonValue] = field(default_factory=dict)
    """Its CNI configuration; empty when that is no JSON."""

    @property
    def plugins(self) -> list[dict[str, JsonValue]]:
        """The configuration itself, then those of the plugins in its chain."""
        chain = self.config.get("plugins")
        parts = chain if isinstance(chain, list) else []
        return [self.config, *(part for part in parts if isinstance(part, dict))]


@frozen
class CustomObject:
    """An object of an operator: metadata and what it holds, without managed fields."""

    namespace: str
    name: str
    spec: dict[str, JsonValue] = field(default_factory=dict)
    status: dict[str, JsonValue] = field(default_factory=dict)


@frozen
class DaemonSet:
    """A DaemonSet, such as an agent of an operator."""

    namespace: str
    name: str


@frozen
class Cluster:
    """The Kubernetes cluster. A kind that it does not have is a known, empty tuple."""

    server: str
    read_at: datetime | None = None
    unread: str = ""
    nodes: Reading[tuple[KubeNode, ...]] = NOT_READ
    attachments: Reading[tuple[Attachment, ...]] = NOT_READ
    sriov_node_states: Reading[tuple[CustomObject, ...]] = NOT_READ
    sriov_policies: Reading[tuple[CustomObject, ...]] = NOT_READ
    nic_cluster_policies: Reading[tuple[CustomObject, ...]] = NOT_READ
    ip_pools: Reading[tuple[CustomObject, ...]] = NOT_READ
    daemon_sets: Reading[tuple[DaemonSet, ...]] = NOT_READ
    service_cidrs: Reading[tuple[str, ...]] = NOT_READ


@frozen
class Inventory:
    """All that one look found."""

    schema: int
    """`SCHEMA` of the version that wrote it."""
    read_at: datetime
    """UTC, when the look began."""
    hosts: tuple[Host, ...] = ()
    """In the order in which they were named."""
    switches: tuple[Switch, ...] = ()
    cluster: Cluster | None = None
    """None when no cluster was named."""

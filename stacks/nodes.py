"""The nodes: how each is reached, and which of its NICs is on which rail."""

from collections.abc import Iterable
from ipaddress import IPv4Address
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from stacks.base import (
    HostAddress,
    InterfaceAddress,
    InterfaceName,
    Name,
    PciAddress,
    Port,
    Section,
    repeated,
)
from stacks.machines import AnyMachine, Machine, Vgpu
from stacks.rails import Rail

Driver = Literal["mlx5_core", "igb", "vmxnet3"]

MOST_VFS: dict[Driver, int] = {"mlx5_core": 127, "igb": 7, "vmxnet3": 0}
"""VFs per PF that a driver creates: 127 per port on NVIDIA's SR-IOV page (DOCA 3.2); 7 measured for
igb.

A VM's vmxnet3 has none: PVRDMA is the second function of the same device, shared by all programs in
the VM.
"""


SEVERAL_PVRDMA = 19
"""Virtual hardware from which on a VM may have more than one PVRDMA adapter (vSphere 7.0 U2).

"Hardware Features Available with Virtual Machine Compatibility Settings" in vSphere's
documentation; for older ones, VMware's KB 328676 allows one adapter.
"""
MOST_PVRDMA = 10
"""PVRDMA adapters per VM, from the same table."""


class Pf(Section):
    """A physical function: the port of a NIC, its own address, and the VFs that it is split
    into.
    """

    rail: Name
    interface: InterfaceName
    """The PF's netdev as the host names it."""
    driver: Driver = "mlx5_core"
    """Kernel driver. igb is the simulator's NIC: it has SR-IOV but no RDMA, so soft-RoCE replaces
    it."""
    pci: PciAddress | None = None
    """The NIC's PCI address, which no kernel or driver changes. A host whose `interface` is another
    NIC is refused."""
    address: InterfaceAddress
    """The PF's address with prefix length, inside the rail's host subnet."""
    gateway: IPv4Address | None = None
    """Router of this PF's subnet, if the rail has a subnet per leaf or per cable. None: the rail's
    router."""
    vfs: int = Field(ge=0, le=127)
    """How many VFs the PF is split into. A change removes all VFs first, so none may be in use."""
    rdma_device: str = Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=20)
    """RDMA device of the PF, such as `mlx5_0`."""
    convert_infiniband: bool = False
    """Whether a VPI port in InfiniBand mode is switched to Ethernet, which needs `firmware.manage`
    and a reboot. Otherwise such a port is refused, since an InfiniBand fabric may still use it."""

    @property
    def point_to_point(self) -> bool:
        """Whether its cable is a network of its own: host and router only, on a switch port
        without VLAN.
        """
        return self.gateway is not None and self.address.network.prefixlen >= 30

    @property
    def soft_roce(self) -> bool:
        """Whether the RDMA device is the kernel's soft-RoCE: real behaviour, simulated speed."""
        return self.driver == "igb"

    @model_validator(mode="after")
    def _gateway_is_a_neighbour(self) -> "Pf":
        subnet, gateway = self.address.network, self.gateway
        if gateway is None:
            return self
        ends = (subnet.network_address, subnet.broadcast_address) if subnet.prefixlen < 31 else ()
        if gateway not in subnet or gateway == self.address.ip or gateway in ends:
            raise ValueError(
                f"gateway {gateway} is not a neighbor of {self.address} on {self.interface}; set "
                f"the router's address in {subnet}"
            )
        return self

    @model_validator(mode="after")
    def _vfs_within_what_the_driver_makes(self) -> "Pf":
        most = MOST_VFS[self.driver]
        if self.vfs > most:
            raise ValueError(
                f"vfs {self.vfs} on {self.interface}, but the {self.driver} driver creates at most "
                f"{most}; lower it"
            )
        return self


class NodeBase(Section):
    """The fields of every node, bare metal or VM."""

    name: Name
    """Name of the machine and of its Kubernetes node."""
    formerly: Name | None = None
    """Its previous name in this lab: renames the node instead of replacing it."""
    state: Literal["active", "drained", "absent"] = "active"
    """active: configured and measured. drained: known but left alone. absent: rocelab undoes all
    its changes."""
    address: HostAddress
    """Management address, for SSH. It must not be on a rail."""
    ssh_port: Port = 22
    management_interface: InterfaceName
    """The interface with the management address. No step ever touches it."""
    role: Literal["worker", "control_plane"] = "worker"
    """The node's role in a cluster that rocelab creates (`cluster.bootstrap`); otherwise it has no
    effect."""
    gpus: int = Field(default=8, ge=0, le=16)
    """GPUs that a benchmark worker on this node requests."""
    pfs: tuple[Pf, ...] = ()
    """The node's PFs; a control plane may have none."""

    @model_validator(mode="after")
    def _only_a_control_plane_has_no_pf(self) -> Self:
        if not self.pfs and self.role == "worker":
            raise ValueError(
                "pfs: a worker without a PF is on no rail; list a PF, or set role: control_plane"
            )
        return self

    @model_validator(mode="after")
    def _each_pf_is_a_nic_of_its_own(self) -> Self:
        for field in ("interface", "rail", "rdma_device", "pci"):
            values = [getattr(pf, field) for pf in self.pfs]
            if twice := repeated(value for value in values if value is not None):
                raise ValueError(
                    f"two PFs share {field} {twice[0]}: RoCE needs one NIC per rail and no bond; "
                    "give each its own"
                )
        if self.management_interface in {pf.interface for pf in self.pfs}:
            raise ValueError(
                f"{self.management_interface} is the management interface and a PF: "
                "its link flaps would cut off rocelab's own session; use another NIC for the rail"
            )
        return self

    def pf_on(self, rail: str) -> Pf | None:
        return next((pf for pf in self.pfs if pf.rail == rail), None)


class BareMetal(NodeBase):
    """A physical machine (or the simulator's image of one) with SR-IOV NICs."""

    kind: Literal["bare_metal"] = "bare_metal"


class VsphereVm(NodeBase):
    """A VM, created or existing, with a management adapter and one PVRDMA adapter per rail."""

    kind: Literal["vsphere_vm"]
    machine: AnyMachine
    vgpu: Vgpu | None = None
    """None: no vGPU; one that is added by hand is drift."""

    @model_validator(mode="after")
    def _gpus_are_the_vgpus(self) -> Self:
        if self.vgpu is None:
            return self
        if self.gpus != self.vgpu.count:
            raise ValueError(
                f"gpus {self.gpus}, but the VM has {self.vgpu.count} of {self.vgpu.profile}: "
                "a benchmark would wait for missing GPUs; write the same number"
            )
        if isinstance(self.machine, Machine) and self.machine.firmware != "efi":
            raise ValueError(
                f"vgpu {self.vgpu.profile} on firmware bios, which cannot map its memory; use a "
                "template with efi"
            )
        return self

    @model_validator(mode="after")
    def _adapters_are_what_pvrdma_can_be(self) -> Self:
        if split := next((pf for pf in self.pfs if pf.vfs), None):
            raise ValueError(
                f"vfs {split.vfs} on {split.interface}: a PVRDMA adapter has no VFs; write 0"
            )
        if len(self.pfs) > MOST_PVRDMA:
            raise ValueError(
                f"{len(self.pfs)} PVRDMA adapters, but vSphere allows {MOST_PVRDMA} per VM; remove "
                "the others"
            )
        allowed = not isinstance(self.machine, Machine) or self.machine.several_pvrdma
        if len(self.pfs) > 1 and not allowed and not self.knows_several_pvrdma:
            raise ValueError(
                f"{len(self.pfs)} PVRDMA adapters, but VMware documents one per VM (KB 328676) "
                f"before virtual hardware {SEVERAL_PVRDMA} (ESXi 7.0 U2); raise "
                "machine.hardware_version, remove the others, or set machine.several_pvrdma: "
                "true"
            )
        return self

    @property
    def knows_several_pvrdma(self) -> bool:
        """Whether its virtual hardware may have several PVRDMA adapters; unknown for an existing
        VM.
        """
        return isinstance(self.machine, Machine) and self.machine.hardware_version >= SEVERAL_PVRDMA


def kind_of_node(node: object) -> str:
    kind = node.get("kind", "bare_metal") if isinstance(node, dict) else getattr(node, "kind", "")
    return str(kind)


Node = Annotated[
    Annotated[BareMetal, Tag("bare_metal")] | Annotated[VsphereVm, Tag("vsphere_vm")],
    Discriminator(kind_of_node),
]
"""Every kind of node; the default is bare metal."""


def routed_rails(rails: Iterable[Rail], nodes: Iterable[NodeBase]) -> frozenset[str]:
    """Rails with a router: one for the whole rail, or one per PF subnet."""
    whole = {rail.name for rail in rails if rail.host_gateway is not None}
    return frozenset(
        whole | {pf.rail for node in nodes for pf in node.pfs if pf.gateway is not None}
    )

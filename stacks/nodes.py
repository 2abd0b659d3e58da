"""The machines: how each is reached, and which of its NICs stands on which rail."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Interface
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from stacks.base import InterfaceName, Name, PciAddress, Port, Section
from stacks.machines import AnyMachine, Machine, Vgpu
from stacks.rails import Rail

Driver = Literal["mlx5_core", "igb", "vmxnet3"]

MOST_VFS: dict[Driver, int] = {"mlx5_core": 127, "igb": 7, "vmxnet3": 0}
"""VFs per PF that a driver makes: NVIDIA's SR-IOV page (DOCA 3.2) says 127 a port; igb stops at 7, measured.

A VM's vmxnet3 has none: PVRDMA is the second function of the same device, and shared by whoever runs in the VM.
"""


SEVERAL_PVRDMA = 19
"""Virtual hardware from which on a VM may have more than one PVRDMA adapter (vSphere 7.0 U2).

"Hardware Features Available with Virtual Machine Compatibility Settings" in vSphere's documentation; before, VMware's
KB 328676 knows one.
"""
MOST_PVRDMA = 10
"""By the same table."""


class Pf(Section):
    """A physical function: the port of a NIC, its own address, and the VFs that it is split into."""

    rail: Name
    interface: InterfaceName
    """The PF's netdev as the host names it."""
    driver: Driver = "mlx5_core"
    """Kernel driver. igb is the simulator's NIC: it has SR-IOV but no RDMA, so soft-RoCE stands in."""
    pci: PciAddress | None = None
    """Where the NIC is, which no kernel or driver renames. A host whose `interface` is another NIC is refused."""
    address: IPv4Interface
    """The PF's address with prefix length, inside the rail's host subnet."""
    gateway: IPv4Address | None = None
    """Router of this PF's own subnet, where a rail has one for each leaf or for each cable. None: the rail's."""
    vfs: int = Field(ge=0, le=127)
    """How many VFs the PF is split into. A change removes all of them first, so none may be in use."""
    rdma_device: str = Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=20)
    """RDMA device of the PF, such as `mlx5_0`."""
    convert_infiniband: bool = False
    """Whether a VPI port in InfiniBand mode is switched to Ethernet, which takes `firmware.manage` and a reboot.
    Without it such a port is refused: an InfiniBand fabric that somebody uses would lose it."""

    @property
    def point_to_point(self) -> bool:
        """Whether its cable is a network of its own: host and router, and a switch port that is in no VLAN."""
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
                f"gateway {gateway} is no neighbour of {self.address} on {self.interface}: take the router's own "
                f"address in {subnet}"
            )
        return self

    @model_validator(mode="after")
    def _vfs_within_what_the_driver_makes(self) -> "Pf":
        most = MOST_VFS[self.driver]
        if self.vfs > most:
            raise ValueError(
                f"vfs {self.vfs} on {self.interface}: the {self.driver} driver makes at most {most}; lower it"
            )
        return self


class NodeBase(Section):
    """What every node has, whatever it runs on."""

    name: Name
    """Name of the machine and of its Kubernetes node."""
    formerly: Name | None = None
    """The name it had in this lab before: a rename instead of one machine leaving and one joining."""
    state: Literal["active", "drained", "absent"] = "active"
    """active: configured and measured. drained: known but left alone. absent: everything of ours is undone."""
    address: IPv4Address
    """Management address, where SSH answers. It never lies on a rail."""
    ssh_port: Port = 22
    management_interface: InterfaceName
    """Carries the management address. No step ever touches it."""
    role: Literal["worker", "control_plane"] = "worker"
    """What the node is in a cluster that is made here (`cluster.bootstrap`); elsewhere it says nothing."""
    gpus: int = Field(default=8, ge=0, le=16)
    """GPUs that a benchmark worker on this node takes."""
    pfs: tuple[Pf, ...] = ()
    """The node's PFs; a control plane may have none."""

    @model_validator(mode="after")
    def _only_a_control_plane_has_no_pf(self) -> Self:
        if not self.pfs and self.role == "worker":
            raise ValueError("pfs: a worker without a PF has no part in any rail; list one, or make it a control_plane")
        return self

    @model_validator(mode="after")
    def _each_pf_is_a_nic_of_its_own(self) -> Self:
        for field in ("interface", "rail", "rdma_device", "pci"):
            values = [value for pf in self.pfs if (value := getattr(pf, field)) is not None]
            if twice := sorted({value for value in values if values.count(value) > 1}):
                raise ValueError(
                    f"two PFs share {field} {twice[0]}: RoCE wants one NIC a rail and no bond; give each its own"
                )
        if self.management_interface in {pf.interface for pf in self.pfs}:
            raise ValueError(
                f"{self.management_interface} is the management interface and a PF: "
                "its link flaps would cut off this very session; take another NIC for the rail"
            )
        return self

    def pf_on(self, rail: str) -> Pf | None:
        """The node's PF on a rail, if it has one."""
        return next((pf for pf in self.pfs if pf.rail == rail), None)


class BareMetal(NodeBase):
    """A machine of its own (or the simulator's image of one) with SR-IOV NICs."""

    kind: Literal["bare_metal"] = "bare_metal"


class VsphereVm(NodeBase):
    """A VM that the fabric makes or adopts: a management adapter, and a PVRDMA adapter on each of its rails."""

    kind: Literal["vsphere_vm"]
    machine: AnyMachine
    vgpu: Vgpu | None = None
    """None: none of ours, and one that somebody adds by hand is drift."""

    @model_validator(mode="after")
    def _gpus_are_the_vgpus(self) -> Self:
        if self.vgpu is None:
            return self
        if self.gpus != self.vgpu.count:
            raise ValueError(
                f"gpus {self.gpus}, and the machine has {self.vgpu.count} of {self.vgpu.profile}: "
                "a benchmark would wait for what is not there; write the same number"
            )
        if isinstance(self.machine, Machine) and self.machine.firmware != "efi":
            raise ValueError(
                f"vgpu {self.vgpu.profile} on firmware bios, which cannot map its memory: take a template with efi"
            )
        return self

    @model_validator(mode="after")
    def _adapters_are_what_pvrdma_can_be(self) -> Self:
        if split := next((pf for pf in self.pfs if pf.vfs), None):
            raise ValueError(f"vfs {split.vfs} on {split.interface}: a PVRDMA adapter has no VFs; write 0")
        if len(self.pfs) > MOST_PVRDMA:
            raise ValueError(
                f"{len(self.pfs)} PVRDMA adapters: vSphere allows {MOST_PVRDMA} a VM; leave the others out"
            )
        if len(self.pfs) > 1 and not self.machine.several_pvrdma and not self.knows_several_pvrdma:
            raise ValueError(
                f"{len(self.pfs)} PVRDMA adapters: VMware documents one a VM (KB 328676) before virtual hardware "
                f"{SEVERAL_PVRDMA} (ESXi 7.0 U2); raise machine.hardware_version, leave the others out, or set "
                "machine.several_pvrdma: true"
            )
        return self

    @property
    def knows_several_pvrdma(self) -> bool:
        """Whether its virtual hardware may have several PVRDMA adapters; of an existing VM it is not known here."""
        return isinstance(self.machine, Machine) and self.machine.hardware_version >= SEVERAL_PVRDMA


def _kind_of(node: object) -> str:
    kind = node.get("kind", "bare_metal") if isinstance(node, dict) else getattr(node, "kind", "")
    return str(kind)


Node = Annotated[
    Annotated[BareMetal, Tag("bare_metal")] | Annotated[VsphereVm, Tag("vsphere_vm")], Discriminator(_kind_of)
]
"""Every kind of node; one that does not say is bare metal."""


def routed_rails(rails: Iterable[Rail], nodes: Iterable[NodeBase]) -> frozenset[str]:
    """Rails with a router: one for the whole subnet, or one for each PF's."""
    whole = {rail.name for rail in rails if rail.host_gateway is not None}
    return frozenset(whole | {pf.rail for node in nodes for pf in node.pfs if pf.gateway is not None})

"""Groups as people write them: many rails, nodes and switches at once. `stacks/expand.py` spells
them out.

A value of a group is the same for all of them, or a progression: the first one's, and how far apart
the next ones are.
"""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Generic, Literal, Self, TypeVar

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from stacks.base import (
    InterfaceAddress,
    InterfaceName,
    MtuBytes,
    Name,
    Network,
    PciAddress,
    Port,
    Section,
)
from stacks.machines import AnyMachine, Vgpu
from stacks.nodes import Driver
from stacks.sets import NameSet

T = TypeVar("T")


class Progression(Section, Generic[T]):
    """A progression: the value of the group's first member, and the step to each next one."""

    first: T
    """Value of the group's first."""
    step: int = Field(default=1, ge=1, le=65_536)
    """The distance, in numbers, addresses, or subnets of that size."""


class SubnetProgression(Progression[IPv4Network]):
    """A progression of subnets."""

    first: Network


def _kind_of_value(value: object) -> str:
    return "progression" if isinstance(value, dict | Progression) else "same_for_all"


Numbers = Annotated[
    Annotated[int, Tag("same_for_all")] | Annotated[Progression[int], Tag("progression")],
    Discriminator(_kind_of_value),
]
Addresses = Annotated[
    Annotated[IPv4Address, Tag("same_for_all")]
    | Annotated[Progression[IPv4Address], Tag("progression")],
    Discriminator(_kind_of_value),
]
Subnets = Annotated[
    Annotated[Network, Tag("same_for_all")] | Annotated[SubnetProgression, Tag("progression")],
    Discriminator(_kind_of_value),
]


class PodGroup(Section):
    """Pod networks of a group's rails. Addresses are host numbers: 10 is .10 of each rail's own
    subnet.
    """

    vlan_id: Numbers | None
    """VLAN of each VF in a pod; null: none, so pods are untagged like the hosts."""
    subnet: Subnets
    """Subnet of the pods' interfaces on each rail."""
    pool: tuple[int, int]
    """Host numbers of the pool's first and last address in each subnet, such as [10, 249]."""
    gateway: int | None = None
    """Host number of a routed rail's router; it must be outside the pool."""
    addresses_per_node: int = Field(ge=1, le=1024)
    """Block of the pool per node; at least its VF count, or some pods get no address."""


class Segment(Section):
    """The subnet of the nodes behind one leaf, on each rail of a group."""

    nodes: NameSet
    """Nodes that have their PF in it, such as `gpu[01-32]`."""
    subnet: Subnets
    """Part of each rail's `host_subnet`, such as {first: 10.10.1.0/26, step: 4}."""
    gateway: int
    """Host number of the leaf in this subnet, such as 1."""
    first_host: int = Field(ge=1)
    """Host number of the first of `nodes`; the others follow."""


class Links(Section):
    """A subnet of two addresses (/31) for each cable: the node's, and the leaf's as its gateway.

    They are counted from the start of `host_subnet`. A node's number among them is its `rail_host`,
    0 for the first.
    """

    host: Literal["low", "high"]
    """Which of the two addresses is the node's."""
    order: Literal["node", "rail"] = "node"
    """node: each rail counts its own nodes. rail: the first node's rails come first, then the
    second's; all rails of the group have one `host_subnet`."""


class RailGroup(Section):
    """Rails that differ only in their numbers."""

    names: NameSet
    """Names of the rails, such as `rail-[1-8]`."""
    mtu_bytes: MtuBytes | None = None
    """Ethernet MTU of PFs, idle VFs and pods; None: the default of a rail."""
    host_subnet: Subnets
    """Untagged subnet of the PFs' own addresses; a node's host number in it is its `rail_host`.
    With `segments` or `links`, the range that their subnets are cut from."""
    host_gateway: int | None = None
    """Host number of the PFs' router in each rail's `host_subnet`, such as 1 or 254."""
    segments: tuple[Segment, ...] = ()
    """A subnet and a router for each leaf; empty: each rail is one subnet."""
    links: Links | None = None
    """A subnet for each cable; None: each rail is one subnet."""
    pod: PodGroup | None = None
    """The rails' pod networks. None: no pod uses these rails, as under Slurm."""
    resource_prefix: str | None = None
    """Vendor part of the device-plugin resource; None: the default of a rail."""
    resource_name: NameSet | None = None
    """Device-plugin resources, as many as there are rails, such as `rdma_[1-8]`; None: named after
    the rails."""
    network_name: NameSet | None = None
    """NetworkAttachmentDefinitions, as many as there are rails, such as `rdma[1-8]`; None: named
    after the rails."""

    @model_validator(mode="after")
    def _one_way_to_a_subnet(self) -> Self:
        ways = [
            ("segments", self.segments),
            ("links", self.links),
            ("host_gateway", self.host_gateway is not None),
        ]
        if len(given_ways := [name for name, given in ways if given]) > 1:
            raise ValueError(f"{' and '.join(given_ways)} each set the PFs' routers; keep one")
        if self.links and self.links.order == "rail" and isinstance(self.host_subnet, Progression):
            raise ValueError(
                "links.order is rail, so all rails share one host_subnet; write it without first"
            )
        return self


class GroupPf(Section):
    """A PF of every node of a class, or several PFs at once with sets as long as `rail`."""

    rail: NameSet
    """Rail of the PF; with a set of rails, `interface` and `rdma_device` are sets too."""
    interface: NameSet
    """The PF's netdev as the host names it, such as `ens1f0np0` or `ens[1-8]np0`."""
    rdma_device: NameSet
    """RDMA device of the PF, such as `mlx5_0` or `mlx5_[0-7]`."""
    vfs: int
    """How many VFs the PF is split into."""
    driver: Driver | None = None
    """Kernel driver; None: the default of a PF."""
    pci: PciAddress | None = None
    """PCI address of the NIC in every node of the class; only for a PF that is written alone."""
    convert_infiniband: bool | None = None
    """Whether a port in InfiniBand mode is switched to Ethernet."""


class ExceptionPf(Section):
    """How a PF of one node differs from its class."""

    interface: InterfaceName | None = None
    rdma_device: str | None = None
    vfs: int | None = None
    driver: Driver | None = None
    pci: PciAddress | None = None
    convert_infiniband: bool | None = None
    address: InterfaceAddress | None = None
    """Address of the PF, instead of the group's."""
    gateway: IPv4Address | None = None


class NodeValues(Section):
    """Fields of nodes that a class, a group or an exception may set; each is the node's own
    field.
    """

    kind: Literal["bare_metal", "vsphere_vm"] | None = None
    state: Literal["active", "drained", "absent"] | None = None
    ssh_port: Port | None = None
    management_interface: InterfaceName | None = None
    role: Literal["worker", "control_plane"] | None = None
    gpus: int | None = None
    machine: AnyMachine | None = None
    vgpu: Vgpu | None = None


class NodeClass(NodeValues):
    """Nodes of one server model: NICs in the same slots, so with the same names."""

    pfs: tuple[GroupPf, ...] = ()
    """The PFs of every node of the class."""


class NodeException(NodeValues):
    """How one node of a group differs. A value that equals the group's is refused, since it changes
    nothing.
    """

    formerly: Name | None = None
    address: IPv4Address | None = None
    """Management address, instead of the group's."""
    pfs: Mapping[Name, ExceptionPf] = Field(default_factory=dict)
    """By rail, how the node's PF differs."""


class NodeGroup(NodeValues):
    """Nodes that differ only in their numbers, and the exceptions."""

    names: NameSet
    """Names of the nodes, such as `gpu[01-64]`."""
    node_class: Name | None = Field(default=None, alias="class")
    """One of `node_classes`; None: the group sets everything itself."""
    address: Addresses
    """Management addresses, such as {first: 192.0.2.11}."""
    rail_host: Numbers | None = None
    """Host number of each node on every rail, such as {first: 11}: the first node is .11 on each
    rail. On rails with links it counts the cables from 0; rails with segments ignore it."""
    pfs: tuple[GroupPf, ...] | None = None
    """The PFs of every node, instead of the class's."""
    exceptions: Mapping[Name, NodeException] = Field(default_factory=dict, alias="except")
    """Exceptions by node."""


class CableGroup(Section):
    """Cables between nodes and switches: leaf k serves rail k, or one leaf serves all the listed
    rails.
    """

    nodes: NameSet
    """Nodes, such as `gpu[01-64]`."""
    rails: NameSet
    """As many rails as the group has switches: switch k has the cables of rail k. A single switch
    takes any number."""
    port: NameSet
    """Switch ports, such as `Ethernet[0-252/4]`: one per node; on a single switch, each node's
    rails one by one."""


class SwitchGroup(Section):
    """Switches of one OS that differ only in their numbers; a single switch is a group as well.

    Any other key applies to each switch, whose own model checks it.
    """

    model_config = ConfigDict(extra="allow")

    names: NameSet
    """Names of the switches, such as `leaf[1-8]`."""
    address: Addresses
    """Management addresses, such as {first: 192.0.2.201}."""
    native_vlans: Mapping[NameSet, Numbers] = Field(default_factory=dict)
    """By rail or set of rails, the VLAN of the hosts' untagged frames, such as {rail-[1-8]: {first:
    11}}."""
    ports: tuple[CableGroup, ...] = ()
    """The cables."""

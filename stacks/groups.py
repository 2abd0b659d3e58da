"""Groups as people write them: many rails, nodes and switches at once. `stacks/expand.py` spells them out.

A value of a group is the same for all of them, or a progression: the first one's, and how far apart the next ones are.
"""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Discriminator, Field, Tag

from stacks.base import InterfaceName, MtuBytes, Name, Port, Section
from stacks.machines import AnyMachine, Vgpu
from stacks.nodes import Driver
from stacks.sets import NameSet

T = TypeVar("T")


class Progression(Section, Generic[T]):
    """The value of the first of a group; each next one is `step` further on."""

    first: T
    """Value of the group's first."""
    step: int = Field(default=1, ge=1, le=65_536)
    """How far apart: numbers, addresses, or subnets of that size."""


def _kind_of_value(value: object) -> str:
    return "progression" if isinstance(value, dict | Progression) else "same_for_all"


Numbers = Annotated[
    Annotated[int, Tag("same_for_all")] | Annotated[Progression[int], Tag("progression")],
    Discriminator(_kind_of_value),
]
Addresses = Annotated[
    Annotated[IPv4Address, Tag("same_for_all")] | Annotated[Progression[IPv4Address], Tag("progression")],
    Discriminator(_kind_of_value),
]
Subnets = Annotated[
    Annotated[IPv4Network, Tag("same_for_all")] | Annotated[Progression[IPv4Network], Tag("progression")],
    Discriminator(_kind_of_value),
]


class PodGroup(Section):
    """What pods see of each rail of a group. Addresses are host numbers: 10 is .10 of each rail's own subnet."""

    vlan_id: Numbers
    """VLAN that each VF gets when it is given to a pod."""
    subnet: Subnets
    """Subnet of the pods' interfaces on each rail."""
    pool: tuple[int, int]
    """Host numbers of the pool's first and last address in each subnet, such as [10, 249]."""
    gateway: int | None = None
    """Host number of the router of a routed rail; it must lie outside the pool."""
    addresses_per_node: int = Field(ge=1, le=1024)
    """Block of the pool that one node takes; at least its VF count, or pods wait for an address."""


class RailGroup(Section):
    """Rails that differ by their numbers only."""

    names: NameSet
    """Names of the rails, such as `rail-[1-8]`."""
    mtu_bytes: MtuBytes | None = None
    """Ethernet MTU of PFs, idle VFs and pods; None: the default of a rail."""
    host_subnet: Subnets
    """Untagged subnet of the PFs' own addresses; a node's number in it is its `rail_host`."""
    host_gateway: int | None = None
    """Host number of the PFs' router in each rail's `host_subnet`, such as 1 or 254."""
    pod: PodGroup
    resource_prefix: str | None = None
    """Vendor part of the device-plugin resource; None: the default of a rail."""
    resource_name: NameSet
    """Device-plugin resources, as many as there are rails, such as `rdma_[1-8]`."""
    network_name: NameSet
    """NetworkAttachmentDefinitions, as many as there are rails, such as `rdma[1-8]`."""


class GroupPf(Section):
    """A PF of every node of a class, or several at once: sets that are as long as `rail`."""

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


class ExceptionPf(Section):
    """How a PF of one node differs from its class's."""

    interface: InterfaceName | None = None
    rdma_device: str | None = None
    vfs: int | None = None
    driver: Driver | None = None
    address: IPv4Interface | None = None
    """Instead of the one that `rail_host` gives."""


class NodeValues(Section):
    """What a class, a group or an exception may say of nodes; each value is that of the node's own field."""

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
    """How one node of a group differs. What equals the group's own value is refused: it would only look different."""

    formerly: Name | None = None
    address: IPv4Address | None = None
    """Management address, instead of the one that the group gives."""
    pfs: Mapping[Name, ExceptionPf] = Field(default_factory=dict)
    """By rail, how the node's PF differs."""


class NodeGroup(NodeValues):
    """Nodes that differ by their numbers only, and the few that do not."""

    names: NameSet
    """Names of the nodes, such as `gpu[01-64]`."""
    node_class: Name | None = Field(default=None, alias="class")
    """One of `node_classes`; None: the group says everything itself."""
    address: Addresses
    """Management addresses, such as {first: 192.0.2.11}."""
    rail_host: Numbers | None = None
    """Host number of each node on every rail, such as {first: 11}: the first node is .11 everywhere."""
    pfs: tuple[GroupPf, ...] | None = None
    """The PFs of every node, instead of the class's."""
    exceptions: Mapping[Name, NodeException] = Field(default_factory=dict, alias="except")
    """By node, how it differs from the others of the group."""


class CableGroup(Section):
    """Cables between nodes and switches: leaf k serves rail k, or one leaf serves the rails that are named."""

    nodes: NameSet
    """Nodes, such as `gpu[01-64]`."""
    rails: NameSet
    """As many rails as the group has switches: switch k has the cables of rail k. On one switch any number."""
    port: NameSet
    """Switch ports, such as `Ethernet[0-252/4]`: one for each node; on one switch each node's rails one by one."""


class SwitchGroup(Section):
    """Switches of one operating system that differ by their numbers only; one switch is a group as well."""

    names: NameSet
    """Names of the switches, such as `leaf[1-8]`."""
    os: Literal["onyx", "nvue", "sonic", "eos"]
    address: Addresses
    """Management addresses, such as {first: 192.0.2.201}."""
    ssh_port: Port | None = None
    user: str | None = None
    native_vlans: Mapping[NameSet, Numbers] = Field(default_factory=dict)
    """By rail or set of rails, the VLAN of the hosts' untagged frames, such as {rail-[1-8]: {first: 11}}."""
    apply: bool | None = None
    allow_global: bool | None = None
    save: bool | None = None
    confirm_s: int | None = None
    mtu_bytes: int | None = None
    bridge: str | None = None
    """Bridge of the ports; NVUE only."""
    ports: tuple[CableGroup, ...] = ()
    """The cables."""

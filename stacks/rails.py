"""The rail: one RDMA network with one NIC of every node in it. Everything downstream is derived
from it.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address

from pydantic import Field, model_validator

from stacks.base import MtuBytes, Name, Network, ResourceName, Section, VlanId


class PodSide(Section):
    """A rail's pod network: its own VLAN, and addresses that no host uses."""

    vlan_id: VlanId | None
    """VLAN of each VF in a pod; null: none, so pods are untagged like the hosts."""
    subnet: Network
    """Subnet of the pods' interfaces on this rail."""
    first_address: IPv4Address
    """First address of the pool."""
    last_address: IPv4Address
    """Last address of the pool."""
    gateway: IPv4Address | None = None
    """Router of a routed rail; it must be outside the pool. None: the rail is one layer-2
    domain."""
    addresses_per_node: int = Field(ge=1, le=1024)
    """Block of the pool per node; at least its VF count, or some pods get no address."""

    @model_validator(mode="after")
    def _pool_lies_in_its_subnet(self) -> "PodSide":
        for field in ("first_address", "last_address"):
            address: IPv4Address = getattr(self, field)
            if address not in self.subnet:
                raise ValueError(
                    f"{field} {address} is outside subnet {self.subnet}; choose an address "
                    "inside it"
                )
        if self.last_address < self.first_address:
            raise ValueError(
                f"the pool ends at {self.last_address}, before it begins at {self.first_address}; "
                "swap them"
            )
        if self.gateway is not None and self.first_address <= self.gateway <= self.last_address:
            raise ValueError(
                f"gateway {self.gateway} is inside the pool; shorten the pool or move the gateway"
            )
        return self

    @property
    def block_count(self) -> int:
        """How many nodes the pool can serve: whole blocks of `addresses_per_node`."""
        return self._blocks()[1]

    def outside_blocks(self) -> Iterator[tuple[IPv4Address, IPv4Address]]:
        """The subnet's addresses outside the pool's whole blocks, as ranges.

        Network and broadcast addresses are left out.
        """
        low, high = self.subnet.network_address + 1, self.subnet.broadcast_address - 1
        first, count = self._blocks()
        end = first + count * self.addresses_per_node
        if low < first:
            yield low, first - 1
        if end <= high:
            yield end, high

    def _blocks(self) -> tuple[IPv4Address, int]:
        """First whole block inside the pool, and the number of whole blocks.

        nv-ipam counts blocks from the first address of the subnet, wherever the pool begins, and a
        block that the pool cuts through serves fewer pods than the node has VFs.
        """
        size, base = self.addresses_per_node, int(self.subnet.network_address) + 1
        before_pool = max(int(self.first_address) - base, 0)
        first = base + -(-before_pool // size) * size
        last = min(int(self.last_address), int(self.subnet.broadcast_address) - 1)
        return (
            IPv4Address(min(first, int(self.subnet.broadcast_address))),
            max(last + 1 - first, 0) // size,
        )


class Rail(Section):
    """One rail. Only its own NICs are in its subnet, as RoCE over several NICs needs."""

    name: Name
    """Key of the rail in every logical name; a new name is a new rail."""
    mtu_bytes: MtuBytes = 9000
    """Ethernet MTU of PFs, idle VFs and pods. 4200 or more gives the RDMA path MTU of 4096."""
    host_subnet: Network
    """Untagged subnet of the PFs' own addresses, or the range of their subnets if PFs have their
    own gateways."""
    host_gateway: IPv4Address | None = None
    """Router of the PFs on a routed rail: each PF then answers by its own routing table. None: one
    layer-2 domain."""
    pod: PodSide | None = None
    """The rail's pod network. None: no pod uses this rail, as under Slurm, so the cluster gets
    nothing for it; or pods use the network of their VM, as with PVRDMA."""
    resource_prefix: str = Field(default="intel.com", pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    """Vendor part of the device-plugin resource; the DeepOps RoCE guide uses the plugin's
    default."""
    resource_name: ResourceName = Field(
        default_factory=lambda rail: str(rail.get("name", "")).replace("-", "_")
    )
    """Device-plugin resource of this rail's VFs, such as `sriov_111`; defaults to a name after the
    rail's."""
    network_name: Name = Field(default_factory=lambda rail: str(rail.get("name", "")))
    """NetworkAttachmentDefinition of this rail, such as `sriov111`; defaults to a name after the
    rail's."""

    @model_validator(mode="after")
    def _gateway_is_a_host_of_the_subnet(self) -> "Rail":
        subnet, gateway = self.host_subnet, self.host_gateway
        if gateway is not None and (
            gateway not in subnet or gateway in (subnet.network_address, subnet.broadcast_address)
        ):
            raise ValueError(
                f"host_gateway {gateway} is not a host address in host_subnet {subnet}; set the "
                "router's address there"
            )
        return self

    @property
    def resource(self) -> str:
        """The resource that pods request, such as `intel.com/sriov_111`."""
        return f"{self.resource_prefix}/{self.resource_name}"

    @property
    def path_mtu_bytes(self) -> int:
        """RDMA path MTU that this Ethernet MTU allows.

        Linux takes off 96 bytes, then rounds down (`iboe_get_mtu`).
        """
        return max(size for size in (256, 512, 1024, 2048, 4096) if size <= self.mtu_bytes - 96)

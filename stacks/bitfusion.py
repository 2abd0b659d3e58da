"""Servers of vSphere Bitfusion: appliances from one OVA, with PVRDMA beside their management
adapter.

VMware has ended the product, and its OVA cannot be had here: all of this is proven with an OVA of
our own only.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from typing import Annotated, Self

from pydantic import Field, model_validator

from stacks.base import InterfaceAddress, InventoryName, LocalFile, Name, Section, repeated
from stacks.nodes import NodeBase, Pf
from stacks.rails import Rail

PropertyKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.{}-]+$", max_length=120)]
ByRail = Mapping[str, IPv4Address]
"""A server's addresses by the names of their rails, in the order of its adapters."""
ADAPTER = "{adapter}"
"""Placeholder in a property's key for the number of the adapter, 1 to 4."""


class OvfKeys(Section):
    """Names of the OVA's properties; `rocelab ovf FILE` lists them.

    rocelab checks each name against the OVA before it deploys anything. None: the OVA has no such
    property.
    """

    address: PropertyKey
    """Address of an adapter, such as `adapter{adapter}.ip`: `{adapter}` is its number."""
    prefix_length: PropertyKey | None = None
    """Prefix length of an adapter. None: the address is given with its prefix, as in
    192.168.30.231/24."""
    mtu: PropertyKey | None = None
    """MTU of an adapter on a rail."""
    gateway: PropertyKey | None = None
    dns: PropertyKey | None = None
    """Name servers, separated by commas."""
    hostname: PropertyKey | None = None
    vcenter: PropertyKey | None = None
    """Address of the vCenter where the first server registers its plug-in."""
    vcenter_user: PropertyKey | None = None
    vcenter_password: PropertyKey | None = None
    """Receives the password of `fabric.user`, as a secret."""
    vcenter_thumbprint: PropertyKey | None = None
    first_server: PropertyKey | None = None
    """Address of the first server, for the servers that join it."""

    @model_validator(mode="after")
    def _adapters_have_names_of_their_own(self) -> Self:
        for field in ("address", "prefix_length", "mtu"):
            key = getattr(self, field)
            if key is not None and ADAPTER not in key:
                raise ValueError(
                    f"{field} {key} has no {ADAPTER}, so all adapters would get the same value; "
                    f"add {ADAPTER}"
                )
        return self


class ServerAdapter(Section):
    """A PVRDMA adapter of a server: adapter 2, 3 or 4 by its place in the list."""

    rail: Name
    address: InterfaceAddress
    """Static, inside the rail's host subnet."""


class BitfusionServer(Section):
    """One appliance. The first of the list is the one that others join."""

    name: Name
    host: InventoryName
    """The ESXi host with its GPUs: an OVA is deployed to a host, and the appliance stays there."""
    datastore: InventoryName
    cpus: int = Field(default=8, ge=4, le=256)
    memory_mbytes: int = Field(default=49_152, ge=16_384, multiple_of=4)
    """Memory, all of it reserved and locked."""
    address: InterfaceAddress
    """Static address of adapter 1, a vmxnet3 on the management network."""
    gateway: IPv4Address | None = None
    adapters: tuple[ServerAdapter, ...] = Field(min_length=1, max_length=3)
    """Adapters 2 to 4. The guide allows PVRDMA on all, VMware's KB 328676 on one, so more cause a
    warning."""

    @model_validator(mode="after")
    def _adapters_on_separate_networks(self) -> Self:
        if twice := repeated(adapter.rail for adapter in self.adapters):
            raise ValueError(
                f"two adapters on {twice[0]}: Linux would answer for both through one; give each "
                "its own rail"
            )
        return self


class Bitfusion(Section):
    """The servers, and the OVA that they are deployed from."""

    ova: LocalFile
    """Local file, relative to the checkout: its descriptor is read at preview."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Checksum of the file; rocelab refuses a file with another one."""
    management_network: InventoryName
    """Network of adapter 1, which never is PVRDMA."""
    dns_servers: tuple[IPv4Address, ...] = ()
    keys: OvfKeys
    properties: dict[PropertyKey, str] = Field(default_factory=dict)
    """Further properties of the OVA by name, the same for all servers. Not for secrets: this file
    is plain text."""
    servers: tuple[BitfusionServer, ...] = Field(min_length=1, max_length=32)

    @property
    def addresses(self) -> tuple[ByRail, ...]:
        """Where each server is on the rails."""
        addresses = []
        for server in self.servers:
            addresses.append({adapter.rail: adapter.address.ip for adapter in server.adapters})
        return tuple(addresses)


def named_addresses(servers: Iterable[IPv4Address], rails: Iterable[Rail]) -> tuple[ByRail, ...]:
    """Addresses of existing servers, of which nothing else is known."""
    known = tuple(rails)
    addresses = []
    for server in servers:
        addresses.append({rail.name: server for rail in known if server in rail.host_subnet})
    return tuple(addresses)


def way_to(server: ByRail, node: NodeBase) -> tuple[Pf, IPv4Address] | None:
    """A client's PF on a rail of the server's, and the server's address there; None when they share
    no rail.
    """
    ways = ((node.pf_on(rail), address) for rail, address in server.items())
    return next(((pf, address) for pf, address in ways if pf is not None), None)

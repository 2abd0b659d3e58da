"""What gives a pod its address on a rail. The range is always the rail's own, `rails[].pod`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from stacks.base import Section


class IpamBase(Section):
    """What rules between sections need to know about every IPAM."""

    IN_BLOCKS: ClassVar[bool] = False
    """Whether a node has no more addresses than its block (`pod.addresses_per_node`)."""
    NAMED_BY_PODS: ClassVar[bool] = False
    """Whether pods name their addresses in their own annotation (`ips`)."""


class NvIpam(IpamBase):
    """Each node owns a block of the rail's pool and assigns its addresses: fast and without conflicts."""

    IN_BLOCKS = True

    kind: Literal["nv_ipam"] = "nv_ipam"


class Whereabouts(IpamBase):
    """One list for the whole cluster, guarded by a lease: addresses are dense, and starting many pods is slow."""

    kind: Literal["whereabouts"]


class Dhcp(IpamBase):
    """The lab's own DHCP server on each rail's pod VLAN, as the guide has it; a daemon on each node renews leases.

    The server owns the pool; `rails[].pod` only describes it.
    """

    kind: Literal["dhcp"]


class Static(IpamBase):
    """Each pod sets its addresses in its own annotation. For a few pods only: replicas would share one address."""

    NAMED_BY_PODS = True

    kind: Literal["static"]


Ipam = Annotated[NvIpam | Whereabouts | Dhcp | Static, Field(discriminator="kind")]
"""Exactly one: `components/cluster/ipam/` has a file for each."""

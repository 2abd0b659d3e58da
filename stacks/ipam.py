"""Who gives a pod its address on a rail. The range is the rail's own, `rails[].pod`, whoever gives it."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from stacks.base import Section


class IpamBase(Section):
    """What rules between sections ask of every IPAM."""

    IN_BLOCKS: ClassVar[bool] = False
    """Whether a node has no more addresses than its block (`pod.addresses_per_node`)."""
    NAMED_BY_PODS: ClassVar[bool] = False
    """Whether pods name their addresses in their own annotation (`ips`)."""


class NvIpam(IpamBase):
    """Each node takes a block of the rail's pool and hands it out by itself: fast, and no address twice."""

    IN_BLOCKS = True

    kind: Literal["nv_ipam"] = "nv_ipam"


class Whereabouts(IpamBase):
    """One list for the whole cluster, guarded by a lease: addresses are dense, and starting many pods is slow."""

    kind: Literal["whereabouts"]


class Dhcp(IpamBase):
    """The lab's own DHCP server on each rail's pod VLAN, as the guide has it; a daemon on each node renews leases.

    The pool of `rails[].pod` is then the server's business and only describes it.
    """

    kind: Literal["dhcp"]


class Static(IpamBase):
    """Each pod names its addresses in its own annotation. For a few pods by hand; replicas would all have one."""

    NAMED_BY_PODS = True

    kind: Literal["static"]


Ipam = Annotated[NvIpam | Whereabouts | Dhcp | Static, Field(discriminator="kind")]
"""Exactly one: `components/cluster/ipam/` has a file for each."""

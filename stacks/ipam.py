"""Who gives a pod its address on a rail. The range is the rail's own, `rails[].pod`, whoever gives it."""

from typing import Annotated, Literal

from pydantic import Field

from stacks.base import Section


class NvIpam(Section):
    """Each node takes a block of the rail's pool and hands it out by itself: fast, and no address twice."""

    kind: Literal["nv_ipam"] = "nv_ipam"


class Whereabouts(Section):
    """One list for the whole cluster, guarded by a lease: addresses are dense, and starting many pods is slow."""

    kind: Literal["whereabouts"]


class Dhcp(Section):
    """The lab's own DHCP server on each rail's pod VLAN, as the guide has it; a daemon on each node renews leases.

    The pool of `rails[].pod` is then the server's business and only describes it.
    """

    kind: Literal["dhcp"]


class Static(Section):
    """Each pod names its addresses in its own annotation. For a few pods by hand; replicas would all have one."""

    kind: Literal["static"]


Ipam = Annotated[NvIpam | Whereabouts | Dhcp | Static, Field(discriminator="kind")]
"""Exactly one."""

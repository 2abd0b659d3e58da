"""What gives a pod its address on a rail. The range is always the rail's own, `rails[].pod`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from stacks.base import Section
from stacks.bill import Upstream

WHEREABOUTS_SHA256 = {
    "ippools": "8957e53f260e5ee0ad6560743d02c609ff21e15f6c3b23851971522b3bf6027a",
    "overlappingrangeipreservations": (
        "59ff31b1cbe8ff7732160f3f533a71884c4bb03b18d2aa48c97b0a2aadcc4cb0"
    ),
    "nodeslicepools": "30fa5262387a7e66e9fe4e8bc4968d8ec95d160667a3634bf53a91ed0b6b4c74",
}
"""Its kinds, as the release that `cluster.bill.whereabouts` names defines them."""


def _whereabouts_definition(kind: str) -> Upstream:
    return Upstream(
        module="github.com/k8snetworkplumbingwg/whereabouts",
        version="v0.9.4",
        path=f"doc/crds/whereabouts.cni.cncf.io_{kind}.yaml",
        sha256=WHEREABOUTS_SHA256[kind],
    )


class IpamBase(Section):
    """What rules between sections need to know about every IPAM."""

    IN_BLOCKS: ClassVar[bool] = False
    """Whether a node has no more addresses than its block (`pod.addresses_per_node`)."""
    NAMED_BY_PODS: ClassVar[bool] = False
    """Whether pods name their addresses in their own annotation (`ips`)."""
    DEFINITIONS: ClassVar[Mapping[str, Upstream]] = {}
    """Custom resource definitions that come as pinned files of a release, by short key."""


class NvIpam(IpamBase):
    """Each node owns a block of the rail's pool and assigns its addresses: fast and without
    conflicts.
    """

    IN_BLOCKS = True

    kind: Literal["nv_ipam"] = "nv_ipam"


class Whereabouts(IpamBase):
    """One list for the whole cluster, guarded by a lease: addresses are dense, and starting many
    pods is slow.
    """

    DEFINITIONS: ClassVar[Mapping[str, Upstream]] = {
        f"whereabouts-{kind}": _whereabouts_definition(kind) for kind in WHEREABOUTS_SHA256
    }

    kind: Literal["whereabouts"]


class Dhcp(IpamBase):
    """The lab's own DHCP server on each rail's pod VLAN, as the guide has it; a daemon on each node
    renews leases.

    The server owns the pool; `rails[].pod` only describes it.
    """

    kind: Literal["dhcp"]


class Static(IpamBase):
    """Each pod sets its addresses in its own annotation. For a few pods only: replicas would share
    one address.
    """

    NAMED_BY_PODS = True

    kind: Literal["static"]


Ipam = Annotated[NvIpam | Whereabouts | Dhcp | Static, Field(discriminator="kind")]
"""Exactly one: `components/cluster/ipam/` has a file for each."""

"""The rails as pods see them: per rail a pool of addresses, and in each namespace a network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from components.cluster.ipam import render_pool
from components.cluster.networks import render_network
from components.cluster.operators import place
from components.cluster.rails import populated_rails
from stacks.cluster import Cluster
from stacks.lab import Lab


@dataclass(frozen=True, kw_only=True, slots=True)
class AttachmentsArgs:
    """Inputs of `Attachments`."""

    lab: Lab
    cluster: Cluster
    manager: str
    """Field manager of the lab."""
    networks_after: Sequence[pulumi.Resource]
    """The kind of the networks."""
    pools_after: Sequence[pulumi.Resource]
    """The kind of the pools."""


class Attachments(pulumi.ComponentResource):
    """What a pod names to get a rail: it waits for no host, since nothing looks at it before a pod starts."""

    placed: Sequence[pulumi.CustomResource]

    def __init__(self, name: str, args: AttachmentsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rocelab:cluster:Attachments", name, None, opts)
        # an object of a kind that is not yet served is refused, and no field of it points at the kind
        pools = pulumi.ResourceOptions(parent=self, depends_on=list(args.pools_after))
        networks = pulumi.ResourceOptions(parent=self, depends_on=list(args.networks_after))
        placed: list[pulumi.CustomResource] = []
        for rail in populated_rails(args.lab):
            pool = render_pool(args.lab, args.cluster, rail)
            placed.append(place(f"{name}-{rail.name}-pool", pool, args.manager, pools))
            for namespace in args.cluster.namespaces:
                network = render_network(args.lab, rail, namespace)
                placed.append(place(f"{name}-{rail.name}-network-{namespace}", network, args.manager, networks))
        self.placed = placed
        self.register_outputs({})


def describe(lab: Lab) -> Mapping[str, Mapping[str, str | int]]:
    """Per rail what a pod needs to know: the resource to ask for, and the network to name."""
    return {
        rail.name: {
            "resource": rail.resource,
            "network": rail.network_name,
            "vlan_id": rail.pod.vlan_id,
            "mtu_bytes": rail.mtu_bytes,
        }
        for rail in populated_rails(lab)
    }

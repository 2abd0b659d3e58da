"""The rails as pods see them: per rail a pool of addresses, and in each namespace a network."""

from collections.abc import Mapping, Sequence

import pulumi

from components.cluster.operators import place
from components.cluster.profiles import networks, pools
from components.cluster.rails import pod_side, populated_rails
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma, SharedRdma
from stacks.frozen import frozen
from stacks.lab import Lab


@frozen
class AttachmentsArgs:
    lab: Lab
    cluster: Cluster
    networks_after: Sequence[pulumi.Resource]
    """The kind of the networks, or the operator's policies."""
    pools_after: Sequence[pulumi.Resource]
    """The kind of the pools, or the policy that brings it."""


class Attachments(pulumi.ComponentResource):
    """Pools and networks of the rails. They wait for no host, because nothing uses them before a
    pod starts.
    """

    placed: Sequence[pulumi.CustomResource]

    def __init__(
        self, name: str, args: AttachmentsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("rocelab:cluster:Attachments", name, None, opts)
        # the API refuses objects of an unknown kind, and no field refers to the kind's definition
        kinds = ((pools, args.pools_after), (networks, args.networks_after))
        placed = []
        for rendered, after in kinds:
            child = pulumi.ResourceOptions(parent=self, depends_on=list(after))
            for key, manifest in rendered(args.lab, args.cluster).items():
                placed.append(place(f"{name}-{key}", manifest, args.lab.name, child))
        self.placed = placed
        self.register_outputs({})


def describe(lab: Lab, cluster: Cluster) -> Mapping[str, Mapping[str, str | int]]:
    """Per rail what a pod needs to know: the resource to ask for, and the network to name.

    Without a network a pod runs in its machine's (`hostNetwork`); without a VLAN it is in the
    rail's native one.
    """
    own_network = not isinstance(cluster.delivery, Pvrdma)
    tagged = own_network and not isinstance(cluster.delivery, SharedRdma)
    described = {}
    for rail in populated_rails(lab):
        needs: dict[str, str | int] = {"resource": rail.resource}
        if own_network:
            needs["network"] = rail.network_name
        vlan_id = pod_side(rail).vlan_id if tagged else None
        if vlan_id:
            needs["vlan_id"] = vlan_id
        described[rail.name] = {**needs, "mtu_bytes": rail.mtu_bytes}
    return described

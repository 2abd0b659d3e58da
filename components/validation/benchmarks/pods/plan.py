"""The check of the rails from inside pods: which pods on which nodes, and who pings whom. Pure."""

from collections.abc import Collection, Iterator, Sequence
from ipaddress import IPv4Network
from itertools import combinations

from pydantic import Field, JsonValue

from components.cluster.manifests import render
from components.jobs.mpijob import LAB_LABEL, NETWORKS, RUN_LABEL, job_name
from components.jobs.rail_pod import CHECK_LABEL, LIMIT_S, PEERS, SCRIPT, script_words
from components.jobs.workers import PodPlacement, home_of_networks, placement_of
from components.validation.records import Frozen
from stacks.delivery import Pvrdma, SriovPlain
from stacks.lab import Lab
from stacks.rails import Rail

MOST_PAIRED_PODS = 16
HARDWARE_S, SIMULATED_S = 45.0, 5.0
"""Assumed for the estimate: the image is there, pods start, and all pings run at once."""


class PodRail(Frozen):
    """One rail as pods get it."""

    name: str
    network: str
    """NetworkAttachmentDefinition as `namespace/name`."""
    resource: str
    subnet: IPv4Network
    mtu_bytes: int
    vlan_id: int | None
    routed: bool
    """Whether it has a router, behind which other rails may be."""
    nodes: tuple[str, ...]

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs that ping each other; an answer proves both directions.

        In a larger lab each node pings those that are 1, 2, 4, 8 … places behind it: every node,
        and every distance between leaf switches, in a number of pairs that grows with n log n.
        """
        return tuple(pairs_of(self.nodes))


class PodPlan(Frozen):
    """A pod on each node, with all rails of the node."""

    namespace: str
    image: str
    pull_secret: str | None = None
    own_vf: bool
    """Whether pods have VFs of their own; else macvlans over the PF's device."""
    rails: tuple[PodRail, ...]
    placement: PodPlacement = Field(
        default=PodPlacement(), exclude_if=lambda placement: placement == PodPlacement()
    )
    impossible: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes, in the order of the lab."""
        return tuple(dict.fromkeys(node for rail in self.rails for node in rail.nodes))

    def rails_of(self, node: str) -> tuple[PodRail, ...]:
        """The rails of a node's pod; Multus names their interfaces net1, net2 and so on."""
        return tuple(rail for rail in self.rails if node in rail.nodes)

    def pod_name(self, run_id: str, node: str) -> str:
        """The name of the pod on a node."""
        return f"{job_name(run_id)}-{node}"

    def document(self, node: str, lab: str, run_id: str) -> dict[str, JsonValue]:
        """The pod on a node."""
        rails, placement = self.rails_of(node), self.placement
        labels = {LAB_LABEL: lab, RUN_LABEL: run_id, CHECK_LABEL: "rails"}
        networks = {NETWORKS: ",".join(rail.network for rail in rails)}
        return render(
            "jobs/manifests/rail_pod",
            name=self.pod_name(run_id, node),
            node=node,
            namespace=self.namespace,
            image=self.image,
            pull_secret=self.pull_secret,
            labels={**placement.labels, **labels},
            annotations={**placement.annotations, **networks},
            tolerations=placement.taints,
            command=["sh", "-c", SCRIPT, "sh", *script_words([rail.name for rail in rails])],
            limits={"memory": "128Mi", **{rail.resource: "1" for rail in rails}},
            limit_s=LIMIT_S,
            limit_text=str(LIMIT_S),
            peers_field=f"metadata.annotations['{PEERS}']",
        )

    def on(self, names: Collection[str]) -> "PodPlan | None":
        """The check on some of the rails."""
        rails = tuple(rail for rail in self.rails if rail.name in names)
        if rails:
            return self.replace(rails=rails)
        return None

    def without(self, names: Collection[str]) -> "PodPlan | None":
        """The check without some nodes."""
        rails = []
        for rail in self.rails:
            nodes = tuple(node for node in rail.nodes if node not in names)
            if len(nodes) > 1:
                rails.append(rail.replace(nodes=nodes))
        if rails:
            return self.replace(rails=tuple(rails))
        return None


def pairs_of(nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each pair once: all, or those at distances that are powers of two on a ring of the nodes."""
    if len(nodes) <= MOST_PAIRED_PODS:
        yield from combinations(nodes, 2)
        return
    paired: set[frozenset[str]] = set()
    for place, node in enumerate(nodes):
        distance = 1
        while distance < len(nodes):
            peer = nodes[(place + distance) % len(nodes)]
            if frozenset((node, peer)) not in paired:
                paired.add(frozenset((node, peer)))
                yield node, peer
            distance *= 2


def pods_of(lab: Lab) -> PodPlan | None:
    """The check of a lab; None where no pod has a network of its own on a rail."""
    cluster, benchmarks = lab.cluster, lab.benchmarks
    if cluster is None or benchmarks is None or isinstance(cluster.delivery, Pvrdma):
        return None
    home = home_of_networks(cluster, benchmarks.namespace)
    planned = [_rail(lab, rail, home) for rail in lab.rails]
    rails = tuple(rail for rail in planned if rail)
    if not rails:
        return None
    impossible = image = ""
    images = []
    for job in (benchmarks.nccl, benchmarks.mpi):
        if job and job.image:
            images.append(job.image)
    if not images:
        impossible = "benchmarks.nccl.image: missing, and the check's pods need an image with ping"
    elif cluster.ipam.kind == "static":
        impossible = (
            "cluster.ipam static: each pod names its own address, and none is left for a check"
        )
    if images:
        image = cluster.registry.resolve(images[0])
    return PodPlan(
        namespace=benchmarks.namespace,
        image=image,
        pull_secret=cluster.registry.pull_secret,
        own_vf=cluster.delivery.profile != "shared_rdma",
        rails=rails,
        placement=placement_of(lab),
        impossible=impossible,
    )


def _rail(lab: Lab, rail: Rail, namespace: str) -> PodRail | None:
    """None: there are no two nodes whose pods can be on it."""
    plain = lab.cluster is not None and isinstance(lab.cluster.delivery, SriovPlain)
    workers = [node for node in lab.active_nodes if node.role == "worker"]
    nodes = []
    for node in workers:
        pf = node.pf_on(rail.name)
        if pf and (pf.vfs or not plain):
            nodes.append(node.name)
    if rail.pod is None or len(nodes) < 2:
        return None
    return PodRail(
        name=rail.name,
        network=f"{namespace}/{rail.network_name}",
        resource=rail.resource,
        subnet=rail.pod.subnet,
        mtu_bytes=rail.mtu_bytes,
        vlan_id=rail.pod.vlan_id,
        routed=rail.pod.gateway is not None,
        nodes=tuple(nodes),
    )

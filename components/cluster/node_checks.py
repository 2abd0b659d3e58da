"""The conditions on nodes, pools and networks before a job may start. Pure: objects in, reasons out."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network

from pydantic import JsonValue

from components.cluster.ipam import address_source
from components.cluster.manifests import Manifest
from components.cluster.networks import API_VERSION as NETWORK_API
from components.cluster.profiles import networks
from components.cluster.rails import pod_rails
from components.kubernetes.client import at
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma, SriovOperator, devices_of
from stacks.lab import Lab
from stacks.nodes import Node
from stacks.words import some

GPU = "nvidia.com/gpu"
DISTRIBUTION = re.compile(r"[-+](?!alpha|beta|rc).*$")
"""Suffix of a distribution (`1.35.2+rke2r1`, `1.35.2-eks-a1b2c3d`), but not of a release candidate."""
NODE_STATES = "/apis/sriovnetwork.openshift.io/v1/namespaces/{namespace}/sriovnetworknodestates"


@dataclass(frozen=True, kw_only=True, slots=True)
class GateSpec:
    """What the gate expects; plain values, because the state contains them."""

    nodes: dict[str, dict[str, int]]
    """Resources by active node."""
    kubelet: str
    """Version or its prefix; empty: any."""
    pools: dict[str, list[str]]
    """Path of each address pool, and the nodes that need a block of it."""
    networks: list[str]
    """Paths of the networks that pods name."""
    node_states: str
    """Path of the SR-IOV operator's own reports; empty without it."""
    subnets: dict[str, str] = field(default_factory=dict)
    """The rails' subnets by name: nothing else in the cluster may use them."""
    drain: bool | None = None
    """Whether the SR-IOV operator drains a node before its VFs change; None: no operator changes them."""


def gate_spec(lab: Lab, cluster: Cluster) -> GateSpec:
    """What a lab's gate expects.

    Pools are checked on hardware only: the simulator's pods get no interface, so it allocates no blocks.
    """
    operator = cluster.delivery if isinstance(cluster.delivery, SriovOperator) else None
    blocks = {} if isinstance(cluster.delivery, Pvrdma) else address_source(cluster).blocks(lab)
    paths = [
        f"/apis/{NETWORK_API}/namespaces/{at(m, 'metadata', 'namespace')}"
        f"/network-attachment-definitions/{at(m, 'metadata', 'name')}"
        for m in networks(lab, cluster).values()
    ]
    return GateSpec(
        nodes={node.name: _resources(lab, cluster, node) for node in lab.active_nodes},
        kubelet=_kubelet(cluster),
        pools={} if lab.simulated else blocks,
        # no operator runs in the simulator to create networks
        networks=[] if operator and lab.simulated else paths,
        node_states=NODE_STATES.format(namespace=operator.namespace) if operator else "",
        drain=operator.drain if operator else None,
        subnets={
            words: str(subnet)
            for rail in lab.rails
            for words, subnet in (
                (f"{rail.name}.host_subnet", rail.host_subnet),
                *([(f"{rail.name}.pod.subnet", rail.pod.subnet)] if rail.pod else []),
            )
        },
    )


def vf_changes(old: GateSpec, new: GateSpec) -> Iterator[str]:
    """A line per change of VFs by the SR-IOV operator, whose custom resource shows only a number."""
    if new.drain is None:
        return
    counts: dict[tuple[str, int, int], list[str]] = {}
    for node in old.nodes.keys() & new.nodes.keys():
        # a missing resource counts as 0: a PF joined its rail or left it
        for resource in (old.nodes[node].keys() | new.nodes[node].keys()) - {GPU}:
            before, after = old.nodes[node].get(resource, 0), new.nodes[node].get(resource, 0)
            if before != after:
                counts.setdefault((resource, before, after), []).append(node)
    for (resource, before, after), nodes in sorted(counts.items()):
        yield (
            f"{resource}: {before} => {after} VFs per PF on {some(sorted(nodes), 1)}: "
            + (
                "the SR-IOV operator drains each node first, so its pods restart elsewhere"
                if new.drain
                else "the SR-IOV operator removes all VFs of a PF first, so running pods lose theirs "
                "(cluster.delivery.drain: true drains the nodes first)"
                if before
                else "the SR-IOV operator creates them, and no pod loses any"
            )
        )


def _kubelet(cluster: Cluster) -> str:
    """The version in the lab file, or the installed release of a cluster that rocelab creates."""
    made = cluster.bootstrap.version if cluster.bootstrap else ""
    return (cluster.kubelet_version or made).removeprefix("v")


def _resources(lab: Lab, cluster: Cluster, node: Node) -> dict[str, int]:
    found = {}
    for rail in pod_rails(lab):
        pf = node.pf_on(rail.name)
        if pf is not None and (count := devices_of(cluster.delivery, pf.vfs)):
            found[rail.resource] = count
    if cluster.gpus != "none" and node.gpus:
        found[GPU] = node.gpus
    return found


def node_faults(name: str, node: Manifest | None, resources: Mapping[str, int], kubelet: str) -> list[str]:
    """Why no job can run on a node; empty when one can."""
    if node is None:
        return [f"the cluster has no node {name}: it has not joined, or has another name there"]
    faults = []
    if not _is_ready(node):
        faults.append("not Ready: see kubectl describe node")
    if at(node, "spec", "unschedulable") is True:
        faults.append("cordoned: kubectl uncordon, or nodes.state: drained")
    version = str(at(node, "status", "nodeInfo", "kubeletVersion") or "").removeprefix("v")
    if kubelet and not _is_release(version, kubelet):
        faults.append(f"kubelet {version or 'of unknown version'}, expected {kubelet} (cluster.kubelet_version)")
    for resource, count in resources.items():
        offered = at(node, "status", "allocatable")
        found = str(offered.get(resource, 0)) if isinstance(offered, Mapping) else "0"
        if found != str(count):
            faults.append(f"offers {found} {resource}, expected {count}: {_why(resource, found)}")
    return faults


def network_faults(node: Manifest | None, subnets: Mapping[str, str]) -> list[str]:
    """Faults if the cluster's own traffic would use a rail, through the node's address or its pods' addresses.

    The lab file names only a pod subnet; these are the addresses that the cluster really uses.
    """
    faults = []
    for address in _values(node, "status", "addresses"):
        if at(address, "type") == "InternalIP" and (found := _network(at(address, "address"))):
            faults += [
                f"its kubelet has the address {found.network_address} in {words} {subnet}: set its --node-ip to the "
                "management address, or kubectl and probes cross the rail"
                for words, subnet in subnets.items()
                if found.subnet_of(IPv4Network(subnet))
            ]
    for given in dict.fromkeys([at(node, "spec", "podCIDR"), *_values(node, "spec", "podCIDRs")]):
        if found := _network(given):
            faults += [
                f"its pods get addresses of {found}, which overlaps {words} {subnet}: give one of them another subnet"
                for words, subnet in subnets.items()
                if found.overlaps(IPv4Network(subnet))
            ]
    return faults


def pool_faults(name: str, pool: Manifest | None, nodes: Sequence[str]) -> list[str]:
    """Nodes without a block of a pool: their pods would wait for an address forever."""
    if pool is None:
        return [f"there is no address pool {name}"]
    allocations = at(pool, "status", "allocations")
    served = {str(at(each, "nodeName")) for each in allocations} if isinstance(allocations, list) else set()
    if lacking := [node for node in nodes if node not in served]:
        return [f"pool {name} gives no addresses to {', '.join(lacking)}; see kubectl logs deploy/nv-ipam-controller"]
    return []


def state_faults(state: Manifest) -> list[str]:
    """What the SR-IOV operator reports about a node that is not finished."""
    status = at(state, "status", "syncStatus")
    if status in (None, "Succeeded"):
        return []
    said = at(state, "status", "lastSyncError")
    return [f"SR-IOV operator: {status}{f', {said}' if said else ''}"[:300]]


def _values(node: Manifest | None, *path: str) -> list[JsonValue]:
    found = at(node, *path)
    return found if isinstance(found, list) else []


def _network(text: JsonValue) -> IPv4Network | None:
    """None: there is none, or it is of IPv6, which no rail has."""
    try:
        return IPv4Network(str(text))
    except ValueError:
        return None


def _is_release(version: str, expected: str) -> bool:
    release = DISTRIBUTION.sub("", version)
    return release == expected or release.startswith(f"{expected}.")


def _is_ready(node: Manifest) -> bool:
    conditions = at(node, "status", "conditions")
    found = conditions if isinstance(conditions, list) else []
    return any(at(each, "type") == "Ready" and at(each, "status") == "True" for each in found)


def _why(resource: str, found: str) -> str:
    if resource == GPU:
        return "check the GPU device plugin's pod on the node"
    if found == "0":
        return "its plugin found no device or has not started; see the logs of its pod, then restart it"
    return "devices changed after the plugin started; restart its pod when no job holds any"

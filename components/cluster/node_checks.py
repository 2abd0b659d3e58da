"""The conditions on nodes, pools and networks before a job may start. Pure: objects in, reasons
out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
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
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.nodes import Node
from stacks.words import some

GPU = "nvidia.com/gpu"
DISTRIBUTION = re.compile(r"[-+](?!alpha|beta|rc).*$")
"""Suffix of a distribution, as in `1.35.2+rke2r1`, but not of a release candidate."""
NODE_STATES = "/apis/sriovnetwork.openshift.io/v1/namespaces/{namespace}/sriovnetworknodestates"


@frozen
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
    """Whether the SR-IOV operator drains a node before its VFs change; None: it changes none."""


def gate_spec(lab: Lab, cluster: Cluster) -> GateSpec:
    """What a lab's gate expects.

    Pools are checked on hardware only: the simulator's pods get no interface, so it allocates no
    blocks.
    """
    subnets = {}
    for rail in lab.rails:
        subnets[f"{rail.name}.host_subnet"] = str(rail.host_subnet)
        if rail.pod:
            subnets[f"{rail.name}.pod.subnet"] = str(rail.pod.subnet)
    pools: dict[str, list[str]] = {}
    if not isinstance(cluster.delivery, Pvrdma) and not lab.simulated:
        pools = address_source(cluster).blocks(lab)
    paths, states, drain = [], "", None
    for manifest in networks(lab, cluster).values():
        namespace, name = (at(manifest, "metadata", key) for key in ("namespace", "name"))
        folder = f"/apis/{NETWORK_API}/namespaces/{namespace}/network-attachment-definitions"
        paths.append(f"{folder}/{name}")
    if isinstance(cluster.delivery, SriovOperator):
        states = NODE_STATES.format(namespace=cluster.delivery.namespace)
        drain = cluster.delivery.drain
        if lab.simulated:  # no operator runs there to create networks
            paths = []
    return GateSpec(
        nodes={node.name: _resources(lab, cluster, node) for node in lab.active_nodes},
        kubelet=_kubelet(cluster),
        pools=pools,
        networks=paths,
        node_states=states,
        drain=drain,
        subnets=subnets,
    )


def vf_changes(old: GateSpec, new: GateSpec) -> Iterator[str]:
    """A line per change of VFs by the SR-IOV operator; its custom resource shows only a number."""
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
        if new.drain:
            effect = "drains each node first, so its pods restart elsewhere"
        elif before:
            effect = "takes VFs from running pods (to drain first: cluster.delivery.drain: true)"
        else:
            effect = "creates them, and no pod loses any"
        where = f"{before} => {after} VFs per PF on {some(sorted(nodes), 1)}"
        yield f"{resource}: {where}: the SR-IOV operator {effect}"


def _kubelet(cluster: Cluster) -> str:
    """The version in the lab file, or the installed release of a cluster that rocelab creates."""
    made = cluster.bootstrap.version if cluster.bootstrap else ""
    return (cluster.kubelet_version or made).removeprefix("v")


def _resources(lab: Lab, cluster: Cluster, node: Node) -> dict[str, int]:
    resources = {}
    for rail in pod_rails(lab):
        pf = node.pf_on(rail.name)
        if pf is not None and (count := devices_of(cluster.delivery, pf.vfs)):
            resources[rail.resource] = count
    if cluster.gpus != "none" and node.gpus:
        resources[GPU] = node.gpus
    return resources


def node_faults(
    name: str, node: Manifest | None, resources: Mapping[str, int], kubelet: str
) -> list[str]:
    """Why no job can run on a node; empty when one can."""
    if node is None:
        return [f"the cluster has no node {name}: it has not joined, or joined under another name"]
    faults = []
    if not _is_ready(node):
        faults.append("not Ready: see kubectl describe node")
    if at(node, "spec", "unschedulable") is True:
        faults.append("cordoned: kubectl uncordon, or nodes.state: drained")
    version = str(at(node, "status", "nodeInfo", "kubeletVersion") or "").removeprefix("v")
    if kubelet and not _is_release(version, kubelet):
        installed = version or "of unknown version"
        faults.append(f"kubelet {installed}, expected {kubelet} (cluster.kubelet_version)")
    for resource, count in resources.items():
        offered = str(at(node, "status", "allocatable", resource) or 0)
        if offered != str(count):
            why = _why(resource, offered)
            faults.append(f"offers {offered} {resource}, expected {count}: {why}")
    return faults


def network_faults(node: Manifest | None, subnets: Mapping[str, str]) -> list[str]:
    """Faults if the cluster's own traffic would use a rail, by the node's or its pods' addresses.

    The lab file names only a pod subnet; these are the addresses that the cluster really uses.
    """
    faults = []
    rails = {words: IPv4Network(subnet) for words, subnet in subnets.items()}
    for address in _values(node, "status", "addresses"):
        own = _network(at(address, "address"))
        if own is None or at(address, "type") != "InternalIP":
            continue
        for words, subnet in rails.items():
            if own.subnet_of(subnet):
                faults.append(
                    f"its kubelet has the address {own.network_address} in {words} {subnet}: set "
                    "its --node-ip to the management address"
                )
    for given in dict.fromkeys([at(node, "spec", "podCIDR"), *_values(node, "spec", "podCIDRs")]):
        pods = _network(given)
        for words, subnet in rails.items():
            if pods is not None and pods.overlaps(subnet):
                faults.append(
                    f"its pods get addresses of {pods}, which overlaps {words} {subnet}: give one "
                    "of them another subnet"
                )
    return faults


def pool_faults(name: str, pool: Manifest | None, nodes: Sequence[str]) -> list[str]:
    """Nodes without a block of a pool: their pods would wait for an address forever."""
    if pool is None:
        return [f"there is no address pool {name}"]
    allocations = _values(pool, "status", "allocations")
    served = {at(allocation, "nodeName") for allocation in allocations}
    lacking = ", ".join(node for node in nodes if node not in served)
    if not lacking:
        return []
    see = "see kubectl logs deploy/nv-ipam-controller"
    return [f"pool {name} gives no addresses to {lacking}; {see}"]


def state_faults(state: Manifest) -> list[str]:
    """What the SR-IOV operator reports about a node that is not finished."""
    status = at(state, "status", "syncStatus")
    if status in (None, "Succeeded"):
        return []
    error = at(state, "status", "lastSyncError")
    text = f"{status}, {error}" if error else status
    return [f"SR-IOV operator: {text}"[:300]]


def _values(node: Manifest | None, *path: str) -> list[JsonValue]:
    values = at(node, *path)
    return values if isinstance(values, list) else []


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
    for condition in _values(node, "status", "conditions"):
        if at(condition, "type") == "Ready" and at(condition, "status") == "True":
            return True
    return False


def _why(resource: str, offered: str) -> str:
    if resource == GPU:
        return "check the GPU device plugin's pod on the node"
    if offered == "0":
        return "its plugin found no device; see the logs of its pod, then restart it"
    return "devices changed after the plugin started; restart its pod when no job holds any"

"""The lab's machines as Kubernetes nodes. Pure."""

from simulator.plane.api import Object
from simulator.plane.kubelets import PodNetwork, section
from simulator.plane.layout import Layout
from stacks.delivery import devices_of
from stacks.lab import Lab
from stacks.nodes import Node

SIMULATED = "rocelab.dev/simulated"
"""Label of nodes that the simulator created and may delete."""
REPLAYED_LOGS = "rocelab.dev/replayed-logs"
"""Label of nodes whose pods run nothing: their logs are recordings from other machines, not measurements."""

CPU_THREADS = 80
MEMORY_GIB = 512
"""A DGX-1, the worker node of the DeepOps RoCE guide: two 20-core Xeons and 512 GiB."""
PODS = 110
"""kubelet's default."""


def resources(lab: Lab, node: Node) -> dict[str, str]:
    """A node's resources: its size, its GPUs, and per rail the VFs that the device plugin would find."""
    offered = {"cpu": str(CPU_THREADS), "memory": f"{MEMORY_GIB}Gi", "pods": str(PODS)}
    if node.gpus:
        offered["nvidia.com/gpu"] = str(node.gpus)
    for pf in node.pfs:
        rail = lab.rail(pf.rail)
        if lab.cluster and lab.pods_use(rail) and (devices := devices_of(lab.cluster.delivery, pf.vfs)):
            offered[rail.resource] = str(devices)
    return offered


def node_object(lab: Lab, node: Node) -> Object:
    """The Node object. It has no taints, so that pods need the same tolerations as on hardware."""
    fake = {} if lab.has_real_pods else {"annotations": {"kwok.x-k8s.io/node": "fake"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            **fake,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": node.name,
                SIMULATED: "true",
                **({} if lab.has_real_pods else {REPLAYED_LOGS: "true"}),
            },
        },
    }


def reporter(node: Object) -> str:
    """Who reports a node's status: `kubelet`, `kwok`, or no one yet (empty)."""
    version = node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")
    return "kwok" if version.startswith("kwok") else "kubelet" if version else ""


def node_status(lab: Lab, node: Node, layout: Layout, current: Object) -> Object:
    """The patch that brings a node's status to the lab file; `{}` if nothing differs.

    Resources that the lab no longer has are null, because a merge patch keeps what it does not name. A real kubelet
    reports its node's resources itself.
    """
    if lab.has_real_pods:
        return _addresses(current, str(PodNetwork(section(lab)).address(node)), node, str(node.address))
    offered = resources(lab, node)
    patch: Object = {}
    for field in ("capacity", "allocatable"):
        found = current.get(field, {})
        if found != offered:
            patch[field] = {**dict.fromkeys(found.keys() - offered.keys()), **offered}
    patch |= _addresses(current, str(node.address), node, layout.address).get("status", {})
    return {"status": patch} if patch else {}


def _addresses(current: Object, internal: str, node: Node, kubelet: str) -> Object:
    addresses = [
        {"type": "InternalIP", "address": internal},
        {"type": "Hostname", "address": node.name},
        # the API server is configured to reach kubelets at this type of address
        {"type": "ExternalIP", "address": kubelet},
    ]
    return {"status": {"addresses": addresses}} if current.get("addresses") != addresses else {}


def is_usable(node: Object) -> bool:
    """Whether a node is Ready and has no not-ready or unreachable taint. Ignores cordons."""
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node.get("status", {}).get("conditions") or [])
    taints = {taint["key"] for taint in node.get("spec", {}).get("taints") or []}
    return ready and not taints & {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}

"""The lab's machines as Kubernetes nodes. Pure."""

from simulator.plane.api import Object
from simulator.plane.kubelets import PodNetwork, section
from simulator.plane.layout import Layout
from stacks.delivery import devices_of
from stacks.lab import Lab
from stacks.nodes import Node

SIMULATED = "rocelab.dev/simulated"
"""Label of every node that the simulator made, and so may delete."""
REPLAYED_LOGS = "rocelab.dev/replayed-logs"
"""Label of nodes whose pods run nothing: a log read there is a recording of another machine, never a measurement."""

CPU_THREADS = 80
MEMORY_GIB = 512
"""A DGX-1, the worker of seed A: two 20-core Xeons and 512 GiB."""
PODS = 110
"""kubelet's default."""


def resources(lab: Lab, node: Node) -> dict[str, str]:
    """What a node offers: its size, its GPUs, and on each rail the VFs that the device plugin would find."""
    offered = {"cpu": str(CPU_THREADS), "memory": f"{MEMORY_GIB}Gi", "pods": str(PODS)}
    if node.gpus:
        offered["nvidia.com/gpu"] = str(node.gpus)
    for pf in node.pfs:
        rail = lab.rail(pf.rail)
        if lab.cluster and rail.pod and (devices := devices_of(lab.cluster.delivery, pf.vfs)):
            offered[rail.resource] = str(devices)
    return offered


def node_object(lab: Lab, node: Node) -> Object:
    """The node itself. Without taints: pods need no toleration that hardware would not ask for."""
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


def node_status(lab: Lab, node: Node, layout: Layout, current: Object) -> Object:
    """The status patch that brings a node to what the lab file says; `{}` when it is there already.

    Resources that the lab no longer has are nulls, since a merge patch keeps what it does not name. A real kubelet says
    itself what its node offers.
    """
    if lab.has_real_pods:
        return _addresses(current, str(PodNetwork(section(lab)).address(node)), node, str(node.address))
    wanted = resources(lab, node)
    patch: Object = {}
    for field in ("capacity", "allocatable"):
        found = current.get(field, {})
        if found != wanted:
            patch[field] = {**dict.fromkeys(found.keys() - wanted.keys()), **wanted}
    patch |= _addresses(current, str(node.address), node, layout.address).get("status", {})
    return {"status": patch} if patch else {}


def _addresses(current: Object, internal: str, node: Node, kubelet: str) -> Object:
    addresses = [
        {"type": "InternalIP", "address": internal},
        {"type": "Hostname", "address": node.name},
        # the API server is told to look for kubelets at this type of address
        {"type": "ExternalIP", "address": kubelet},
    ]
    return {"status": {"addresses": addresses}} if current.get("addresses") != addresses else {}


def is_usable(node: Object) -> bool:
    """Whether a node is Ready, without a taint of the time when it was not. A cordon is the owner's business."""
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node.get("status", {}).get("conditions") or [])
    taints = {taint["key"] for taint in node.get("spec", {}).get("taints") or []}
    return ready and not taints & {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}

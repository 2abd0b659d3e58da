"""Who gives a pod its address: the `ipam` part of a rail's network, by the lab's choice."""

from components.cluster.manifests import Manifest
from components.cluster.rails import pod_side
from stacks.cluster import Cluster
from stacks.delivery import SriovOperator
from stacks.ipam import Dhcp, NvIpam, Whereabouts
from stacks.rails import Rail

IPS: Manifest = {"ips": True}
"""Capability of a plugin whose pods name their addresses themselves."""


def address_source(cluster: Cluster, rail: Rail) -> Manifest:
    """The `ipam` object of the rail's CNI configuration."""
    pod = pod_side(rail)
    if isinstance(cluster.ipam, NvIpam):
        return {"type": "nv-ipam", "poolName": rail.name, "poolType": "ippool"}
    if isinstance(cluster.ipam, Whereabouts):
        return {
            "type": "whereabouts",
            "range": str(pod.subnet),
            "range_start": str(pod.first_address),
            "range_end": str(pod.last_address),
            **({"gateway": str(pod.gateway)} if pod.gateway else {}),
            # its pools are named after the range; with the name in front, equal ranges of other labs stay apart
            "network_name": rail.network_name,
        }
    if isinstance(cluster.ipam, Dhcp):
        return {"type": "dhcp"}
    return {"type": "static"}


def named_by_pods(cluster: Cluster) -> bool:
    """Whether pods name their addresses in their own annotation (`ips`)."""
    return cluster.ipam.kind == "static"


def pool_namespace(cluster: Cluster) -> str:
    """Where nv-ipam looks for pools: in its own namespace, and nowhere else."""
    if isinstance(cluster.delivery, SriovOperator):
        return cluster.delivery.namespace
    return cluster.system_namespace

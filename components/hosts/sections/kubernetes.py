"""What a node of a cluster that is made here needs of its host."""

from pydantic import JsonValue

from stacks.lab import Lab
from stacks.nodes import Node


def kubernetes_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """Version, role and the address that the kubelet tells; None: the cluster exists already, or there is none."""
    bootstrap = lab.cluster.bootstrap if lab.cluster else None
    if bootstrap is None:
        return None
    section: dict[str, JsonValue] = {
        "version": bootstrap.version,
        "role": node.role,
        "node_ip": str(node.address),
        "cri_socket": bootstrap.cri_socket,
    }
    if bootstrap.packages != "preinstalled":
        section["repository"] = {"url": bootstrap.packages.url, "key_sha256": bootstrap.packages.key_sha256}
    return section

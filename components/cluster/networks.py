"""NetworkAttachmentDefinitions: what happens to a VF when a pod asks for a rail."""

import json

from pydantic import JsonValue

from components.cluster.manifests import Manifest, metadata
from stacks.lab import Lab
from stacks.rails import Rail

API_VERSION = "k8s.cni.cncf.io/v1"
RESOURCE_ANNOTATION = "k8s.v1.cni.cncf.io/resourceName"
"""Ties a network to the resource of its VFs; without it Multus passes no device on."""


def render_network(lab: Lab, rail: Rail, namespace: str) -> Manifest:
    """The network of a rail in one namespace; pods of others name it `<namespace>/<network>`."""
    labels = metadata(rail.network_name, "rail-network", namespace)
    return {
        "apiVersion": API_VERSION,
        "kind": "NetworkAttachmentDefinition",
        "metadata": {**labels, "annotations": {RESOURCE_ANNOTATION: rail.resource}},
        "spec": {"config": json.dumps(_chain(lab, rail), indent=2) + "\n"},
    }


def _chain(lab: Lab, rail: Rail) -> Manifest:
    """The CNI plugins in the order in which they run.

    `link_state` is left out: its default is `auto`, and drivers without that switch refuse even the default.
    """
    plugins: list[JsonValue] = [
        {
            "type": "sriov",
            "vlan": rail.pod.vlan_id,
            # both belong to the VF in the pod, not to the idle one on the host
            "spoofchk": "off",
            "trust": "on",
            "ipam": {"type": "nv-ipam", "poolName": rail.name, "poolType": "ippool"},
        },
        # the SR-IOV plugin has no MTU of its own, and a VF comes with the driver's default
        {"type": "tuning", "mtu": rail.mtu_bytes},
    ]
    if len(lab.rails) > 1:
        # source-based routing: an answer leaves by the rail that the question came in by
        plugins.append({"type": "sbr"})
    if lab.hosts.rdma_namespaces == "exclusive":
        plugins.append({"type": "rdma"})
    return {"cniVersion": "1.0.0", "name": rail.network_name, "plugins": plugins}

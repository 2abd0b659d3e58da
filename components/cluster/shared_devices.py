"""The RDMA shared device plugin: counts how many pods of a node may hold a device that they all use."""

import json

from pydantic import JsonValue

from components.cluster.device_plugins import DevicePlugin, render_plugin
from components.cluster.manifests import Manifest, Program
from components.cluster.rails import interfaces, populated_rails
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma, SharedRdma
from stacks.lab import Lab
from stacks.rails import Rail

PVRDMA_VENDOR, PVRDMA_DEVICE = "15ad", "0820"
"""The paravirtual device on the PCI bus. Its netdev is another function (vmxnet3), so no interface name leads to it."""
RESCAN_S = 60
"""Unlike the SR-IOV plugin it looks again by itself: a PF that comes late is found."""


def render_shared_device_plugin(lab: Lab, cluster: Cluster, delivery: SharedRdma | Pvrdma) -> Program:
    """Offers each rail's RDMA device under the rail's resource. It ends at once on a host with exclusive namespaces."""
    plugin = DevicePlugin(
        app="rdma-shared-device-plugin",
        daemon_set="rdma-shared-dp-ds",
        container="k8s-rdma-shared-dp-ds",
        image=cluster.bill.rdma_shared_device_plugin,
        config_map="rdma-devices",
        config_folder="/k8s-rdma-shared-dev-plugin",
        folder=("devs", "/dev"),
    )
    return render_plugin(plugin, cluster.system_namespace, shared_device_config(lab, delivery))


def shared_device_config(lab: Lab, delivery: SharedRdma | Pvrdma) -> str:
    """The resources as JSON, one per rail."""
    found: list[JsonValue] = [
        {
            "resourceName": rail.resource_name,
            "resourcePrefix": rail.resource_prefix,
            "rdmaHcaMax": delivery.most_pods,
            "selectors": _selectors(lab, rail, delivery),
        }
        for rail in populated_rails(lab)
    ]
    return json.dumps({"periodicUpdateInterval": RESCAN_S, "configList": found}, indent=2) + "\n"


def _selectors(lab: Lab, rail: Rail, delivery: SharedRdma | Pvrdma) -> Manifest:
    if isinstance(delivery, Pvrdma):
        return {"vendors": [PVRDMA_VENDOR], "deviceIDs": [PVRDMA_DEVICE]}
    return {"ifNames": list(interfaces(lab, rail))}

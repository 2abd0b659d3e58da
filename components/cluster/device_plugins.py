"""Device plugins with their own configuration: SR-IOV and shared RDMA."""

import hashlib
import json

from pydantic import JsonValue

from components.cluster.manifests import Manifest, Program, render_program
from components.cluster.rails import interfaces, populated_rails, slots
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma, SharedRdma
from stacks.lab import Lab
from stacks.rails import Rail

LAYOUT_ANNOTATION = "rocelab/vf-layout"
"""Digest of all VFs of the lab. The plugin looks for VFs only when it starts, so a new layout means
a new pod."""
PVRDMA_VENDOR, PVRDMA_DEVICE = "15ad", "0820"
"""The paravirtual PCI device. Its netdev is another function (vmxnet3), so no interface name
selects it."""
RESCAN_S = 60
"""Unlike the SR-IOV plugin, it rescans by itself and finds a PF that comes late."""


def render_device_plugin(lab: Lab, cluster: Cluster) -> Program:
    """Offers each rail's VFs. The caller sets `LAYOUT_ANNOTATION` when the VFs exist."""
    config = device_plugin_config(lab, cluster)
    return _plugin("sriov_device_plugin", cluster, cluster.bill.sriov_device_plugin, config)


def render_shared_device_plugin(
    lab: Lab, cluster: Cluster, delivery: SharedRdma | Pvrdma
) -> Program:
    """Offers each rail's RDMA device."""
    config = shared_device_config(lab, delivery)
    image = cluster.bill.rdma_shared_device_plugin
    return _plugin("rdma_shared_device_plugin", cluster, image, config)


def _plugin(folder: str, cluster: Cluster, image: str, config: str) -> Program:
    """A plugin that reads its configuration when it starts: another digest means a new pod."""
    return render_program(
        f"{folder}/daemonset",
        namespace=cluster.system_namespace,
        image=image,
        config=config,
        digest=hashlib.sha256(config.encode()).hexdigest()[:16],
    )


def device_plugin_config(lab: Lab, cluster: Cluster) -> str:
    """The resources as JSON, one per rail.

    `isRdma` belongs in the selectors: at the resource, the plugin silently ignores it, and pods get
    no /dev/infiniband. The plugin would refuse the simulator's VFs, which have no RDMA device, but
    it never runs there.
    """
    resources: list[JsonValue] = []
    for rail in populated_rails(lab):
        selector: Manifest = {
            "vendors": list(cluster.rdma_vendor_ids),
            "pfNames": list(interfaces(lab, rail)),
        }
        if places := slots(lab, rail):
            selector["rootDevices"] = list(places)
        selector["isRdma"] = True
        resources.append(
            {
                "resourceName": rail.resource_name,
                "resourcePrefix": rail.resource_prefix,
                "selectors": [selector],
            }
        )
    return json.dumps({"resourceList": resources}, indent=2) + "\n"


def shared_device_config(lab: Lab, delivery: SharedRdma | Pvrdma) -> str:
    """The resources as JSON, one per rail."""
    resources: list[JsonValue] = []
    for rail in populated_rails(lab):
        resource: Manifest = {
            "resourceName": rail.resource_name,
            "resourcePrefix": rail.resource_prefix,
            "rdmaHcaMax": delivery.most_pods,
            "selectors": _selectors(lab, rail, delivery),
        }
        resources.append(resource)
    config = {"periodicUpdateInterval": RESCAN_S, "configList": resources}
    return json.dumps(config, indent=2) + "\n"


def _selectors(lab: Lab, rail: Rail, delivery: SharedRdma | Pvrdma) -> Manifest:
    if isinstance(delivery, Pvrdma):
        return {"vendors": [PVRDMA_VENDOR], "deviceIDs": [PVRDMA_DEVICE]}
    return {"ifNames": list(interfaces(lab, rail))}

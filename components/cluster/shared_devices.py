"""The RDMA shared device plugin: counts how many pods of a node may hold a device that they all use."""

import hashlib
import json

from pydantic import JsonValue

from components.cluster.manifests import (
    Manifest,
    Program,
    config_map,
    daemon_set,
    host_folder,
    mount,
    resources,
)
from components.cluster.rails import interfaces, populated_rails
from components.cluster.sriov import CONFIG_ANNOTATION
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma, SharedRdma
from stacks.lab import Lab
from stacks.rails import Rail

APP = "rdma-shared-device-plugin"
CONFIG = "rdma-devices"
PVRDMA_VENDOR, PVRDMA_DEVICE = "15ad", "0820"
"""The paravirtual device on the PCI bus. Its netdev is another function (vmxnet3), so no interface name leads to it."""
RESCAN_S = 60
"""Unlike the SR-IOV plugin it looks again by itself: a PF that comes late is found."""


def render_shared_device_plugin(lab: Lab, cluster: Cluster, delivery: SharedRdma | Pvrdma) -> Program:
    """Offers each rail's RDMA device under the rail's resource. It ends at once on a host with exclusive namespaces."""
    namespace = cluster.system_namespace
    config = shared_device_config(lab, delivery)
    digest = hashlib.sha256(config.encode()).hexdigest()[:16]
    container: Manifest = {
        "name": "k8s-rdma-shared-dp-ds",
        "image": cluster.bill.rdma_shared_device_plugin,
        "resources": resources("50m", "40Mi", "200Mi"),
        "securityContext": {"privileged": True},
        "volumeMounts": [
            mount("device-plugins", "/var/lib/kubelet/device-plugins"),
            mount("plugins-registry", "/var/lib/kubelet/plugins_registry"),
            {"name": "config", "mountPath": "/k8s-rdma-shared-dev-plugin", "readOnly": True},
            mount("devs", "/dev"),
        ],
    }
    volumes: list[JsonValue] = [
        host_folder("device-plugins", "/var/lib/kubelet/device-plugins"),
        host_folder("plugins-registry", "/var/lib/kubelet/plugins_registry"),
        {"name": "config", "configMap": {"name": CONFIG}},
        host_folder("devs", "/dev"),
    ]
    pod: Manifest = {
        "hostNetwork": True,
        # it talks to the kubelet only
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": volumes,
    }
    return Program(
        needs={"config": config_map(CONFIG, APP, namespace, {"config.json": config})},
        runs={"daemonset": daemon_set("rdma-shared-dp-ds", APP, namespace, pod, {CONFIG_ANNOTATION: digest})},
    )


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

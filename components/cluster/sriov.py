"""VFs as a countable resource, and the CNI plugins that put a VF and its RDMA device into a pod."""

import json

from pydantic import JsonValue

from components.cluster.device_plugins import DevicePlugin, render_plugin
from components.cluster.manifests import (
    CNI_BIN,
    Manifest,
    Program,
    daemon_set,
    host_folder,
    mount,
    resources,
    unprivileged,
)
from components.cluster.rails import interfaces, populated_rails, slots
from stacks.cluster import Cluster
from stacks.lab import Lab

LAYOUT_ANNOTATION = "rocelab/vf-layout"
"""Digest of all VFs of the lab. The plugin looks for VFs once, when it starts, so a new layout is a new pod."""

LOOK = """look() {
  for vf in /sys/bus/pci/devices/*/physfn; do stat -c "%n %i" "${vf%/physfn}/driver"; done 2>/dev/null
  stat -c "%n %i" /sys/class/misc/rdma_cm 2>/dev/null
}"""
"""The VFs that have a driver, and whether rdma_ucm is loaded; the inodes differ when a driver was loaded again, even
where the addresses are the same. None of it moves into a pod's namespace with the VF.

Without it nothing starts the plugin again after a reboot or a driver reload, since the lab's VFs are the same as
before; and its pods lack /dev/infiniband/rdma_cm where rdma_ucm was loaded after it, as a container keeps the /dev that
it started with.
"""


def render_device_plugin(lab: Lab, cluster: Cluster) -> Program:
    """Offers each rail's VFs as its resource. `LAYOUT_ANNOTATION` is set by whoever knows that the VFs are there."""
    plugin = DevicePlugin(
        app="sriov-device-plugin",
        daemon_set="kube-sriov-device-plugin",
        container="kube-sriovdp",
        image=cluster.bill.sriov_device_plugin,
        # without --log-dir the log goes to stderr; a file on the node would grow without end
        args=("--log-level=4",),
        config_map="sriovdp-config",
        config_folder="/etc/pcidp",
        # what a pod's VF is called; Multus reads it there
        folder=("device-info", "/var/run/k8s.cni.cncf.io/devinfo/dp"),
        makes_folder=True,
        looks_once=LOOK,
    )
    return render_plugin(plugin, cluster.system_namespace, device_plugin_config(lab, cluster))


def device_plugin_config(lab: Lab, cluster: Cluster) -> str:
    """The resources as JSON, one per rail.

    `isRdma` stands inside the selectors: the plugin ignores it at the resource, without a word, and pods then get no
    /dev/infiniband. The simulator's VFs have no RDMA device, which the plugin would refuse to offer; there it never
    runs, so the text is the same for both kinds of lab.
    """
    found: list[JsonValue] = [
        {
            "resourceName": rail.resource_name,
            "resourcePrefix": rail.resource_prefix,
            "selectors": [
                {
                    "vendors": list(cluster.rdma_vendor_ids),
                    "pfNames": list(interfaces(lab, rail)),
                    **({"rootDevices": [*places]} if (places := slots(lab, rail)) else {}),
                    "isRdma": True,
                }
            ],
        }
        for rail in populated_rails(lab)
    ]
    return json.dumps({"resourceList": found}, indent=2) + "\n"


def render_sriov_cni(cluster: Cluster) -> Program:
    """The plugin that moves a VF into the pod and gives it VLAN, trust and spoof check."""
    return _cni_installer("sriov-cni", "kube-sriov-cni-ds", "kube-sriov-cni", cluster.bill.sriov_cni, cluster)


def render_rdma_cni(cluster: Cluster) -> Program:
    """The plugin that moves the VF's RDMA device as well; it needs exclusive RDMA namespaces on the host."""
    return _cni_installer("rdma-cni", "kube-rdma-cni-ds", "kube-rdma-cni", cluster.bill.rdma_cni, cluster)


def _cni_installer(app: str, name: str, container: str, image: str, cluster: Cluster) -> Program:
    """Copies the image's plugin to the node and sleeps."""
    copier: Manifest = {
        "name": container,
        "image": image,
        "resources": resources("10m", "20Mi", "50Mi"),
        "securityContext": unprivileged(),
        "volumeMounts": [mount("cnibin", f"/host{CNI_BIN}")],
    }
    pod: Manifest = {
        "automountServiceAccountToken": False,
        # the plugin is copied before the node's network works, so the pod must not wait for one
        "hostNetwork": True,
        "containers": [copier],
        "volumes": [host_folder("cnibin", CNI_BIN)],
    }
    return Program(runs={"daemonset": daemon_set(name, app, cluster.system_namespace, pod)})

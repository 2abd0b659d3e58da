"""Device plugins with their own configuration (SR-IOV and shared RDMA), and the CNI plugins for VFs."""

import hashlib
import json
from dataclasses import dataclass

from pydantic import JsonValue

from components.cluster.manifests import (
    CNI_BIN,
    Manifest,
    Program,
    config_map,
    daemon_set,
    host_folder,
    mount,
    resources,
    runs,
    unprivileged,
)
from components.cluster.rails import interfaces, populated_rails, slots
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma, SharedRdma
from stacks.lab import Lab
from stacks.rails import Rail

CONFIG_ANNOTATION = "rocelab/config"
"""Digest of the configuration: plugins read it only when they start, so a change means a new pod."""
KUBELET_FOLDERS = {
    "device-plugins": "/var/lib/kubelet/device-plugins",
    "plugins-registry": "/var/lib/kubelet/plugins_registry",
}
"""The kubelet's folders for plugins, by volume name: plugins use one or the other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DevicePlugin:
    """The differences between device plugins."""

    app: str
    daemon_set: str
    container: str
    image: str
    args: tuple[str, ...] = ()
    config_map: str
    config_folder: str
    """Folder of its `config.json`."""
    folder: tuple[str, str]
    """Volume and path of another folder of the node that it needs, at the same path in the pod."""
    makes_folder: bool = False
    looks_once: str = ""
    """For a plugin that looks for devices only when it starts: the shell function `look`, which prints what the plugin
    depends on. When its output changes, the kubelet restarts the plugin. Empty: the plugin looks again by itself."""


SEEN = "/seen/devices"
SAME = f"""now=$(look)
[ "$now" = "$(cat {SEEN})" ] && exit
echo "$now" >{SEEN}
echo "devices came, went or were made again: the plugin looks again"
exit 1"""
"""A liveness probe that fails once per change. Its file is never newer than the plugin's own look."""


def render_plugin(plugin: DevicePlugin, namespace: str, config: str) -> Program:
    """The settings of a plugin, and its pod on each node."""
    container: Manifest = {
        "name": plugin.container,
        "image": plugin.image,
        **({"args": list(plugin.args)} if plugin.args else {}),
        "resources": resources("50m", "40Mi", "200Mi"),
        "securityContext": {"privileged": True},
        "volumeMounts": [
            *(mount(name, path) for name, path in KUBELET_FOLDERS.items()),
            {"name": "config", "mountPath": plugin.config_folder, "readOnly": True},
            mount(*plugin.folder),
            *([mount("seen", "/seen")] if plugin.looks_once else []),
        ],
        **(
            {"livenessProbe": runs(f"{plugin.looks_once}; {SAME}", period_s=30, failures=1)}
            if plugin.looks_once
            else {}
        ),
    }
    # before the plugin looks, so that no change in between goes unnoticed
    first: Manifest = {
        "name": "seen",
        "image": plugin.image,
        "command": ["sh", "-c", f"{plugin.looks_once}; look >{SEEN}"],
        "resources": resources("10m", "15Mi", "64Mi"),
        "securityContext": unprivileged(),
        "volumeMounts": [mount("seen", "/seen")],
    }
    volumes: list[JsonValue] = [
        *(host_folder(name, path) for name, path in KUBELET_FOLDERS.items()),
        host_folder(*plugin.folder, create=plugin.makes_folder),
        {"name": "config", "configMap": {"name": plugin.config_map}},
    ]
    if plugin.looks_once:
        volumes.append({"name": "seen", "emptyDir": {"medium": "Memory"}})
    pod: Manifest = {
        "hostNetwork": True,
        # it talks to the kubelet only
        "automountServiceAccountToken": False,
        **({"initContainers": [first]} if plugin.looks_once else {}),
        "containers": [container],
        "volumes": volumes,
    }
    digest = {CONFIG_ANNOTATION: hashlib.sha256(config.encode()).hexdigest()[:16]}
    return Program(
        needs={"config": config_map(plugin.config_map, plugin.app, namespace, {"config.json": config})},
        runs={"daemonset": daemon_set(plugin.daemon_set, plugin.app, namespace, pod, digest)},
    )


LAYOUT_ANNOTATION = "rocelab/vf-layout"
"""Digest of all VFs of the lab. The plugin looks for VFs only when it starts, so a new layout means a new pod."""

LOOK = """look() {
  for vf in /sys/bus/pci/devices/*/physfn; do stat -c "%n %i" "${vf%/physfn}/driver"; done 2>/dev/null
  stat -c "%n %i" /sys/class/misc/rdma_cm 2>/dev/null
}"""
"""The VFs that have a driver, and whether rdma_ucm is loaded. The inodes change when a driver is reloaded, even if the
addresses stay. None of this moves into a pod's namespace with the VF.

Without this probe nothing would restart the plugin after a reboot or a driver reload, because the lab's VFs are the
same as before. And its pods would lack /dev/infiniband/rdma_cm if rdma_ucm was loaded later, because a container keeps
the /dev that it started with.
"""


def render_device_plugin(lab: Lab, cluster: Cluster) -> Program:
    """Offers each rail's VFs as its resource. The caller sets `LAYOUT_ANNOTATION` when the VFs exist."""
    plugin = DevicePlugin(
        app="sriov-device-plugin",
        daemon_set="kube-sriov-device-plugin",
        container="kube-sriovdp",
        image=cluster.bill.sriov_device_plugin,
        # without --log-dir the log goes to stderr; a file on the node would grow forever
        args=("--log-level=4",),
        config_map="sriovdp-config",
        config_folder="/etc/pcidp",
        # the name of a pod's VF, which Multus reads here
        folder=("device-info", "/var/run/k8s.cni.cncf.io/devinfo/dp"),
        makes_folder=True,
        looks_once=LOOK,
    )
    return render_plugin(plugin, cluster.system_namespace, device_plugin_config(lab, cluster))


def device_plugin_config(lab: Lab, cluster: Cluster) -> str:
    """The resources as JSON, one per rail.

    `isRdma` belongs in the selectors: at the resource, the plugin silently ignores it, and pods get no /dev/infiniband.
    The plugin would refuse the simulator's VFs, which have no RDMA device, but it never runs there.
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
        # the pod must not wait for the node's network, which needs this plugin
        "hostNetwork": True,
        "containers": [copier],
        "volumes": [host_folder("cnibin", CNI_BIN)],
    }
    return Program(runs={"daemonset": daemon_set(name, app, cluster.system_namespace, pod)})


PVRDMA_VENDOR, PVRDMA_DEVICE = "15ad", "0820"
"""The paravirtual PCI device. Its netdev is another function (vmxnet3), so no interface name selects it."""
RESCAN_S = 60
"""Unlike the SR-IOV plugin, it rescans by itself and finds a PF that comes late."""


def render_shared_device_plugin(lab: Lab, cluster: Cluster, delivery: SharedRdma | Pvrdma) -> Program:
    """Offers each rail's RDMA device as the rail's resource. It exits at once on a host with exclusive namespaces."""
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

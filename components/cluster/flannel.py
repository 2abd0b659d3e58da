"""The pod network of a cluster that rocelab creates: flannel over the management network, never a rail."""

import json

from pydantic import JsonValue

from components.cluster.manifests import (
    CNI_BIN,
    Manifest,
    Program,
    account,
    cluster_role,
    config_map,
    daemon_set,
    env_field,
    granted,
    host_folder,
    mount,
    resources,
    rule,
    unprivileged,
)
from stacks.cluster import Cluster

APP = "flannel"
CONFIG = "kube-flannel-cfg"
CONFLIST = "10-flannel.conflist"
"""The host program removes the file when a node leaves."""


def render_flannel(cluster: Cluster) -> Program:
    """VXLAN between the nodes' own addresses, each node with its part of the pod network."""
    namespace = cluster.system_namespace
    who = account("flannel", APP, namespace)
    rights = cluster_role(
        "flannel",
        APP,
        [
            rule("", ["pods"], ["get"]),
            rule("", ["nodes"], ["get", "list", "watch"]),
            rule("", ["nodes/status"], ["patch"]),
        ],
    )
    files = {CONFLIST: _conflist(), "net-conf.json": _network(cluster)}
    return Program(
        needs={
            **granted(who, rights),
            "config": config_map(CONFIG, APP, namespace, files),
        },
        runs={"daemonset": daemon_set("kube-flannel-ds", APP, namespace, _pod(cluster))},
    )


def _conflist() -> str:
    """The chain of the runtime: flannel, which calls bridge, and port mappings."""
    delegate = {"hairpinMode": True, "isDefaultGateway": True}
    plugins = [
        {"type": "flannel", "delegate": delegate},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"name": "cbr0", "cniVersion": "0.3.1", "plugins": plugins}, indent=2) + "\n"


def _network(cluster: Cluster) -> str:
    config = {"Network": str(cluster.pod_subnet), "EnableNFTables": False, "Backend": {"Type": "vxlan"}}
    return json.dumps(config, indent=2) + "\n"


def _pod(cluster: Cluster) -> Manifest:
    bill = cluster.bill
    daemon: Manifest = {
        "name": "kube-flannel",
        "image": bill.flannel,
        "command": ["/opt/bin/flanneld"],
        # the kubelet's node address; by default flannel uses the interface of the default route
        "args": ["--ip-masq", "--kube-subnet-mgr", "--iface=$(NODE_ADDRESS)"],
        "env": [
            env_field("POD_NAME", "metadata.name"),
            env_field("POD_NAMESPACE", "metadata.namespace"),
            env_field("NODE_ADDRESS", "status.hostIP"),
        ],
        "resources": resources("100m", "50Mi", "256Mi"),
        "securityContext": {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
        "volumeMounts": [
            mount("run", "/run/flannel"),
            _config_at("/etc/kube-flannel"),
            mount("xtables-lock", "/run/xtables.lock"),
        ],
    }
    volumes: list[JsonValue] = [
        host_folder("run", "/run/flannel", create=True),
        host_folder("cnibin", CNI_BIN),
        host_folder("cni", "/etc/cni/net.d"),
        {"name": "config", "configMap": {"name": CONFIG}},
        {"name": "xtables-lock", "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"}},
    ]
    return {
        "serviceAccountName": "flannel",
        # the pod creates the network, so it cannot wait for it
        "hostNetwork": True,
        "initContainers": [
            _copy("install-cni-plugin", bill.flannel_cni_plugin, "/flannel", f"/host{CNI_BIN}", "cnibin"),
            {
                **_copy("install-cni", bill.flannel, f"/etc/kube-flannel/{CONFLIST}", "/host/etc/cni/net.d", "cni"),
                "volumeMounts": [mount("cni", "/host/etc/cni/net.d"), _config_at("/etc/kube-flannel")],
            },
        ],
        "containers": [daemon],
        "volumes": volumes,
    }


def _copy(name: str, image: str, file: str, folder: str, volume: str) -> Manifest:
    return {
        "name": name,
        "image": image,
        "command": ["cp", "-f", file, f"{folder}/"],
        "resources": resources("10m", "15Mi", "64Mi"),
        "securityContext": unprivileged(),
        "volumeMounts": [mount(volume, folder)],
    }


def _config_at(path: str) -> Manifest:
    return {"name": "config", "mountPath": path, "readOnly": True}

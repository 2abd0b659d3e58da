"""Multus: gives a pod further interfaces, as the NetworkAttachmentDefinitions that its annotation names say."""

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
    runs,
)
from stacks.cluster import Cluster

APP = "multus"
CONFIG = "multus-daemon-config"
CNI_CONFIG = "/host/etc/cni/net.d"
SOCKET_FOLDER = "/host/run/multus/"
READY = f"test -S {SOCKET_FOLDER}multus.sock && test -f {CNI_CONFIG}/00-multus.conf"
"""Whether new pods get their rails. Upstream's DaemonSet has no probe, so it counts as rolled out before the daemon has
written its configuration, and a pod of that moment silently gets the node's own network only.

The daemon listens first and writes afterwards (multus-cni v4.3.0, cmd/multus-daemon/main.go). It removes the socket's
folder when it starts, so a file of an earlier daemon proves nothing by itself.
"""


def render_multus(cluster: Cluster) -> Program:
    """The thick variant, which upstream recommends: a daemon does the work, and the runtime calls a small shim."""
    namespace = cluster.system_namespace
    who = account("multus", APP, namespace)
    rights = cluster_role(
        "multus",
        APP,
        [
            rule("k8s.cni.cncf.io", ["network-attachment-definitions"], ["get", "list", "watch"]),
            rule("", ["pods"], ["get", "list", "watch"]),
            # network-status, which says what address and RDMA device a pod got
            rule("", ["pods/status"], ["update", "patch"]),
            rule("", ["events"], ["create", "patch", "update"]),
            rule("events.k8s.io", ["events"], ["create", "patch", "update"]),
        ],
    )
    return Program(
        needs={
            **granted(who, rights),
            "config": config_map(CONFIG, APP, namespace, {"daemon-config.json": _daemon_config()}),
        },
        runs={"daemonset": daemon_set("kube-multus-ds", APP, namespace, _pod(cluster))},
    )


def _daemon_config() -> str:
    """The node's own network stays first; delegates run in the node's root, where their files are."""
    config = {
        "chrootDir": "/hostroot",
        "cniVersion": "0.3.1",
        "logLevel": "verbose",
        "logToStderr": True,
        "cniConfigDir": CNI_CONFIG,
        "multusAutoconfigDir": CNI_CONFIG,
        "multusConfigFile": "auto",
        "socketDir": SOCKET_FOLDER,
    }
    return json.dumps(config, indent=2) + "\n"


def _pod(cluster: Cluster) -> Manifest:
    inbound = "HostToContainer"
    daemon: Manifest = {
        "name": "kube-multus",
        "image": cluster.bill.multus,
        "command": ["/usr/src/multus-cni/bin/multus-daemon"],
        "env": [env_field("MULTUS_NODE_NAME", "spec.nodeName")],
        # upstream's 50Mi kills the daemon on large or slow nodes (multus-cni issues 1346, 1416)
        "resources": resources("100m", "64Mi", "512Mi"),
        "securityContext": {"privileged": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # the daemon itself waits two minutes for the node's own network and then ends
        "startupProbe": runs(READY, period_s=5, failures=60),
        "readinessProbe": runs(READY, period_s=60, failures=1),
        "volumeMounts": [
            mount("cni", CNI_CONFIG),
            # the daemon runs delegates by their path on the node, so it is the same here
            mount("cnibin", CNI_BIN),
            mount("host-run", "/host/run"),
            mount("multus-cache", "/var/lib/cni/multus"),
            mount("kubelet", "/var/lib/kubelet", inbound),
            mount("device-info", "/run/k8s.cni.cncf.io"),
            mount("netns", "/run/netns", inbound),
            {"name": "config", "mountPath": "/etc/cni/net.d/multus.d", "readOnly": True},
            mount("hostroot", "/hostroot", inbound),
            mount("multus-conf", "/etc/cni/multus/net.d"),
        ],
    }
    installer: Manifest = {
        "name": "install-multus-binary",
        "image": cluster.bill.multus,
        "command": ["/usr/src/multus-cni/bin/install_multus", "-d", f"/host{CNI_BIN}", "-t", "thick"],
        "resources": resources("10m", "15Mi", "64Mi"),
        "securityContext": {"privileged": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount("cnibin", f"/host{CNI_BIN}", "Bidirectional")],
    }
    volumes: list[JsonValue] = [
        host_folder("cni", "/etc/cni/net.d"),
        host_folder("cnibin", CNI_BIN),
        host_folder("hostroot", "/"),
        {"name": "config", "configMap": {"name": CONFIG}},
        host_folder("host-run", "/run"),
        host_folder("multus-cache", "/var/lib/cni/multus"),
        host_folder("kubelet", "/var/lib/kubelet"),
        host_folder("device-info", "/run/k8s.cni.cncf.io"),
        host_folder("netns", "/run/netns/"),
        host_folder("multus-conf", "/etc/cni/multus/net.d"),
    ]
    return {
        "serviceAccountName": "multus",
        "hostNetwork": True,
        "hostPID": True,
        "initContainers": [installer],
        "containers": [daemon],
        "volumes": volumes,
    }

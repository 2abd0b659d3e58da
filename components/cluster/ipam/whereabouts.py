"""Whereabouts: one list of a rail's addresses for the whole cluster, kept in custom resources."""

from components.cluster.ipam import AddressSource
from components.cluster.manifests import (
    CNI_BIN,
    Manifest,
    Program,
    account,
    cluster_role,
    config_map,
    daemon_set,
    deployment,
    env_field,
    granted,
    host_folder,
    mount,
    resources,
    role,
    rule,
    unprivileged,
)
from components.cluster.rails import pod_side
from stacks.cluster import Cluster
from stacks.ipam import WHEREABOUTS_SHA256
from stacks.rails import Rail

APP = "whereabouts"
RECONCILER = "whereabouts-reconciler"
CONFIG = "whereabouts-config"
GROUP = "whereabouts.cni.cncf.io"
RECONCILED_AT = "30 4 * * *"
"""Daily: frees addresses of pods that ended while their node was down."""


class WhereaboutsList(AddressSource):
    """One list for the whole cluster."""

    name = "whereabouts"

    def for_rail(self, rail: Rail) -> Manifest:
        pod = pod_side(rail)
        return {
            "type": "whereabouts",
            "range": str(pod.subnet),
            "range_start": str(pod.first_address),
            "range_end": str(pod.last_address),
            **({"gateway": str(pod.gateway)} if pod.gateway else {}),
            # pools are named after the range; the prefix keeps equal ranges of other labs apart
            "network_name": rail.network_name,
        }

    def program(self) -> Program:
        """The agent that installs the plugin and frees addresses of ended pods, and the one that looks for leaks."""
        namespace = self.cluster.system_namespace
        who = account("whereabouts", APP, namespace)
        change = ["get", "list", "watch", "create", "update", "patch", "delete"]
        rights = cluster_role(
            "whereabouts-cni",
            APP,
            [
                rule(GROUP, list(WHEREABOUTS_SHA256), change),
                rule("", ["pods", "nodes"], ["get", "list", "watch"]),
                rule("k8s.cni.cncf.io", ["network-attachment-definitions"], ["get", "list", "watch"]),
                rule("", ["events"], ["create", "patch", "update", "get"]),
                rule("events.k8s.io", ["events"], ["create", "patch", "update", "get"]),
            ],
        )
        # upstream grants every lease of the cluster; its own is beside its pools
        leads = role(
            "whereabouts-cni",
            APP,
            namespace,
            [rule("coordination.k8s.io", ["leases"], ["get", "list", "watch", "create", "update", "patch"])],
        )
        return Program(
            needs={
                **granted(who, rights, leads),
                "config": config_map(CONFIG, APP, namespace, {"cron-expression": RECONCILED_AT}),
            },
            runs={
                "daemonset": daemon_set("whereabouts", APP, namespace, _node_pod(self.cluster)),
                "reconciler-deployment": deployment(RECONCILER, RECONCILER, namespace, _reconciler_pod(self.cluster)),
            },
        )


def _node_pod(cluster: Cluster) -> Manifest:
    # the image has an installer, a token watcher and the loop, but no program that starts all three
    start = "SLEEP=false . /install-cni.sh && { /token-watcher.sh & } && exec /ip-control-loop -log-level verbose"
    container: Manifest = {
        "name": "whereabouts",
        "image": cluster.bill.whereabouts,
        "command": ["/bin/sh", "-c", start],
        "env": [
            env_field("NODENAME", "spec.nodeName"),
            env_field("WHEREABOUTS_NAMESPACE", "metadata.namespace"),
        ],
        "resources": resources("50m", "64Mi", "300Mi"),
        "securityContext": {"privileged": True},
        "volumeMounts": [
            mount("cnibin", f"/host{CNI_BIN}"),
            mount("cniconf", "/host/etc/cni/net.d"),
        ],
    }
    return {
        "serviceAccountName": "whereabouts",
        "hostNetwork": True,
        "containers": [container],
        "volumes": [host_folder("cnibin", CNI_BIN), host_folder("cniconf", "/etc/cni/net.d")],
    }


def _reconciler_pod(cluster: Cluster) -> Manifest:
    container: Manifest = {
        "name": "reconciler",
        "image": cluster.bill.whereabouts,
        "command": ["/ip-reconciler", "-log-level", "verbose"],
        "env": [env_field("WHEREABOUTS_NAMESPACE", "metadata.namespace")],
        "resources": resources("10m", "32Mi", "200Mi"),
        "securityContext": unprivileged(),
        "volumeMounts": [{"name": "config", "mountPath": "/cron-schedule", "readOnly": True}],
    }
    schedule: Manifest = {"name": CONFIG, "items": [{"key": "cron-expression", "path": "config"}]}
    return {
        "serviceAccountName": "whereabouts",
        "containers": [container],
        "volumes": [{"name": "config", "configMap": schedule}],
    }

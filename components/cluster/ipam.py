"""nv-ipam: each node gets a block of a rail's pool from the controller and hands its addresses out by itself."""

from pydantic import JsonValue

from components.cluster.addresses import pool_namespace
from components.cluster.manifests import (
    CNI_BIN,
    Manifest,
    Program,
    account,
    binding,
    cluster_role,
    daemon_set,
    deployment,
    env_field,
    host_folder,
    metadata,
    mount,
    ready_when,
    resources,
    role,
    rule,
    unprivileged,
)
from components.cluster.rails import nodes_on, pod_side
from stacks.cluster import Cluster
from stacks.lab import Lab
from stacks.rails import Rail

APP = "nv-ipam"
GROUP = "nv-ipam.nvidia.com"
API_VERSION = f"{GROUP}/v1alpha1"
POOLS = ["ippools", "cidrpools"]
"""The programs watch both kinds and end when one is not defined, though only the first is used here."""
CONTROLLER = "nv-ipam-controller"
NODE = "nv-ipam-node"
STATE = "/var/lib/cni/nv-ipam"
PROBES_PORT = 8081


def render_pool(lab: Lab, cluster: Cluster, rail: Rail) -> Manifest:
    """The pool of a rail: whole blocks only, and for the rail's own nodes only.

    Blocks are counted from the start of the subnet, not of the pool, so all that is no whole block inside the pool is
    excluded: a node with half a block would leave pods without an address.
    """
    pod = pod_side(rail)
    hosts: list[JsonValue] = [node.name for node in nodes_on(lab, rail)]
    on_rail: Manifest = {"key": "kubernetes.io/hostname", "operator": "In", "values": hosts}
    excluded: list[JsonValue] = [{"startIP": str(first), "endIP": str(last)} for first, last in pod.outside_blocks()]
    return {
        "apiVersion": API_VERSION,
        "kind": "IPPool",
        "metadata": metadata(rail.name, APP, pool_namespace(cluster)),
        "spec": {
            "subnet": str(pod.subnet),
            "perNodeBlockSize": pod.addresses_per_node,
            **({"gateway": str(pod.gateway)} if pod.gateway else {}),
            **({"exclusions": excluded} if excluded else {}),
            "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [on_rail]}]},
        },
    }


def render_ipam(cluster: Cluster) -> Program:
    """The controller, which gives blocks to nodes, and the agent, which gives addresses to pods."""
    namespace = cluster.system_namespace
    controller, agent = account(CONTROLLER, APP, namespace), account(NODE, APP, namespace)
    reads_pools = rule(GROUP, POOLS, ["get", "list", "watch"])
    controls = cluster_role(
        CONTROLLER,
        APP,
        [
            rule("", ["nodes"], ["get", "list", "watch"]),
            reads_pools,
            rule(GROUP, [f"{pool}/status" for pool in POOLS], ["get", "update", "patch"]),
            rule("", ["events"], ["create", "patch"]),
        ],
    )
    leads = role(
        CONTROLLER,
        APP,
        namespace,
        [rule("coordination.k8s.io", ["leases"], ["get", "create", "update"])],
    )
    # addresses of pods that are gone are freed, so the agent looks for them in every namespace
    serves = cluster_role(NODE, APP, [rule("", ["pods"], ["get", "list", "watch"]), reads_pools])
    return Program(
        needs={
            "controller-account": controller,
            "controller-role": controls,
            "controller-binding": binding(controls, controller),
            "controller-lease-role": leads,
            "controller-lease-binding": binding(leads, controller),
            "node-account": agent,
            "node-role": serves,
            "node-binding": binding(serves, agent),
        },
        runs={
            "controller-deployment": deployment(CONTROLLER, CONTROLLER, namespace, _controller_pod(cluster)),
            "node-daemonset": daemon_set("nv-ipam-node-ds", NODE, namespace, _node_pod(cluster)),
        },
    )


def _controller_pod(cluster: Cluster) -> Manifest:
    container: Manifest = {
        "name": "controller",
        "image": cluster.bill.nv_ipam,
        "command": ["/ipam-controller"],
        "args": [
            "--leader-elect=true",
            "--leader-elect-namespace=$(POD_NAMESPACE)",
            # pools in another namespace are never seen
            "--ippools-namespace=$(POD_NAMESPACE)",
        ],
        "env": [env_field("POD_NAMESPACE", "metadata.namespace")],
        "readinessProbe": ready_when("/readyz", PROBES_PORT),
        "resources": resources("50m", "64Mi", "512Mi"),
        "securityContext": unprivileged(),
    }
    return {
        "serviceAccountName": CONTROLLER,
        "priorityClassName": "system-cluster-critical",
        "containers": [container],
    }


def _node_pod(cluster: Cluster) -> Manifest:
    socket = f"unix://{STATE}/daemon.sock"
    container: Manifest = {
        "name": "node",
        "image": cluster.bill.nv_ipam,
        "command": ["/ipam-node"],
        "args": [
            "--node-name=$(NODE_NAME)",
            f"--bind-address={socket}",
            f"--store-file={STATE}/store",
            f"--cni-daemon-socket={socket}",
            "--cni-daemon-call-timeout=5",
            f"--cni-bin-dir={CNI_BIN}",
            "--cni-conf-dir=/etc/cni/net.d/nv-ipam.d",
            "--cni-log-file=/var/log/nv-ipam-cni.log",
            "--cni-log-level=info",
            "--ippools-namespace=$(POD_NAMESPACE)",
        ],
        "env": [env_field("POD_NAMESPACE", "metadata.namespace"), env_field("NODE_NAME", "spec.nodeName")],
        "readinessProbe": ready_when("/readyz", PROBES_PORT),
        "resources": resources("50m", "50Mi", "300Mi"),
        # the image has a user of its own, who may write neither the plugin nor the socket
        "securityContext": {"privileged": True, "runAsUser": 0},
        "volumeMounts": [
            mount("cnibin", CNI_BIN),
            mount("cniconf", "/etc/cni/net.d/nv-ipam.d"),
            mount("state", STATE),
        ],
    }
    return {
        "serviceAccountName": NODE,
        "containers": [container],
        "volumes": [
            host_folder("cnibin", CNI_BIN, create=True),
            host_folder("cniconf", "/etc/cni/net.d/nv-ipam.d", create=True),
            host_folder("state", STATE, create=True),
        ],
    }

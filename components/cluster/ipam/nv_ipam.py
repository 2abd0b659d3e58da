"""nv-ipam: the controller gives each node a block of a rail's pool, and the node assigns its addresses."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import JsonValue

from components.cluster.ipam import AddressSource
from components.cluster.manifests import (
    CNI_BIN,
    PART_OF,
    Manifest,
    Program,
    account,
    binding,
    cluster_role,
    daemon_set,
    deployment,
    env_field,
    host_folder,
    in_parts,
    metadata,
    mount,
    ready_when,
    resources,
    role,
    rule,
    unprivileged,
)
from components.cluster.rails import nodes_on, pod_side, populated_rails
from stacks.cluster import Cluster
from stacks.delivery import SriovOperator
from stacks.lab import Lab
from stacks.rails import Rail

APP = "nv-ipam"
GROUP = "nv-ipam.nvidia.com"
API_VERSION = f"{GROUP}/v1alpha1"
POOLS = ["ippools", "cidrpools"]
"""The programs watch both kinds and exit if one is not defined, although rocelab uses only the first."""
CONTROLLER = "nv-ipam-controller"
NODE = "nv-ipam-node"
STATE = "/var/lib/cni/nv-ipam"
PROBES_PORT = 8081
TEXT: Manifest = {"type": "string"}
WHOLE: Manifest = {"type": "integer"}
INDEX: Manifest = {"type": "integer", "format": "int32", "minimum": 0}


def render_pool_definitions() -> dict[str, Manifest]:
    """IPPool (blocks of one subnet) and CIDRPool (a subnet per node), written from the fields of nv-ipam 0.4's API.

    Its release has no Go module that every lab can reach, and the kinds are small. rocelab creates no CIDRPool, but the
    programs watch the kind.
    """
    ip_pool = _object(
        {"subnet": TEXT, "perNodeBlockSize": WHOLE, "gateway": TEXT, **_common()}, ["subnet", "perNodeBlockSize"]
    )
    ip_allocation = _object({"nodeName": TEXT, "startIP": TEXT, "endIP": TEXT}, ["nodeName", "startIP", "endIP"])
    cidr_pool = _object(
        {
            "cidr": TEXT,
            "perNodeNetworkPrefix": {"type": "integer", "format": "int32"},
            "gatewayIndex": {"type": "integer", "format": "int32"},
            "staticAllocations": _list(_object({"nodeName": TEXT, "gateway": TEXT, "prefix": TEXT}, ["prefix"])),
            **_common(),
        },
        ["cidr", "perNodeNetworkPrefix"],
    )
    cidr_allocation = _object({"nodeName": TEXT, "gateway": TEXT, "prefix": TEXT}, ["nodeName", "prefix"])
    return {
        "ippools": _definition("IPPool", "ippools", ip_pool, ip_allocation),
        "cidrpools": _definition("CIDRPool", "cidrpools", cidr_pool, cidr_allocation),
    }


def _definition(kind: str, plural: str, spec: Manifest, allocation: Manifest) -> Manifest:
    status = _object({"allocations": _list(allocation)}, ["allocations"])
    top: Manifest = {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": {"type": "object"},
        "spec": spec,
        "status": status,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": PART_OF},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    # the controller writes allocations, which setting the spec cannot change
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": _object(top, ["spec"])},
                }
            ],
        },
    }


def _common() -> Manifest:
    """Fields that both kinds of pool have."""
    requirement = _object({"key": TEXT, "operator": TEXT, "values": _list(TEXT)}, ["key", "operator"])
    term = _object({"matchExpressions": _list(requirement), "matchFields": _list(requirement)})
    in_order: JsonValue = [
        {"rule": "self.endIndex >= self.startIndex", "message": "endIndex must not lie before startIndex"}
    ]
    return {
        "exclusions": _list(_object({"startIP": TEXT, "endIP": TEXT}, ["startIP", "endIP"])),
        "perNodeExclusions": _list(
            {
                **_object({"startIndex": INDEX, "endIndex": INDEX}, ["startIndex", "endIndex"]),
                "x-kubernetes-validations": in_order,
            }
        ),
        "nodeSelector": _object({"nodeSelectorTerms": _list(term)}, ["nodeSelectorTerms"]),
        "defaultGateway": {"type": "boolean"},
        "routes": _list(_object({"dst": TEXT}, ["dst"])),
    }


def _object(properties: Mapping[str, JsonValue], required: Sequence[str] = ()) -> Manifest:
    return {
        "type": "object",
        "properties": dict(properties),
        **({"required": list(required)} if required else {}),
    }


def _list(item: Manifest) -> Manifest:
    return {"type": "array", "items": item}


class NvIpamPools(AddressSource):
    """A pool per rail. The network operator brings program and definitions where it runs."""

    name = "nv-ipam"
    kinds: ClassVar[Mapping[str, Manifest]] = render_pool_definitions()

    def for_rail(self, rail: Rail) -> Manifest:
        return {"type": "nv-ipam", "poolName": rail.name, "poolType": "ippool"}

    def pools(self, lab: Lab) -> dict[str, Manifest]:
        return {f"{rail.name}-pool": self.pool(lab, rail) for rail in populated_rails(lab)}

    def blocks(self, lab: Lab) -> dict[str, list[str]]:
        path = f"/apis/{API_VERSION}/namespaces/{self._namespace()}/ippools"
        active = {node.name for node in lab.active_nodes}
        return {
            f"{path}/{rail.name}": [node.name for node in nodes_on(lab, rail) if node.name in active]
            for rail in populated_rails(lab)
        }

    def in_nic_policy(self) -> Manifest:
        # its webhook needs certificates, and the lab file refuses the same
        image = in_parts(self.cluster.bill.operator_nv_ipam, self.cluster.registry)
        return {"nvIpam": {**image, "enableWebhook": False}}

    def pool(self, lab: Lab, rail: Rail) -> Manifest:
        """The pool of a rail: whole blocks, for the nodes of the rail.

        Blocks are counted from the start of the subnet, not of the pool. Addresses outside whole blocks are excluded:
        with half a block, a node would leave pods without an address.
        """
        pod = pod_side(rail)
        hosts: list[JsonValue] = [node.name for node in nodes_on(lab, rail)]
        on_rail: Manifest = {"key": "kubernetes.io/hostname", "operator": "In", "values": hosts}
        outside = pod.outside_blocks()
        excluded: list[JsonValue] = [{"startIP": str(first), "endIP": str(last)} for first, last in outside]
        return {
            "apiVersion": API_VERSION,
            "kind": "IPPool",
            "metadata": metadata(rail.name, APP, self._namespace()),
            "spec": {
                "subnet": str(pod.subnet),
                "perNodeBlockSize": pod.addresses_per_node,
                **({"gateway": str(pod.gateway)} if pod.gateway else {}),
                **({"exclusions": excluded} if excluded else {}),
                "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [on_rail]}]},
            },
        }

    def program(self) -> Program:
        """The controller, which gives blocks to nodes, and the agent, which gives addresses to pods."""
        namespace = self.cluster.system_namespace
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
        # the agent frees addresses of deleted pods, so it watches pods in every namespace
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
                "controller-deployment": deployment(CONTROLLER, CONTROLLER, namespace, _controller_pod(self.cluster)),
                "node-daemonset": daemon_set("nv-ipam-node-ds", NODE, namespace, _node_pod(self.cluster)),
            },
        )

    def _namespace(self) -> str:
        """The namespace of nv-ipam, which looks for pools only there."""
        delivery = self.cluster.delivery
        return delivery.namespace if isinstance(delivery, SriovOperator) else self.cluster.system_namespace


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
        # the image's own user may write neither the plugin nor the socket
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

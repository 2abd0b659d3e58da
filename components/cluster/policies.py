"""Custom resources for NVIDIA's network operator (26.4) and its SR-IOV operator, in the order of their placing.

The operators own what follows: Multus, CNI plugins, nv-ipam, VFs, the device plugin, and on request the driver.
rocelab places none of these.
"""

import json

from pydantic import JsonValue

from components.cluster.ipam import IPS, address_source
from components.cluster.manifests import Manifest, in_parts, metadata
from components.cluster.networks import meta_plugins
from components.cluster.rails import interfaces, pod_side, populated_rails, slots
from stacks.cluster import Cluster
from stacks.delivery import SriovOperator
from stacks.lab import Lab
from stacks.rails import Rail

APP = "rail-policy"
NIC_API = "mellanox.com/v1alpha1"
SRIOV_API = "sriovnetwork.openshift.io/v1"
NIC_POLICY = "nic-cluster-policy"
"""The only name that the operator accepts; it ignores others."""
DRIVER_READY = "network.nvidia.com/operator.mofed.wait"
"""Label that the operator sets on a node: false once it waits for no driver container there."""
UPGRADE_S = 300
WAIT_FOR, WAIT_S = "pulumi.com/waitFor", "pulumi.com/timeoutSeconds"
READY = "jsonpath={.status.state}=ready"
NIC_POLICY_S = 3600
"""Each node builds a driver container for its kernel before the policy is ready."""


def render_nic_policy(lab: Lab, cluster: Cluster) -> Manifest:
    """What the network operator runs on nodes with NVIDIA NICs."""
    bill, registry = cluster.bill, cluster.registry
    spec: Manifest = {
        "secondaryNetwork": {
            "multus": in_parts(bill.operator_multus, registry),
            "cniPlugins": in_parts(bill.cni_plugins, registry),
        },
        **address_source(cluster).in_nic_policy(),
    }
    if driver_by_operator(lab):
        environment: list[JsonValue] = [
            {"name": name, "value": lab.driver.container_env[name]} for name in sorted(lab.driver.container_env)
        ]
        spec["ofedDriver"] = {
            **in_parts(bill.doca_driver, registry),
            **({"env": environment} if environment else {}),
            "upgradePolicy": _upgrade(),
        }
    # nv-ipam brings the definition of pools, so everything after this waits; no operator runs in the simulator
    waited: Manifest = {} if lab.simulated else {"annotations": {WAIT_FOR: READY, WAIT_S: str(NIC_POLICY_S)}}
    return {
        "apiVersion": NIC_API,
        "kind": "NicClusterPolicy",
        "metadata": {**metadata(NIC_POLICY, APP), **waited},
        "spec": spec,
    }


def driver_by_operator(lab: Lab) -> bool:
    """Whether the operator runs the NICs' driver as a container (`driver.source: operator`)."""
    return lab.driver.source == "operator"


def render_sriov_policies(lab: Lab, cluster: Cluster, operator: SriovOperator) -> dict[str, Manifest]:
    """By key: the SR-IOV operator's settings, the nodes' RDMA mode, and the VFs of each rail."""
    selector: Manifest = dict(operator.node_selector.items())
    where = {"namespace": operator.namespace, "app": APP}
    config: Manifest = {
        "apiVersion": SRIOV_API,
        "kind": "SriovOperatorConfig",
        # the operator reads this name only
        "metadata": metadata("default", **where),
        "spec": {
            "configDaemonNodeSelector": {**selector, **({DRIVER_READY: "false"} if driver_by_operator(lab) else {})},
            "disableDrain": not operator.drain,
            # both need certificates; rocelab's jobs set annotation and limits together anyway
            "enableInjector": False,
            "enableOperatorWebhook": False,
            "logLevel": 2,
        },
    }
    pool: Manifest = {
        "apiVersion": SRIOV_API,
        "kind": "SriovNetworkPoolConfig",
        "metadata": metadata(lab.name, **where),
        "spec": {
            "nodeSelector": {"matchLabels": selector},
            "maxUnavailable": operator.max_unavailable,
            # a change of the mode reboots each node, one after the other
            "rdmaMode": lab.hosts.rdma_namespaces,
        },
    }
    rails = {f"vfs-{rail.name}": _policy(lab, cluster, rail, operator) for rail in populated_rails(lab)}
    return {"operator-config": config, "node-pool": pool, **rails}


def render_sriov_network(lab: Lab, cluster: Cluster, rail: Rail, namespace: str) -> Manifest:
    """The rail in one namespace, where the operator creates the NetworkAttachmentDefinition of this name.

    It is in the users' namespace, because the operator's cannot hold two networks of one name.
    """
    chain = meta_plugins(lab, cluster, rail)
    return {
        "apiVersion": SRIOV_API,
        "kind": "SriovNetwork",
        "metadata": metadata(rail.network_name, "rail-network", namespace),
        "spec": {
            "resourceName": rail.resource_name,
            "vlan": pod_side(rail).vlan_id or 0,
            "spoofChk": "off",
            "trust": "on",
            **({"capabilities": json.dumps(IPS)} if cluster.ipam.NAMED_BY_PODS else {}),
            "ipam": json.dumps(address_source(cluster).for_rail(rail)),
            # a fragment of the chain without brackets, which the operator appends to its own plugin
            "metaPlugins": ", ".join(json.dumps(plugin) for plugin in chain),
        },
    }


def _policy(lab: Lab, cluster: Cluster, rail: Rail, operator: SriovOperator) -> Manifest:
    names: list[JsonValue] = [*interfaces(lab, rail)]
    places: list[JsonValue] = [*slots(lab, rail)]
    return {
        "apiVersion": SRIOV_API,
        "kind": "SriovNetworkNodePolicy",
        "metadata": metadata(rail.name, APP, operator.namespace),
        "spec": {
            "resourceName": rail.resource_name,
            "nodeSelector": {**operator.node_selector},
            "nicSelector": {
                "vendor": cluster.rdma_vendor_ids[0],
                "pfNames": names,
                **({"rootDevices": places} if places else {}),
            },
            "numVfs": operator.vfs,
            "mtu": rail.mtu_bytes,
            "deviceType": "netdevice",
            "isRdma": True,
            "linkType": "eth",
            # 0 is the highest; policies of one lab never select the same PF
            "priority": 50,
        },
    }


def _upgrade() -> Manifest:
    """Updates the driver node by node, and evicts only pods that use it."""
    return {
        "autoUpgrade": True,
        "maxParallelUpgrades": 1,
        "drain": {"enable": True, "force": False, "timeoutSeconds": UPGRADE_S, "deleteEmptyDir": True},
    }

"""Custom resources for NVIDIA's network operator (26.4) and its SR-IOV operator.

The operators own what follows: Multus, CNI plugins, nv-ipam, VFs, the device plugin, and on request
the driver. rocelab places none of these.
"""

import json

from components.cluster.ipam import IPS, address_source
from components.cluster.manifests import Manifest, in_parts, render
from components.cluster.networks import meta_plugins
from components.cluster.rails import interfaces, pod_side, populated_rails, slots
from stacks.cluster import Cluster
from stacks.delivery import SriovOperator
from stacks.lab import Lab
from stacks.rails import Rail

FOLDER = "cluster/manifests/network_operator"
DRIVER_READY = "network.nvidia.com/operator.mofed.wait"
"""Label that the operator sets on a node: false once it waits for no driver container there."""
UPGRADE_S = 300
NIC_POLICY_S = 3600
"""Each node builds a driver container for its kernel before the policy is ready."""


def render_nic_policy(lab: Lab, cluster: Cluster) -> Manifest:
    """What the network operator runs on nodes with NVIDIA NICs."""
    bill, registry = cluster.bill, cluster.registry
    driver: Manifest = {}
    if driver_by_operator(lab):
        driver = in_parts(bill.doca_driver, registry)
        if lab.driver.container_env:
            variables = sorted(lab.driver.container_env.items())
            driver["env"] = [{"name": name, "value": value} for name, value in variables]
        # node by node, and only pods that use the driver are evicted
        driver["upgradePolicy"] = {
            "autoUpgrade": True,
            "maxParallelUpgrades": 1,
            "drain": {
                "enable": True,
                "force": False,
                "timeoutSeconds": UPGRADE_S,
                "deleteEmptyDir": True,
            },
        }
    wait_s = "" if lab.simulated else str(NIC_POLICY_S)  # no operator runs in the simulator
    return render(
        f"{FOLDER}/nic_cluster_policy",
        wait_s=wait_s,
        multus=in_parts(bill.operator_multus, registry),
        cni_plugins=in_parts(bill.cni_plugins, registry),
        ipam=list(address_source(cluster).in_nic_policy().items()),
        driver=driver,
    )


def driver_by_operator(lab: Lab) -> bool:
    """Whether the operator runs the NICs' driver as a container (`driver.source: operator`)."""
    return lab.driver.source == "operator"


def render_sriov_policies(
    lab: Lab, cluster: Cluster, operator: SriovOperator
) -> dict[str, Manifest]:
    """By key: the SR-IOV operator's settings, the nodes' RDMA mode, and the VFs of each rail."""
    daemon_selector = dict(operator.node_selector)
    if driver_by_operator(lab):
        daemon_selector[DRIVER_READY] = "false"
    policies = {
        "operator-config": render(
            f"{FOLDER}/operator_config",
            namespace=operator.namespace,
            node_selector=daemon_selector,
            disable_drain=not operator.drain,
        ),
        "node-pool": render(
            f"{FOLDER}/node_pool",
            lab=lab.name,
            namespace=operator.namespace,
            node_selector=operator.node_selector,
            max_unavailable=operator.max_unavailable,
            rdma_mode=lab.hosts.rdma_namespaces,
        ),
    }
    for rail in populated_rails(lab):
        policies[f"vfs-{rail.name}"] = render(
            f"{FOLDER}/node_policy",
            rail=rail.name,
            namespace=operator.namespace,
            resource_name=rail.resource_name,
            node_selector=operator.node_selector,
            vendor=cluster.rdma_vendor_ids[0],
            interfaces=interfaces(lab, rail),
            slots=slots(lab, rail),
            vfs=operator.vfs,
            mtu_bytes=rail.mtu_bytes,
        )
    return policies


def render_sriov_network(lab: Lab, cluster: Cluster, rail: Rail, namespace: str) -> Manifest:
    """The rail in one namespace; the operator creates its NetworkAttachmentDefinition."""
    chain = meta_plugins(lab, cluster, rail)
    capabilities = json.dumps(IPS) if cluster.ipam.NAMED_BY_PODS else ""
    return render(
        f"{FOLDER}/network",
        network=rail.network_name,
        namespace=namespace,
        resource_name=rail.resource_name,
        vlan_id=pod_side(rail).vlan_id or 0,
        capabilities=capabilities,
        ipam=json.dumps(address_source(cluster).for_rail(rail)),
        meta_plugins=", ".join(json.dumps(plugin) for plugin in chain),
    )

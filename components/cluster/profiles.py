"""What a lab's cluster consists of, by its profile: programs, custom resources, networks, and the kinds they need."""

from collections.abc import Iterator

from components.cluster.addresses import AddressSource
from components.cluster.bootstrap.flannel import render_flannel
from components.cluster.gpus import render_gpu_device_plugin, render_gpu_policy
from components.cluster.ipam import address_source
from components.cluster.manifests import Manifest, Program
from components.cluster.mpi import render_mpi_operator
from components.cluster.multus import render_multus
from components.cluster.networks import render_network
from components.cluster.policies import render_nic_policy, render_sriov_network, render_sriov_policies
from components.cluster.rails import populated_rails, present_nodes
from components.cluster.registry import through_registry
from components.cluster.shared_devices import render_shared_device_plugin
from components.cluster.sriov import render_device_plugin, render_rdma_cni, render_sriov_cni
from stacks.bill import MPIJOBS_DEFINITION, NETWORKS_DEFINITION, Upstream
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma, SharedRdma, SriovOperator, SriovPlain
from stacks.lab import Lab

DEVICE_PLUGIN = "device-plugin"
"""Key of the program that looks for VFs once, when it starts."""


def programs(lab: Lab, cluster: Cluster) -> dict[str, Program]:
    """What runs in the lab's cluster, by the key that its resources are named with."""
    return {
        key: Program(
            needs=program.needs,
            runs={name: through_registry(manifest, cluster.registry) for name, manifest in program.runs.items()},
        )
        for key, program in _programs(lab, cluster)
    }


def policies(lab: Lab, cluster: Cluster) -> dict[str, Manifest]:
    """Custom resources for operators that are installed already, in the order of placing."""
    found: dict[str, Manifest] = {}
    if isinstance(cluster.delivery, SriovOperator):
        found["nic-policy"] = render_nic_policy(lab, cluster)
        found.update(render_sriov_policies(lab, cluster, cluster.delivery))
    if cluster.gpus == "operator":
        found["gpu-policy"] = render_gpu_policy(lab, cluster)
    return found


def networks(lab: Lab, cluster: Cluster) -> dict[str, Manifest]:
    """The rails in each namespace of the users, by `<rail>-network-<namespace>`; none where pods use the machine's."""
    if isinstance(cluster.delivery, Pvrdma):
        return {}
    return {
        f"{rail.name}-network-{namespace}": (
            render_sriov_network(lab, cluster, rail, namespace)
            if isinstance(cluster.delivery, SriovOperator)
            else render_network(lab, cluster, rail, namespace)
        )
        for rail in populated_rails(lab)
        for namespace in cluster.namespaces
    }


def pools(lab: Lab, cluster: Cluster) -> dict[str, Manifest]:
    """Address pools by `<rail>-pool`."""
    return {} if isinstance(cluster.delivery, Pvrdma) else address_source(cluster).pools(lab)


def kinds(cluster: Cluster) -> dict[str, Upstream | Manifest]:
    """Definitions that are placed here, by short key. What an operator brings with it stays the operator's."""
    source = placed_source(cluster)
    return {
        **({} if isinstance(cluster.delivery, SriovOperator | Pvrdma) else {"networks": NETWORKS_DEFINITION}),
        "mpijobs": MPIJOBS_DEFINITION,
        **(source.definitions if source else {}),
    }


def placed_source(cluster: Cluster) -> AddressSource | None:
    """The IPAM, where this lab places it. None: pods use the machine's network, or an operator brings it."""
    source = address_source(cluster)
    operated = isinstance(cluster.delivery, SriovOperator) and source.in_nic_policy()
    return None if operated or isinstance(cluster.delivery, Pvrdma) else source


def _programs(lab: Lab, cluster: Cluster) -> Iterator[tuple[str, Program]]:
    delivery = cluster.delivery
    if cluster.bootstrap is not None and cluster.bootstrap.cni == "flannel":
        yield "flannel", render_flannel(cluster)
    if isinstance(delivery, SriovPlain | SharedRdma):
        yield "multus", render_multus(cluster)
    if isinstance(delivery, SriovPlain):
        yield "sriov-cni", render_sriov_cni(cluster)
    source = placed_source(cluster)
    if source and (addresses := source.program()):
        yield source.name, addresses
    yield "mpi-operator", render_mpi_operator(cluster)
    # without a resource to offer, a plugin ends at once, again and again
    if populated_rails(lab):
        if isinstance(delivery, SriovPlain):
            yield DEVICE_PLUGIN, render_device_plugin(lab, cluster)
        elif isinstance(delivery, SharedRdma | Pvrdma):
            yield "shared-device-plugin", render_shared_device_plugin(lab, cluster, delivery)
    if lab.hosts.rdma_namespaces == "exclusive" and isinstance(delivery, SriovPlain):
        yield "rdma-cni", render_rdma_cni(cluster)
    if cluster.gpus == "device_plugin" and any(node.gpus for node in present_nodes(lab)):
        yield "gpu-device-plugin", render_gpu_device_plugin(lab, cluster)

"""The parts of a lab's cluster, by its profile: programs, custom resources, networks, namespaces and images."""

from collections.abc import Iterator

from pydantic import JsonValue

from components.cluster.device_plugins import (
    render_device_plugin,
    render_rdma_cni,
    render_shared_device_plugin,
    render_sriov_cni,
)
from components.cluster.flannel import render_flannel
from components.cluster.gpus import render_gpu_device_plugin, render_gpu_policy
from components.cluster.ipam import AddressSource, address_source
from components.cluster.manifests import PART_OF, Manifest, Program, through_registry
from components.cluster.mpi import NAMESPACE as MPI_NAMESPACE
from components.cluster.mpi import render_mpi_operator
from components.cluster.multus import render_multus
from components.cluster.networks import render_network
from components.cluster.policies import render_nic_policy, render_sriov_network, render_sriov_policies
from components.cluster.rails import populated_rails, present_nodes
from stacks.bill import MPIJOBS_DEFINITION, NETWORKS_DEFINITION, Registry, Upstream
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma, SharedRdma, SriovOperator, SriovPlain
from stacks.lab import Lab

DEVICE_PLUGIN = "device-plugin"
"""Key of the program that looks for VFs only when it starts."""


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
    """The rails in each user namespace, by `<rail>-network-<namespace>`; none if pods use the host's network."""
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
    """Definitions that rocelab places, by short key, without those that an operator brings."""
    source = placed_source(cluster)
    return {
        **({} if isinstance(cluster.delivery, SriovOperator | Pvrdma) else {"networks": NETWORKS_DEFINITION}),
        "mpijobs": MPIJOBS_DEFINITION,
        **(source.definitions if source else {}),
    }


def placed_source(cluster: Cluster) -> AddressSource | None:
    """The IPAM that rocelab places. None: pods use the host's network, or an operator brings it."""
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
    # without a resource to offer, a plugin would exit again and again
    if populated_rails(lab):
        if isinstance(delivery, SriovPlain):
            yield DEVICE_PLUGIN, render_device_plugin(lab, cluster)
        elif isinstance(delivery, SharedRdma | Pvrdma):
            yield "shared-device-plugin", render_shared_device_plugin(lab, cluster, delivery)
    if lab.hosts.rdma_namespaces == "exclusive" and isinstance(delivery, SriovPlain):
        yield "rdma-cni", render_rdma_cni(cluster)
    if cluster.gpus == "device_plugin" and any(node.gpus for node in present_nodes(lab)):
        yield "gpu-device-plugin", render_gpu_device_plugin(lab, cluster)


def render_namespaces(lab: Lab, cluster: Cluster) -> dict[str, Manifest]:
    """Namespaces that rocelab creates, by name. Those of `cluster.namespaces` exist already and outlive the lab."""
    made: dict[str, Manifest] = {MPI_NAMESPACE: _namespace(MPI_NAMESPACE)}
    if lab.benchmarks is not None and lab.benchmarks.namespace not in cluster.namespaces:
        # RDMA needs IPC_LOCK, which the baseline and restricted levels of pod security refuse
        bench = _namespace(lab.benchmarks.namespace, {"pod-security.kubernetes.io/enforce": "privileged"})
        made[lab.benchmarks.namespace] = bench
    return made


def _namespace(name: str, labels: Manifest | None = None) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**PART_OF, **(labels or {})}},
    }


def images_of(lab: Lab) -> tuple[str, ...]:
    """Every image that a lab pulls, by its publisher's name, sorted.

    It reads the rendered objects, not the bill, so it lists nothing that no node would pull. Operators that are
    installed already, and drivers whose names they build, need more images: their releases list them.
    """
    if lab.cluster is None:
        return ()
    # without mirrors: these names are what has to be copied
    cluster = lab.cluster.model_copy(update={"registry": Registry()})
    rendered = [manifest for program in programs(lab, cluster).values() for manifest in program.runs.values()]
    found = {image for manifest in [*rendered, *policies(lab, cluster).values()] for image in _images(manifest)}
    if lab.benchmarks is not None and lab.benchmarks.nccl is not None:
        found.add(lab.benchmarks.nccl.image)
    if lab.benchmarks is not None and lab.benchmarks.mpi is not None:
        found.add(lab.benchmarks.mpi.image)
    if lab.images is not None and lab.images.training is not None:
        found.add(lab.images.training.image)
    return tuple(sorted(found))


def _images(part: JsonValue | Manifest) -> Iterator[str]:
    """Images of containers, and those that operators compose from repository, image and version."""
    if isinstance(part, dict):
        image = part.get("image")
        if isinstance(image, str):
            version = str(part.get("version", ""))
            joint = "@" if version.startswith("sha256:") else ":"
            yield f"{part['repository']}/{image}{joint}{version}" if "repository" in part else image
        for inner in part.values():
            yield from _images(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _images(inner)

"""The parts of a lab's cluster, by its profile: programs, custom resources, networks, namespaces
and images.
"""

from collections.abc import Iterator

from pydantic import JsonValue

from components.cluster.device_plugins import render_device_plugin, render_shared_device_plugin
from components.cluster.gpus import render_gpu_device_plugin, render_gpu_policy
from components.cluster.ipam import AddressSource, address_source
from components.cluster.manifests import Manifest, Program, render, render_program, through_registry
from components.cluster.networks import render_network
from components.cluster.policies import (
    render_nic_policy,
    render_sriov_network,
    render_sriov_policies,
)
from components.cluster.rails import populated_rails, present_nodes
from stacks.bill import MPIJOBS_DEFINITION, NETWORKS_DEFINITION, Registry, Upstream
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma, SharedRdma, SriovOperator, SriovPlain
from stacks.lab import Lab

DEVICE_PLUGIN = "device-plugin"
"""Key of the program that looks for VFs only when it starts."""
MPI_NAMESPACE = "mpi-operator"
"""Upstream's namespace, so that a second operator collides instead of running in parallel."""


def programs(lab: Lab, cluster: Cluster) -> dict[str, Program]:
    """What runs in the lab's cluster, by the key that its resources are named with."""
    made = {}
    for key, program in _programs(lab, cluster):
        runs = {}
        for name, manifest in program.runs.items():
            runs[name] = through_registry(manifest, cluster.registry)
        made[key] = Program(needs=program.needs, runs=runs)
    return made


def agents(lab: Lab, cluster: Cluster) -> list[Manifest]:
    """The DaemonSets and Deployments of all programs."""
    manifests: list[Manifest] = []
    for program in programs(lab, cluster).values():
        manifests += program.runs.values()
    return manifests


def policies(lab: Lab, cluster: Cluster) -> dict[str, Manifest]:
    """Custom resources for operators that are installed already, in the order of placing."""
    manifests: dict[str, Manifest] = {}
    if isinstance(cluster.delivery, SriovOperator):
        manifests["nic-policy"] = render_nic_policy(lab, cluster)
        manifests.update(render_sriov_policies(lab, cluster, cluster.delivery))
    if cluster.gpus == "operator":
        manifests["gpu-policy"] = render_gpu_policy(lab, cluster)
    return manifests


def networks(lab: Lab, cluster: Cluster) -> dict[str, Manifest]:
    """The rails in each user namespace, by `<rail>-network-<namespace>`; none if pods use the
    host's network.
    """
    if isinstance(cluster.delivery, Pvrdma):
        return {}
    by_operator = isinstance(cluster.delivery, SriovOperator)
    network = render_sriov_network if by_operator else render_network
    manifests: dict[str, Manifest] = {}
    for rail in populated_rails(lab):
        for namespace in cluster.namespaces:
            key = f"{rail.name}-network-{namespace}"
            manifests[key] = network(lab, cluster, rail, namespace)
    return manifests


def pools(lab: Lab, cluster: Cluster) -> dict[str, Manifest]:
    """Address pools by `<rail>-pool`."""
    if isinstance(cluster.delivery, Pvrdma):
        return {}
    return address_source(cluster).pools(lab)


def kinds(cluster: Cluster) -> dict[str, Upstream | Manifest]:
    """Definitions that rocelab places, by short key, without those that an operator brings."""
    source = placed_source(cluster)
    return {
        **(
            {}
            if isinstance(cluster.delivery, SriovOperator | Pvrdma)
            else {"networks": NETWORKS_DEFINITION}
        ),
        "mpijobs": MPIJOBS_DEFINITION,
        **(source.definitions if source else {}),
    }


def placed_source(cluster: Cluster) -> AddressSource | None:
    """The IPAM that rocelab places. None: pods use the host's network, or an operator brings it."""
    source = address_source(cluster)
    operated = isinstance(cluster.delivery, SriovOperator) and source.in_nic_policy()
    if operated or isinstance(cluster.delivery, Pvrdma):
        return None
    return source


def _programs(lab: Lab, cluster: Cluster) -> Iterator[tuple[str, Program]]:
    yield from _network_programs(cluster)
    templates = ("mpi_operator/rbac", "mpi_operator/deployment")
    image = cluster.bill.mpi_operator
    yield "mpi-operator", render_program(*templates, namespace=MPI_NAMESPACE, image=image)
    yield from _device_plugins(lab, cluster)


def _network_programs(cluster: Cluster) -> Iterator[tuple[str, Program]]:
    bill, delivery, namespace = cluster.bill, cluster.delivery, cluster.system_namespace
    if cluster.bootstrap is not None and cluster.bootstrap.cni == "flannel":
        flannel = render_program(
            "flannel/rbac",
            "flannel/daemonset",
            namespace=namespace,
            image=bill.flannel,
            plugin_image=bill.flannel_cni_plugin,
            pod_subnet=str(cluster.pod_subnet),
        )
        yield "flannel", flannel
    if isinstance(delivery, SriovPlain | SharedRdma):
        templates = ("multus/rbac", "multus/daemonset")
        yield "multus", render_program(*templates, namespace=namespace, image=bill.multus)
    if isinstance(delivery, SriovPlain):
        cni = render_program("sriov_cni/daemonset", namespace=namespace, image=bill.sriov_cni)
        yield "sriov-cni", cni
    source = placed_source(cluster)
    if source and (addresses := source.program()):
        yield source.name, addresses


def _device_plugins(lab: Lab, cluster: Cluster) -> Iterator[tuple[str, Program]]:
    delivery, namespace = cluster.delivery, cluster.system_namespace
    # without a resource to offer, a plugin would exit again and again
    if populated_rails(lab):
        if isinstance(delivery, SriovPlain):
            yield DEVICE_PLUGIN, render_device_plugin(lab, cluster)
        elif isinstance(delivery, SharedRdma | Pvrdma):
            yield "shared-device-plugin", render_shared_device_plugin(lab, cluster, delivery)
    if lab.hosts.rdma_namespaces == "exclusive" and isinstance(delivery, SriovPlain):
        image = cluster.bill.rdma_cni
        yield "rdma-cni", render_program("rdma_cni/daemonset", namespace=namespace, image=image)
    if cluster.gpus == "device_plugin" and any(node.gpus for node in present_nodes(lab)):
        yield "gpu-device-plugin", render_gpu_device_plugin(lab, cluster)


def render_namespaces(lab: Lab, cluster: Cluster) -> dict[str, Manifest]:
    """Namespaces that rocelab creates, by name. Those of `cluster.namespaces` exist already and
    outlive the lab.
    """
    template = "cluster/manifests/namespaces/namespace"
    made = {MPI_NAMESPACE: render(template, name=MPI_NAMESPACE, runs_benchmarks=False)}
    if lab.benchmarks is not None and lab.benchmarks.namespace not in cluster.namespaces:
        name = lab.benchmarks.namespace
        made[name] = render(template, name=name, runs_benchmarks=True)
    return made


def images_of(lab: Lab) -> tuple[str, ...]:
    """Every image that a lab pulls, by its publisher's name, sorted.

    It reads the rendered objects, not the bill, so it lists nothing that no node would pull.
    Operators that are installed already, and drivers whose names they build, need more images:
    their releases list them.
    """
    if lab.cluster is None:
        return ()
    # without mirrors: these names are what has to be copied
    cluster = lab.cluster.model_copy(update={"registry": Registry()})
    images: set[str] = set()
    for manifest in [*agents(lab, cluster), *policies(lab, cluster).values()]:
        images.update(_images(manifest))
    if lab.benchmarks is not None and lab.benchmarks.nccl is not None and lab.benchmarks.nccl.image:
        images.add(lab.benchmarks.nccl.image)
    if lab.benchmarks is not None and lab.benchmarks.mpi is not None and lab.benchmarks.mpi.image:
        images.add(lab.benchmarks.mpi.image)
    if lab.images is not None and lab.images.training is not None:
        images.add(lab.images.training.image)
    return tuple(sorted(images))


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

"""The pods of a job and their resources: annotation and limits follow from one object."""

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from components.cluster.gpus import RUNTIME_CLASS
from stacks.base import LabError
from stacks.benchmarks import Toleration
from stacks.cluster import Cluster
from stacks.delivery import WORKERS_SSH_PORT, Pvrdma, SriovOperator, SriovPlain
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.nodes import Node, Pf, VsphereVm, routed_rails
from stacks.rails import Rail
from stacks.transports import Runner

Transport = Literal["roce", "tcp", "host"]
"""roce: a VF of each rail in each worker. tcp: no VF, NCCL over sockets. host: the host's own
network and PFs."""

GPU = "nvidia.com/gpu"
NCCL_TESTS = "all_reduce_perf"
POD_INTERFACE = "eth0"


class FrozenModel(BaseModel):
    """Base of immutable models without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class PodPlacement(FrozenModel):
    """What a cluster's scheduler, queues and policies read on the pods of its benchmarks."""

    tolerations: tuple[Toleration, ...] = ()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    @property
    def taints(self) -> list[dict[str, str]]:
        """The tolerations as Kubernetes takes them."""
        return [taint.model_dump(exclude_none=True) for taint in self.tolerations]


def placement_of(lab: Lab) -> PodPlacement:
    """What the lab file says about it."""
    benchmarks = lab.benchmarks
    if benchmarks is None:
        return PodPlacement()
    return PodPlacement(
        tolerations=benchmarks.tolerations,
        labels=benchmarks.labels,
        annotations=benchmarks.annotations,
    )


class RailAttachment(FrozenModel):
    """One rail in a pod: Multus attaches the network, and the kubelet counts the resource."""

    rail: str
    network: str | None
    """As `namespace/name`; None in the host's network."""
    resource: str
    """Device-plugin resource, such as `intel.com/sriov_111`."""


class HostNetwork(FrozenModel):
    """Settings of workers in the host's network."""

    interfaces: tuple[str, ...]
    pfs: tuple[str, ...]
    ssh_port: int = WORKERS_SSH_PORT


class Workers(FrozenModel):
    """The workers of a job, one on each node."""

    namespace: str
    image: str
    pull_secret: str | None = None
    """Secret with the registry's login, in the job's own namespace."""
    runtime_class: str | None = None
    """The class of containers that see GPUs, if not all do."""
    nodes: tuple[str, ...]
    gpus_per_node: int
    cpu_ranks_per_node: int | None = Field(default=None, exclude_if=lambda ranks: ranks is None)
    """Of a job on CPUs; otherwise there is one rank per GPU."""
    attachments: tuple[RailAttachment, ...] = ()
    host: HostNetwork | None = None
    runner: Runner = Field(default="pods", exclude_if=lambda runner: runner == "pods")
    nccl_tests: str = Field(default=NCCL_TESTS, exclude_if=lambda program: program == NCCL_TESTS)
    addresses: dict[str, str] = Field(default={}, exclude_if=lambda addresses: not addresses)
    """By node, without pods: where MPI's daemons reach each other."""
    shared_devices: tuple[str, ...] = ()
    """RDMA devices of the PFs that pods share; no interface of the pod leads to them."""
    gpu_direct: bool = True
    traffic_class: int | None = None
    """TOS byte of RoCE traffic, if the lab has quality of service."""
    routed: bool = False
    """Whether a NIC of one rail reaches those of the others."""
    placement: PodPlacement = Field(
        default=PodPlacement(), exclude_if=lambda placement: placement == PodPlacement()
    )
    timeout_s: int

    @property
    def transport(self) -> Transport:
        """What NCCL runs over follows from what the pods get."""
        if not self.attachments:
            return "tcp"
        return "host" if self.host else "roce"

    @property
    def pvrdma(self) -> bool:
        """Whether the devices are PVRDMA's, which not every image supports. Only PVRDMA lacks
        GPUDirect.
        """
        return not self.gpu_direct and self.transport != "tcp"

    @property
    def rails(self) -> tuple[str, ...]:
        return tuple(attached.rail for attached in self.attachments)

    @property
    def networks(self) -> tuple[str, ...]:
        """The networks, in the order of the rails."""
        return tuple(attached.network for attached in self.attachments if attached.network)

    @property
    def limits(self) -> dict[str, str]:
        """Extended resources of each worker, whose requests equal their limits."""
        devices = (attached.resource for attached in self.attachments)
        gpus = {}
        if self.cpu_ranks_per_node is None:
            gpus = {GPU: str(self.gpus_per_node)}
        return {**dict.fromkeys(devices, "1"), **gpus}

    @property
    def ranks_per_node(self) -> int:
        """One rank per GPU, or the ranks on CPUs that the lab file asks for."""
        return self.cpu_ranks_per_node or self.gpus_per_node

    @property
    def ranks(self) -> int:
        return len(self.nodes) * self.ranks_per_node

    @property
    def bootstrap_interfaces(self) -> tuple[str, ...]:
        """Where MPI and NCCL's own bootstrap run: never on a rail."""
        if self.host:
            return self.host.interfaces
        return (POD_INTERFACE,)


@frozen
class JobRequest:
    """What a job asks for besides the lab."""

    namespace: str
    image: str
    timeout_s: int
    transport: Transport = "roce"
    device_resource: str | None = None
    """With transport host: the resource that gives /dev/infiniband, if no rail's resource does."""
    cpu_ranks_per_node: int | None = None
    runner: Runner = "pods"
    nccl_tests: str = NCCL_TESTS


def workers_of(lab: Lab, request: JobRequest) -> Workers:
    """Workers on all active nodes, with the rails that all of them have.

    Control planes take no jobs, and nodes without GPUs take part only in jobs on CPUs.

    Raises:
        LabError: without a cluster, with fewer than two such nodes, or without what the transport
            needs.
    """
    on_cpus = request.cpu_ranks_per_node is not None
    nodes = []
    for node in lab.active_nodes:
        if (node.gpus or on_cpus) and node.role == "worker":
            nodes.append(node)
    if lab.cluster is None and request.runner == "pods":
        raise LabError(
            "cluster: missing, but a job in pods needs one; add it, or set the runner to ssh or "
            "slurm"
        )
    if len(nodes) < 2:
        kind, fields = ("workers", "state") if on_cpus else ("with gpus", "state and gpus")
        raise LabError(
            f"nodes: {len(nodes)} active {kind}, but a job over the fabric needs two; set {fields}"
        )
    if request.runner != "pods" or lab.cluster is None:
        return _on_hosts(lab, nodes, request)
    return _in_pods(lab, lab.cluster, nodes, request)


def _in_pods(lab: Lab, cluster: Cluster, nodes: list[Node], request: JobRequest) -> Workers:
    delivery = cluster.delivery
    pvrdma = isinstance(delivery, Pvrdma)
    in_host = request.transport == "host" or (request.transport == "roce" and pvrdma)
    workers = _workers(lab, nodes, request).model_copy(
        update={
            "namespace": request.namespace,
            "image": cluster.registry.resolve(request.image),
            "pull_secret": cluster.registry.pull_secret,
            "gpu_direct": not pvrdma,
            "placement": placement_of(lab),
        }
    )
    update: dict[str, object] = {}
    if request.cpu_ranks_per_node is None:
        update["runtime_class"] = _runtime_class(lab, cluster)
    if in_host:
        update["host"] = _host(lab, cluster, nodes)
    if request.transport != "tcp":
        rails = _rails(lab, nodes, request)
        update["attachments"] = _attachments(cluster, rails, request, in_host=in_host)
        update["traffic_class"] = lab.qos and lab.qos.tos
        routed = routed_rails(rails, nodes)
        if not in_host:
            routed = frozenset(rail.name for rail in rails if rail.pod and rail.pod.gateway)
        update["routed"] = all(rail.name in routed for rail in rails)
        if not isinstance(delivery, SriovPlain | SriovOperator):
            update["shared_devices"] = _devices(rails, nodes)
    return workers.model_copy(update=update)


def _workers(lab: Lab, nodes: list[Node], request: JobRequest) -> Workers:
    """The workers without what depends on how they run, and without rails."""
    gpus_per_node = 0
    if request.cpu_ranks_per_node is None:
        gpus_per_node = min(node.gpus for node in nodes)
    return Workers(
        namespace="",
        image="",
        nodes=tuple(node.name for node in nodes),
        gpus_per_node=gpus_per_node,
        cpu_ranks_per_node=request.cpu_ranks_per_node,
        runner=request.runner,
        nccl_tests=request.nccl_tests,
        timeout_s=request.timeout_s,
    )


def _on_hosts(lab: Lab, nodes: list[Node], request: JobRequest) -> Workers:
    """Workers that are the nodes themselves, with the PFs of the rails that all of them have."""
    rails = []
    if request.transport != "tcp":
        rails = [rail for rail in lab.rails if len(_pfs([rail], nodes)) == len(nodes)]
        if not rails:
            raise LabError(
                "nodes[].pfs: no rail has a PF on every node of the job; add it, or use "
                "transport tcp"
            )
    interfaces = [node.management_interface for node in nodes]
    addresses = [str(node.address) for node in nodes]
    if lab.simulated:  # emulated nodes reach each other over the rails alone
        first = [node.pfs[0] for node in nodes]
        interfaces, addresses = [pf.interface for pf in first], [str(pf.address.ip) for pf in first]
    pfs = dict.fromkeys(pf.interface for pf in _pfs(rails, nodes))
    update: dict[str, object] = {
        "host": HostNetwork(interfaces=tuple(dict.fromkeys(interfaces)), pfs=tuple(pfs)),
        "addresses": {node.name: at for node, at in zip(nodes, addresses, strict=True)},
        "shared_devices": _devices(rails, nodes),
        "gpu_direct": not any(isinstance(node, VsphereVm) for node in nodes),
    }
    if rails:
        routed = routed_rails(rails, nodes)
        names = [rail.name for rail in rails]
        attachments = [RailAttachment(rail=name, network=None, resource="") for name in names]
        update["attachments"] = tuple(attachments)
        update["traffic_class"] = lab.qos and lab.qos.tos
        update["routed"] = all(name in routed for name in names)
    return _workers(lab, nodes, request).model_copy(update=update)


def _pfs(rails: Iterable[Rail], nodes: Iterable[Node]) -> list[Pf]:
    """The PFs of nodes on rails, rail by rail."""
    pfs = [node.pf_on(rail.name) for rail in rails for node in nodes]
    return [pf for pf in pfs if pf]


def _runtime_class(lab: Lab, cluster: Cluster) -> str | None:
    """Without a class, a container gets the default runtime, and no GPU if that is not NVIDIA's."""
    everywhere = lab.gpu is not None and lab.gpu.toolkit.default_runtime
    if cluster.gpus == "none" or everywhere:
        return None
    return RUNTIME_CLASS


def _rails(lab: Lab, nodes: list[Node], request: JobRequest) -> list[Rail]:
    """Rails of pods that every node of the job has, with VFs if the hosts create them."""
    plain = (
        lab.cluster is not None
        and isinstance(lab.cluster.delivery, SriovPlain)
        and request.transport == "roce"
    )
    rails = []
    for rail in lab.rails:
        usable = []
        for pf in _pfs([rail], nodes):
            if pf.vfs or not plain:
                usable.append(pf)
        if lab.pods_use(rail) and len(usable) == len(nodes):
            rails.append(rail)
    if not rails:
        with_vfs = " with VFs" if plain else ""
        raise LabError(
            f"nodes[].pfs: no rail has a PF{with_vfs} on every node of the job; add it, or use "
            "transport tcp"
        )
    return rails


def _attachments(
    cluster: Cluster, rails: list[Rail], request: JobRequest, *, in_host: bool
) -> tuple[RailAttachment, ...]:
    """Without VFs, pods get devices from the shared plugin, whose resources are named by rail."""
    vfs = isinstance(cluster.delivery, SriovPlain | SriovOperator)
    if in_host and vfs and not request.device_resource:
        raise LabError(
            "transport host: the containers are unprivileged, so a device plugin must give them "
            "/dev/infiniband; name its resource: --device-resource rdma/<name>"
        )
    home = home_of_networks(cluster, request.namespace)
    attachments = []
    for rail in rails:
        network: str | None = f"{home}/{rail.network_name}"
        resource = rail.resource
        if in_host:
            network, resource = None, request.device_resource or rail.resource
        attachments.append(RailAttachment(rail=rail.name, network=network, resource=resource))
    return tuple(attachments)


def home_of_networks(cluster: Cluster, namespace: str) -> str:
    """Networks are in the cluster's namespaces; pods in other ones use their full name."""
    if namespace in cluster.namespaces:
        return namespace
    return cluster.namespaces[0]


def _host(lab: Lab, cluster: Cluster, nodes: list[Node]) -> HostNetwork:
    ssh_port = WORKERS_SSH_PORT
    if isinstance(cluster.delivery, Pvrdma):
        ssh_port = cluster.delivery.ssh_port
    return HostNetwork(
        interfaces=tuple(dict.fromkeys(node.management_interface for node in nodes)),
        pfs=tuple(dict.fromkeys(pf.interface for pf in _pfs(lab.rails, nodes))),
        ssh_port=ssh_port,
    )


def _devices(rails: list[Rail], nodes: list[Node]) -> tuple[str, ...]:
    """RDMA devices of the job's rails, if their names are the same on every node; otherwise NCCL
    must find them.
    """
    first = [pf.rdma_device for pf in _pfs(rails, nodes[:1])]
    for node in nodes:
        if [pf.rdma_device for pf in _pfs(rails, [node])] != first:
            return ()
    return tuple(first)

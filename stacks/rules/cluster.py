"""Rules of the cluster: one owner for VFs, drivers and addresses, and no way into pods that cannot
work.
"""

from collections.abc import Iterator

from stacks.benchmarks import Benchmarks
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma, SharedRdma, SriovOperator, SriovPlain
from stacks.drivers import NicDriver
from stacks.gpus import Gpu
from stacks.hosts import HostPolicy
from stacks.rules.parts import Fault, Parts
from stacks.words import plural


def refuse_vfs_of_two_owners(parts: Parts, cluster: Cluster) -> Iterator[Fault]:
    delivery = cluster.delivery
    if isinstance(delivery, SriovPlain):
        return
    owner = {
        "sriov_operator": (
            "the operator creates VFs; write 0 here and the count in cluster.delivery.vfs"
        ),
        "shared_rdma": "pods share the PF and use no VF; write 0",
        "pvrdma": "the VM's NIC has no VFs; write 0",
    }[delivery.profile]
    for path, node, pf in parts.pfs():
        if pf.vfs and node.state != "absent":
            yield Fault(
                (*path, "vfs"), f"{pf.vfs} with cluster.delivery {delivery.profile}: {owner}"
            )


def refuse_a_shared_device_in_exclusive_namespaces(
    cluster: Cluster, hosts: HostPolicy
) -> Iterator[Fault]:
    if hosts.rdma_namespaces == "exclusive" and isinstance(cluster.delivery, SharedRdma | Pvrdma):
        yield Fault(
            ("hosts", "rdma_namespaces"),
            f"exclusive gives a device to one pod, but cluster.delivery {cluster.delivery.profile} "
            "shares it; its device plugin would not start. Write shared, or choose a profile "
            "with VFs",
        )


def refuse_a_prefix_that_differs_from_the_operators(
    parts: Parts, cluster: Cluster
) -> Iterator[Fault]:
    operator = cluster.delivery
    if not isinstance(operator, SriovOperator):
        return
    for i, rail, pod in parts.pod_rails():
        if rail.resource_prefix != operator.resource_prefix:
            yield Fault(
                ("rails", i, "resource_prefix"),
                f"{rail.resource_prefix}, but the operator offers "
                f"{operator.resource_prefix}/{rail.resource_name}; write "
                f"{operator.resource_prefix}, or set cluster.delivery.resource_prefix to what the "
                "operator was installed with",
            )
        if pod.addresses_per_node < operator.vfs:
            yield Fault(
                ("rails", i, "pod", "addresses_per_node"),
                f"{plural(pod.addresses_per_node, 'address', 'addresses')} per node for "
                f"{operator.vfs} VFs: some pods would get no address; set at least "
                f"{operator.vfs}",
            )


def refuse_more_pods_than_addresses(parts: Parts, cluster: Cluster) -> Iterator[Fault]:
    if not isinstance(cluster.delivery, SharedRdma) or not cluster.ipam.IN_BLOCKS:
        return
    for i, _, pod in parts.pod_rails():
        if pod.addresses_per_node < cluster.delivery.most_pods:
            yield Fault(
                ("rails", i, "pod", "addresses_per_node"),
                f"{plural(pod.addresses_per_node, 'address', 'addresses')} for up to "
                f"{cluster.delivery.most_pods} pods per node: some would get no address; set at "
                f"least {cluster.delivery.most_pods}, or lower cluster.delivery.most_pods",
            )


def refuse_a_macvlan_over_several_names(parts: Parts, cluster: Cluster) -> Iterator[Fault]:
    if not isinstance(cluster.delivery, SharedRdma):
        return
    first_on: dict[str, tuple[str, str]] = {}
    pods = {rail.name for _, rail, _ in parts.pod_rails()}
    for path, node, pf in parts.pfs():
        if node.state == "absent" or pf.rail not in pods:
            continue
        interface, first = first_on.setdefault(pf.rail, (pf.interface, node.name))
        if interface != pf.interface:
            yield Fault(
                (*path, "interface"),
                f"{pf.interface} here, but {interface} at {first}: a macvlan network uses one "
                "interface name on all nodes; give the NICs one name per rail (udev)",
            )


def refuse_several_rails_of_pvrdma(parts: Parts, cluster: Cluster) -> Iterator[Fault]:
    if not isinstance(cluster.delivery, Pvrdma):
        return
    for i in list(parts.rails)[1:]:
        yield Fault(
            ("rails", i),
            "a second rail, but cluster.delivery is pvrdma: the device plugin cannot tell its "
            "devices apart, so use one rail",
        )


def refuse_static_addresses_for_replicas(
    cluster: Cluster, benchmarks: Benchmarks
) -> Iterator[Fault]:
    job = ""
    for name, section in (("benchmarks.mpi", benchmarks.mpi), ("benchmarks.nccl", benchmarks.nccl)):
        if section and section.runner == "pods":
            job = name
    if job and cluster.ipam.NAMED_BY_PODS and not isinstance(cluster.delivery, Pvrdma):
        yield Fault(
            ("cluster", "ipam"),
            f"{cluster.ipam.kind} gives every replica of {job} the same address; use nv_ipam, or "
            f"remove {job}",
        )


def refuse_ipam_for_pvrdma(cluster: Cluster) -> Iterator[Fault]:
    if isinstance(cluster.delivery, Pvrdma) and "ipam" in cluster.model_fields_set:
        yield Fault(
            ("cluster", "ipam"),
            f"{cluster.ipam.kind} has no effect with cluster.delivery pvrdma, where pods use the "
            "VM's own address; remove it",
        )


def refuse_drivers_without_their_operator(parts: Parts, cluster: Cluster) -> Iterator[Fault]:
    driver, gpu = parts.section("driver", NicDriver), parts.section("gpu", Gpu)
    if driver and driver.source == "operator" and not isinstance(cluster.delivery, SriovOperator):
        yield Fault(
            ("driver", "source"),
            "operator needs cluster.delivery sriov_operator, which installs NIC drivers; choose "
            "that profile or another source",
        )
    if gpu is None or cluster.gpus == "operator":
        return
    for field, source in (("driver", gpu.driver.source), ("toolkit", gpu.toolkit.source)):
        if source == "operator":
            yield Fault(
                ("gpu", field, "source"),
                "operator needs cluster.gpus operator, which installs it; choose that or another "
                "source",
            )


def refuse_a_cluster_that_no_rail_reaches(parts: Parts) -> Iterator[Fault]:
    if parts.cluster is not None and isinstance(parts.cluster.delivery, Pvrdma):
        return  # pods use the network of their machine
    if (
        parts.has("cluster")
        and parts.rails
        and parts.all_rails_valid
        and not list(parts.pod_rails())
    ):
        yield Fault(
            ("cluster",),
            "no rail has a `pod` section, so no pod can reach a rail; add one, or remove this "
            "section",
        )


def refuse_untagged_pods_across_routers(parts: Parts) -> Iterator[Fault]:
    """Pods of a rail share one subnet; the untagged networks of two leaves or cables do not."""
    shared = parts.cluster is not None and isinstance(parts.cluster.delivery, SharedRdma)
    for i, rail, pod in parts.pod_rails():
        if rail.name in parts.split_rails and (shared or pod.vlan_id is None):
            yield Fault(
                ("rails", i, "pod"),
                f"pods would be untagged, but {rail.name} has several untagged networks with "
                "routers between them; give pods their own VLAN across the leaves (with VFs), or "
                "remove pod",
            )

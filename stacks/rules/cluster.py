"""Rules of the cluster: one owner for VFs, drivers and addresses, and no way into pods that cannot work."""

from collections.abc import Iterator

from stacks.benchmarks import Benchmarks
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma, SharedRdma, SriovOperator, SriovPlain
from stacks.drivers import NicDriver
from stacks.gpus import Gpu
from stacks.hosts import HostPolicy
from stacks.rules.parts import Fault, Parts, Rule
from stacks.words import plural


def _refuse_vfs_of_two_owners(parts: Parts) -> Iterator[Fault]:
    if parts.cluster is None or isinstance(parts.cluster.delivery, SriovPlain):
        return
    delivery = parts.cluster.delivery
    owner = {
        "sriov_operator": "the operator creates VFs; write 0 here and the count in cluster.delivery.vfs",
        "shared_rdma": "pods share the PF and use no VF; write 0",
        "pvrdma": "the VM's NIC has no VFs; write 0",
    }[delivery.profile]
    for path, node, pf in parts.pfs():
        if pf.vfs and node.state != "absent":
            yield Fault((*path, "vfs"), f"{pf.vfs} with cluster.delivery {delivery.profile}: {owner}")


def _refuse_a_shared_device_in_exclusive_namespaces(parts: Parts) -> Iterator[Fault]:
    hosts = parts.section("hosts", HostPolicy)
    if parts.cluster is None or hosts is None or hosts.rdma_namespaces != "exclusive":
        return
    if isinstance(parts.cluster.delivery, SharedRdma | Pvrdma):
        yield Fault(
            ("hosts", "rdma_namespaces"),
            f"exclusive gives a device to one pod, but cluster.delivery {parts.cluster.delivery.profile} shares it; "
            "its device plugin would not start. Write shared, or choose a profile with VFs",
        )


def _refuse_another_prefix_than_the_operator_s(parts: Parts) -> Iterator[Fault]:
    operator = parts.cluster.delivery if parts.cluster else None
    if not isinstance(operator, SriovOperator):
        return
    for i, rail, pod in parts.pod_rails():
        if rail.resource_prefix != operator.resource_prefix:
            yield Fault(
                ("rails", i, "resource_prefix"),
                f"{rail.resource_prefix}, but the operator offers {operator.resource_prefix}/{rail.resource_name}; "
                f"write {operator.resource_prefix}, or set cluster.delivery.resource_prefix to what the "
                "operator was installed with",
            )
        if pod.addresses_per_node < operator.vfs:
            yield Fault(
                ("rails", i, "pod", "addresses_per_node"),
                f"{plural(pod.addresses_per_node, 'address', 'addresses')} per node for {operator.vfs} VFs: some pods "
                f"would get no address; set at least {operator.vfs}",
            )


def _refuse_more_pods_than_addresses(parts: Parts) -> Iterator[Fault]:
    cluster = parts.cluster
    if cluster is None or not isinstance(cluster.delivery, SharedRdma) or not cluster.ipam.IN_BLOCKS:
        return
    for i, _, pod in parts.pod_rails():
        if pod.addresses_per_node < cluster.delivery.most_pods:
            yield Fault(
                ("rails", i, "pod", "addresses_per_node"),
                f"{plural(pod.addresses_per_node, 'address', 'addresses')} for up to {cluster.delivery.most_pods} "
                f"pods per node: some would get no address; set at least {cluster.delivery.most_pods}, or lower "
                "cluster.delivery.most_pods",
            )


def _refuse_a_macvlan_over_several_names(parts: Parts) -> Iterator[Fault]:
    if parts.cluster is None or not isinstance(parts.cluster.delivery, SharedRdma):
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
                f"{pf.interface} here, but {interface} at {first}: a macvlan network uses one interface name on all "
                "nodes; give the NICs one name per rail (udev)",
            )


def _refuse_several_rails_of_pvrdma(parts: Parts) -> Iterator[Fault]:
    if parts.cluster is None or not isinstance(parts.cluster.delivery, Pvrdma):
        return
    for i in list(parts.rails)[1:]:
        yield Fault(
            ("rails", i),
            "a second rail, but cluster.delivery is pvrdma: the device plugin cannot tell its devices "
            "apart, so use one rail",
        )


def _refuse_static_addresses_for_replicas(parts: Parts) -> Iterator[Fault]:
    benchmarks = parts.section("benchmarks", Benchmarks)
    if parts.cluster is None or not parts.cluster.ipam.NAMED_BY_PODS or benchmarks is None:
        return
    job = "benchmarks.nccl" if benchmarks.nccl else "benchmarks.mpi" if benchmarks.mpi else ""
    if job and not isinstance(parts.cluster.delivery, Pvrdma):
        yield Fault(
            ("cluster", "ipam"),
            f"{parts.cluster.ipam.kind} gives every replica of {job} the same address; use nv_ipam, or remove {job}",
        )


def _refuse_ipam_where_nothing_asks_for_it(parts: Parts) -> Iterator[Fault]:
    cluster: Cluster | None = parts.cluster
    if cluster and isinstance(cluster.delivery, Pvrdma) and "ipam" in cluster.model_fields_set:
        yield Fault(
            ("cluster", "ipam"),
            f"{cluster.ipam.kind} has no effect with cluster.delivery pvrdma, where pods use the VM's own address; "
            "remove it",
        )


def _refuse_drivers_that_nobody_brings(parts: Parts) -> Iterator[Fault]:
    if parts.cluster is None:
        return
    driver, gpu = parts.section("driver", NicDriver), parts.section("gpu", Gpu)
    if driver and driver.source == "operator" and not isinstance(parts.cluster.delivery, SriovOperator):
        yield Fault(
            ("driver", "source"),
            "operator needs cluster.delivery sriov_operator, which installs NIC drivers; choose that profile or "
            "another source",
        )
    if gpu is None or parts.cluster.gpus == "operator":
        return
    for field, source in (("driver", gpu.driver.source), ("toolkit", gpu.toolkit.source)):
        if source == "operator":
            yield Fault(
                ("gpu", field, "source"),
                "operator needs cluster.gpus operator, which installs it; choose that or another source",
            )


def _refuse_a_cluster_that_no_rail_reaches(parts: Parts) -> Iterator[Fault]:
    if parts.cluster is not None and parts.rails and parts.all_rails_valid and not list(parts.pod_rails()):
        yield Fault(
            ("cluster",), "no rail has a `pod` section, so no pod can reach a rail; add one, or remove this section"
        )


def _refuse_untagged_pods_across_routers(parts: Parts) -> Iterator[Fault]:
    """Pods of a rail share one subnet; the untagged networks of two leaves or cables do not."""
    shared = parts.cluster is not None and isinstance(parts.cluster.delivery, SharedRdma)
    for i, rail, pod in parts.pod_rails():
        if rail.name in parts.split_rails and (shared or pod.vlan_id is None):
            yield Fault(
                ("rails", i, "pod"),
                f"pods would be untagged, but {rail.name} has several untagged networks with routers between them; "
                "give pods their own VLAN across the leaves (with VFs), or remove pod",
            )


CLUSTER_RULES: tuple[Rule, ...] = (
    _refuse_vfs_of_two_owners,
    _refuse_a_shared_device_in_exclusive_namespaces,
    _refuse_another_prefix_than_the_operator_s,
    _refuse_more_pods_than_addresses,
    _refuse_a_macvlan_over_several_names,
    _refuse_several_rails_of_pvrdma,
    _refuse_static_addresses_for_replicas,
    _refuse_ipam_where_nothing_asks_for_it,
    _refuse_drivers_that_nobody_brings,
    _refuse_a_cluster_that_no_rail_reaches,
    _refuse_untagged_pods_across_routers,
)

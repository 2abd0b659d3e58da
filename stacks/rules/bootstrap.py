"""Rules of a cluster that rocelab creates: its control planes, and their endpoint."""

from collections.abc import Iterator
from ipaddress import IPv4Address

from stacks.cluster import Cluster
from stacks.rules.parts import Fault, Parts

COUNTS = (1, 3)
"""Control planes: one, or three, which keep the quorum when one is lost. Two lose it more often
than one."""
NODE_PREFIX = 24
"""Each node's share of the pod network: the default of kube-controller-manager's
`--node-cidr-mask-size`."""


def refuse_other_counts_of_control_planes(parts: Parts, cluster: Cluster) -> Iterator[Fault]:
    planes = []
    for i, node in parts.nodes.items():
        if node.role == "control_plane" and node.state != "absent":
            planes.append(i)
    if cluster.bootstrap is None:
        for i in planes:
            yield Fault(
                ("nodes", i, "role"),
                "control_plane is only for clusters that rocelab creates; add cluster.bootstrap, "
                "or remove role",
            )
    elif len(planes) not in COUNTS:
        yield Fault(
            ("cluster", "bootstrap"),
            f"{len(planes)} nodes have role: control_plane; use one, or three for a quorum",
        )
    elif len(planes) > 1 and cluster.bootstrap.control_plane_endpoint is None:
        yield Fault(
            ("cluster", "bootstrap", "control_plane_endpoint"),
            "missing; three control planes need the load balancer or virtual IP in front of them",
        )


def refuse_a_pod_network_without_room(parts: Parts, cluster: Cluster) -> Iterator[Fault]:
    nodes = sum(node.state != "absent" for node in parts.nodes.values())
    room = (
        2 ** (NODE_PREFIX - cluster.pod_subnet.prefixlen)
        if cluster.pod_subnet.prefixlen <= NODE_PREFIX
        else 0
    )
    if cluster.bootstrap and nodes > room:
        yield Fault(
            ("cluster", "pod_subnet"),
            f"{cluster.pod_subnet} has room for {room} nodes with a /{NODE_PREFIX} each, and the "
            f"lab has {nodes}; use a larger network, usually /16",
        )


def refuse_an_endpoint_on_a_rail(parts: Parts, cluster: Cluster) -> Iterator[Fault]:
    bootstrap = cluster.bootstrap
    host = (bootstrap.control_plane_endpoint or "").rpartition(":")[0] if bootstrap else ""
    try:
        address = IPv4Address(host)
    except ValueError:  # a name, whose addresses only its resolver knows
        return
    networks = [(rail.name, rail.host_subnet) for rail in parts.rails.values()]
    networks += [(rail.name, pod.subnet) for _, rail, pod in parts.pod_rails()]
    networks += [
        ("the cluster's pods", cluster.pod_subnet),
        ("its services", cluster.service_subnet),
    ]
    for owner, subnet in networks:
        if address in subnet:
            yield Fault(
                ("cluster", "bootstrap", "control_plane_endpoint"),
                f"{address} is in {subnet} of {owner}; use an address on the management network",
            )


def refuse_a_second_source_of_the_kubeconfig(cluster: Cluster) -> Iterator[Fault]:
    if cluster.bootstrap is None:
        return
    for key in ("kubeconfig", "kubeconfig_file"):
        if key in cluster.model_fields_set:
            yield Fault(
                ("cluster", key),
                "rocelab creates this cluster and reads the kubeconfig from a control plane; "
                "remove this field",
            )


def refuse_a_cluster_on_simulated_nodes(parts: Parts, cluster: Cluster) -> Iterator[Fault]:
    if parts.kind == "virtual" and cluster.bootstrap:
        yield Fault(
            ("cluster", "bootstrap"),
            "the simulator brings its own control plane, and its nodes have no container runtime; "
            "remove this section",
        )

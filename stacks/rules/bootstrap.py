"""Rules of a cluster that rocelab creates: its control planes, and their endpoint."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from stacks.bootstrap import Bootstrap
from stacks.rules.parts import Fault, Parts, Rule

COUNTS = (1, 3)
"""Control planes: one, or three, which keep the quorum when one is lost. Two lose it more often than one."""


def _bootstrap(parts: Parts) -> Bootstrap | None:
    return parts.cluster.bootstrap if parts.cluster else None


def _refuse_other_counts_of_control_planes(parts: Parts) -> Iterator[Fault]:
    bootstrap = _bootstrap(parts)
    planes = [i for i, node in parts.nodes.items() if node.role == "control_plane" and node.state != "absent"]
    if bootstrap is None:
        if parts.cluster is not None:
            for i in planes:
                yield Fault(
                    ("nodes", i, "role"),
                    "control_plane is only for clusters that rocelab creates; add cluster.bootstrap, or remove role",
                )
        return
    if len(planes) not in COUNTS:
        yield Fault(
            ("cluster", "bootstrap"),
            f"{len(planes)} nodes have role: control_plane; use one, or three for a quorum",
        )
    elif len(planes) > 1 and bootstrap.control_plane_endpoint is None:
        yield Fault(
            ("cluster", "bootstrap", "control_plane_endpoint"),
            "missing; three control planes need the load balancer or virtual IP in front of them",
        )


def _refuse_an_endpoint_on_a_rail(parts: Parts) -> Iterator[Fault]:
    bootstrap = _bootstrap(parts)
    host = (bootstrap.control_plane_endpoint or "").rpartition(":")[0] if bootstrap else ""
    try:
        address = IPv4Address(host)
    except ValueError:  # a name, whose addresses only its resolver knows
        return
    rails = [(rail.name, rail.host_subnet) for rail in parts.rails.values()]
    rails += [(rail.name, pod.subnet) for _, rail, pod in parts.pod_rails()]
    cluster = parts.cluster
    own: list[tuple[str, IPv4Network]] = (
        [("the cluster's pods", cluster.pod_subnet), ("its services", cluster.service_subnet)] if cluster else []
    )
    for owner, subnet in [*rails, *own]:
        if address in subnet:
            yield Fault(
                ("cluster", "bootstrap", "control_plane_endpoint"),
                f"{address} is in {subnet} of {owner}; use an address on the management network",
            )


def _refuse_a_second_source_of_the_kubeconfig(parts: Parts) -> Iterator[Fault]:
    if parts.cluster is None or parts.cluster.bootstrap is None:
        return
    for key in ("kubeconfig", "kubeconfig_file"):
        if key in parts.cluster.model_fields_set:
            yield Fault(
                ("cluster", key),
                "rocelab creates this cluster and reads the kubeconfig from a control plane; remove this field",
            )


def _refuse_a_cluster_on_simulated_nodes(parts: Parts) -> Iterator[Fault]:
    if parts.kind == "virtual" and _bootstrap(parts):
        yield Fault(
            ("cluster", "bootstrap"),
            "the simulator brings its own control plane, and its nodes have no container runtime; remove this section",
        )


BOOTSTRAP_RULES: tuple[Rule, ...] = (
    _refuse_other_counts_of_control_planes,
    _refuse_an_endpoint_on_a_rail,
    _refuse_a_second_source_of_the_kubeconfig,
    _refuse_a_cluster_on_simulated_nodes,
)

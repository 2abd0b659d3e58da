"""Rules of the benchmarks: what they ask for must be possible with the lab's nodes and rails."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from stacks.benchmarks import Benchmarks
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma
from stacks.images import Images
from stacks.report import ReportStore
from stacks.rules.parts import Fault, Parts
from stacks.words import plural, some

LAST_PORT = 65_535


def refuse_an_incast_that_no_rail_can_hold(parts: Parts, benchmarks: Benchmarks) -> Iterator[Fault]:
    if not benchmarks.verbs.incast or not parts.all_rails_valid:
        return
    on_rail = {rail.name: 0 for rail in parts.rails.values()}
    for _, node, pf in parts.pfs():
        if node.state == "active" and pf.rail in on_rail:
            on_rail[pf.rail] += 1
    most = max(on_rail.values(), default=0)
    if benchmarks.verbs.incast >= most:
        yield Fault(
            ("benchmarks", "verbs", "incast"),
            f"{benchmarks.verbs.incast} senders need one receiver more, but no rail has more than "
            f"{most} active nodes; set at most {max(most - 1, 0)}, or 0 to skip incast",
        )


def refuse_ports_beyond_the_last(parts: Parts, benchmarks: Benchmarks) -> Iterator[Fault]:
    verbs, needed = benchmarks.verbs, max(len(parts.rails), benchmarks.verbs.incast)
    if verbs.first_port + needed - 1 > LAST_PORT:
        yield Fault(
            ("benchmarks", "verbs", "first_port"),
            f"{verbs.first_port} leaves too few of the {plural(needed, 'port')} that the tests "
            f"need; set at most {LAST_PORT - needed + 1}",
        )


def refuse_vendor_verbs_for_pvrdma(cluster: Cluster, images: Images) -> Iterator[Fault]:
    """The Bitfusion article: the vendor's libraries do not support VMware's device, and programs
    silently find none.
    """
    if not isinstance(cluster.delivery, Pvrdma):
        return
    why = (
        "but cluster.delivery is pvrdma, whose device the vendor's libraries do not support; write "
        "distribution"
    )
    if images.benchmark.verbs == "vendor":
        yield Fault(("images", "benchmark", "verbs"), f"vendor, {why}")
    if images.training and images.training.verbs == "base":
        yield Fault(("images", "training", "verbs"), f"base, {why}")


def refuse_the_port_of_a_nodes_sshd(parts: Parts, cluster: Cluster) -> Iterator[Fault]:
    """In the machine's own network the workers' sshd would not start. Simulated labs are exempt."""
    if not isinstance(cluster.delivery, Pvrdma) or parts.kind == "virtual":
        return
    port = cluster.delivery.ssh_port
    workers = (node for node in parts.nodes.values() if node.gpus and node.role == "worker")
    taken = [node.name for node in workers if node.ssh_port == port]
    if taken:
        yield Fault(
            ("cluster", "delivery", "ssh_port"),
            f"{port} is also the ssh_port of {some(taken, 3)}, and a job's workers share the "
            "host's network; choose another port",
        )


THROWN_AWAY = (".sim", ".engine", ".venv")
"""Folders of a checkout that `make clean` removes."""


def refuse_a_store_that_does_not_outlive_the_simulator(
    parts: Parts, report: ReportStore
) -> Iterator[Fault]:
    if report.store is None or parts.kind != "hardware":
        return
    first = PurePosixPath(report.store).parts[0]
    if first in THROWN_AWAY:
        yield Fault(
            ("report", "store"),
            f"{report.store} is inside {first}, which `make clean` removes; use another folder, or "
            "remove store",
        )

"""Rules between the benchmark jobs, their images and sshd, and the cluster that they run in."""

from collections.abc import Callable, Iterator

from stacks.delivery import Pvrdma
from stacks.images import Images
from stacks.rules.parts import Fault, Parts


def _refuse_vendor_verbs_for_pvrdma(parts: Parts) -> Iterator[Fault]:
    """The Bitfusion article: the vendor's libraries do not support VMware's device, and programs silently find none."""
    images = parts.section("images", Images)
    if parts.cluster is None or not isinstance(parts.cluster.delivery, Pvrdma) or images is None:
        return
    why = "and cluster.delivery is pvrdma, whose device the vendor's libraries do not know; write distribution"
    if images.benchmark.verbs == "vendor":
        yield Fault(("images", "benchmark", "verbs"), f"vendor, {why}")
    if images.training and images.training.verbs == "base":
        yield Fault(("images", "training", "verbs"), f"base, {why}")


def _refuse_a_port_that_a_node_s_own_sshd_has(parts: Parts) -> Iterator[Fault]:
    """In the machine's own network the workers' sshd would not start. Simulated nodes run no pods."""
    if parts.cluster is None or not isinstance(parts.cluster.delivery, Pvrdma) or parts.kind == "virtual":
        return
    port = parts.cluster.delivery.ssh_port
    workers = (node for node in parts.nodes.values() if node.gpus and node.role == "worker")
    taken = [node.name for node in workers if node.ssh_port == port]
    if taken:
        listed = ", ".join(taken[:3]) + (f" and {len(taken) - 3} more" if len(taken) > 3 else "")
        yield Fault(
            ("cluster", "delivery", "ssh_port"),
            f"{port} is also the ssh_port of {listed}, and a job's workers share the host's "
            "network; choose another port",
        )


IMAGE_RULES: tuple[Callable[[Parts], Iterator[Fault]], ...] = (
    _refuse_vendor_verbs_for_pvrdma,
    _refuse_a_port_that_a_node_s_own_sshd_has,
)

"""Rules between the benchmark images and the cluster that they run in."""

from collections.abc import Callable, Iterator

from stacks.delivery import Pvrdma
from stacks.images import Images
from stacks.rules.parts import Fault, Parts


def _refuse_vendor_verbs_for_pvrdma(parts: Parts) -> Iterator[Fault]:
    """Seed C: the vendor's libraries do not know VMware's device, and programs then find none, without a word."""
    images = parts.section("images", Images)
    if parts.cluster is None or not isinstance(parts.cluster.delivery, Pvrdma) or images is None:
        return
    why = "and cluster.delivery is pvrdma, whose device the vendor's libraries do not know; write distribution"
    if images.benchmark.verbs == "vendor":
        yield Fault(("images", "benchmark", "verbs"), f"vendor, {why}")
    if images.training and images.training.verbs == "base":
        yield Fault(("images", "training", "verbs"), f"base, {why}")


IMAGE_RULES: tuple[Callable[[Parts], Iterator[Fault]], ...] = (_refuse_vendor_verbs_for_pvrdma,)

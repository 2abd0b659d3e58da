"""How fast NCCL's ring can be: what rails and nodes carry, and how long its steps take."""

from collections.abc import Sequence

from components.physics.ceilings import Ceiling, Limit
from stacks.frozen import frozen
from stacks.words import bytes_text, plural

BASE_US, NVLINK_US, NETWORK_US = 8.4, 3.4, 14.0
"""Of a ring with protocol Simple: once, per step within a node, per step between nodes (NCCL
2.30.7, src/graph/tuning.cc, `baseLatencies` and `hwLatencies`). Without NVLink it is 5.7 us per
step within a node, which the lower bandwidth of such nodes hides."""
POST_US = {"AuthenticAMD": 6.0}
"""To post a step to the network from this CPU. Any other needs 3 us, less than a step over NVLink
(`getNetOverhead`, three times for Simple)."""
PLATEAU = 1.4
"""Factor on the latency of a ring between nodes for large messages (`ncclTopoGetAlgoTime`)."""

GIB = 2**30
FEW_RANKS = 64
LEAST_BYTES, MOST_BYTES = 2 * GIB, 16 * GIB
"""The DeepOps RoCE guide's table ends at 2 GiB. nccl-tests takes three buffers of the message and
5 GiB per GPU, so a GPU of 80 GB has room for 16 GiB (src/common.cu, `memMaxBytes`)."""


def largest_message_bytes(ranks: int, rails: int) -> int:
    """The message in which bandwidth decides: 1 GiB per rail, 2 GiB per rail above 64 ranks.

    Latency grows with the ranks, and the time of the data shrinks with the rails.
    """
    per_rail = GIB if ranks <= FEW_RANKS else 2 * GIB
    power_of_two = 1 << (per_rail * max(rails, 1) - 1).bit_length()
    return min(max(power_of_two, LEAST_BYTES), MOST_BYTES)


@frozen
class Ring:
    """One ring all-reduce over all GPUs of some nodes."""

    nodes: int
    gpus_per_node: int
    message_bytes: int
    cpu_vendor: str = ""
    """As /proc/cpuinfo has it; empty where it is unknown or differs between nodes."""

    @property
    def ranks(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def latency_s(self) -> float:
        """The time of its steps without any data, by NCCL's cost model."""
        between = 2 * (self.nodes - 1)
        within = 2 * (self.ranks - 1) - between
        if self.nodes == 1:
            return (BASE_US + within * NVLINK_US) / 1e6
        within_us = max(NVLINK_US, POST_US.get(self.cpu_vendor, 0.0))
        return PLATEAU * (BASE_US + within * within_us + between * NETWORK_US) / 1e6

    def busbw_gbyte_s(self, bandwidth_gbyte_s: float) -> float:
        """The busbw that nccl-tests prints for a ring of this bandwidth, latency included."""
        moved_gbyte = self.message_bytes / 1e9 * 2 * (self.ranks - 1) / self.ranks
        return moved_gbyte / (moved_gbyte / bandwidth_gbyte_s + self.latency_s)


def rails_gbyte_s(rails_gbit_s: Sequence[float]) -> float:
    """The bandwidth of a ring in 10^9 bytes a second: it crosses each rail once, so they add up."""
    return sum(rails_gbit_s) / 8


def nccl_ceiling(
    rails_gbit_s: Sequence[float],
    ring: Ring,
    *,
    measured: bool,
    verbs: str = "ib_write_bw",
    within_gbyte_s: float | None = None,
) -> Ceiling:
    """Largest busbw of an all-reduce, in 10^9 bytes a second.

    Args:
        rails_gbit_s: the verbs bandwidth of each rail, measured or computed.
        ring: the GPUs and the message.
        measured: whether the rails are measured; thresholds are stricter then.
        verbs: the test that measured them.
        within_gbyte_s: the least busbw that a node reached alone. The ring goes through every node,
            so it is no faster than the slowest node: on eight GPUs with 400 Gbit/s each, NVLink
            carries less than the rails.
    """
    bandwidth = rails_gbyte_s(rails_gbit_s)
    limited_by: Limit = "measured verbs" if measured else "line"
    rails = plural(len(rails_gbit_s), "rail")
    if measured:
        basis = f"measured {verbs} of {rails}"
    else:
        basis = f"computed goodput of {rails}"
    if within_gbyte_s is not None and within_gbyte_s < bandwidth:
        basis = f"ring of the slowest node alone; {basis} would be {bandwidth:.2f}"
        bandwidth, limited_by = within_gbyte_s, "node"
    steps = f"{ring.latency_s * 1e3:.2f} ms of NCCL's cost model for {ring.ranks} ranks"
    size = bytes_text(ring.message_bytes)
    return Ceiling(
        value=ring.busbw_gbyte_s(bandwidth),
        unit="GB/s",
        basis=f"{bandwidth:.2f} GB/s by bandwidth ({basis}), less the {steps} at {size}",
        limited_by=limited_by,
    )

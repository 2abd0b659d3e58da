"""What NCCL can reach over the rails: from measured verbs where there are any, else from computed goodput."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from components.validation.physics.ceilings import Ceiling, nccl_ceiling_gbyte_s
from stacks.words import plural

Algorithm = Literal["Ring", "Tree", "NVLSTree"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Shape of a job."""

    nodes: int
    ranks: int
    """GPUs over all nodes."""
    algorithm: Algorithm | None = "Ring"
    """As pinned by NCCL_ALGO; None where NCCL chose for itself."""


def above_ring(job: Job) -> float:
    """By how much an algorithm that reduces within a node first can exceed the ring's busbw.

    It moves 2(N-1)/N of the data per node over the network, N nodes, while busbw assumes 2(n-1)/n, n ranks: 1.875
    for 2 nodes of 8 GPUs, 1.125 for 8 of them. Derived, not measured; with NCCL_ALGO=Ring it is 1.
    """
    if job.algorithm == "Ring" or job.nodes < 2:
        return 1.0
    return ((job.ranks - 1) / job.ranks) / ((job.nodes - 1) / job.nodes)


def nccl_ceiling(
    rails_gbit_s: Sequence[float],
    job: Job,
    *,
    measured: bool,
    verbs: str = "ib_write_bw",
    within_gbyte_s: float | None = None,
) -> Ceiling:
    """Largest busbw of an all-reduce, in 10^9 bytes a second.

    Args:
        rails_gbit_s: for each rail its verbs bandwidth, measured where it was, else the computed ceiling.
        job: shape of the job.
        measured: whether rails_gbit_s are measured; thresholds are stricter then.
        verbs: the test that measured them.
        within_gbyte_s: the least busbw that a node reached alone. The ring goes through every node, so that it is no
            faster than the slowest of them: on eight GPUs with 400 Gbit/s each, NVLink carries less than the rails.
    """
    factor = above_ring(job)
    source = f"measured {verbs}" if measured else "computed goodput"
    which = "" if factor == 1 else f", times {factor:.3f} as {job.algorithm or 'NCCL chose its algorithm, which'} may"
    rails_gbyte_s = nccl_ceiling_gbyte_s(rails_gbit_s) * factor
    basis = f"{source} of {plural(len(rails_gbit_s), 'rail')}{which}"
    if within_gbyte_s is not None and within_gbyte_s < rails_gbyte_s:
        less = f"ring of the slowest node alone; {basis} would be {rails_gbyte_s:.1f} GB/s"
        return Ceiling(value=within_gbyte_s, unit="GB/s", basis=less, limited_by="node")
    return Ceiling(
        value=rails_gbyte_s,
        unit="GB/s",
        basis=basis,
        limited_by="measured verbs" if measured else "line",
    )

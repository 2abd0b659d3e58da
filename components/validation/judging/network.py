"""What NCCL's own log tells of a slow or lucky network, as hints. Pure."""

from collections.abc import Iterator, Sequence

from components.validation.planning.plan import Plan
from components.validation.records import RunRecord
from components.validation.summary import Finding


def network_findings(plan: Plan, record: RunRecord) -> Iterator[Finding]:
    """Channels off their rail, GPUDirect that is not used, and an algorithm for which the ceiling is another one.

    A recorded log comes from other machines: nothing is found in it.
    """
    nccl = record.nccl
    if nccl and not nccl.replayed:
        yield from _used("nccl_all_reduce", nccl.off_rail, nccl.network.get("gpu_direct") if _asked(plan) else None)
        algorithm = nccl.network.get("algorithm")
        if algorithm is not None and algorithm != "Ring":
            yield Finding(
                code="ALGORITHM_NOT_PINNED",
                where="nccl_all_reduce",
                evidence=f"NCCL_ALGO is {algorithm}, and the ceiling is that of a ring",
                hint="other algorithms move less over the network, so that a broken rail can hide behind them",
            )
    told: set[tuple[str, str]] = set()
    for job in (job for job in record.jobs if not job.replayed):
        where = f"{job.program} {job.transport}"
        direct = job.details.get("gpu_direct") if _asked(plan, where) else None
        for finding in _used(where, job.off_rail, direct):
            if (finding.code, where) not in told:  # each transport of a comparison runs twice
                told.add((finding.code, where))
                yield finding


def _asked(plan: Plan, where: str = "") -> bool:
    """Whether NICs may read GPU memory by themselves in the all-reduce, or in the job over a transport."""
    if not where:
        return plan.nccl is not None and plan.nccl.gpu_direct
    return any(job.workers.gpu_direct for job in plan.jobs if job.workers and f"{job.program} {job.transport}" == where)


def _used(where: str, off_rail: Sequence[str], gpu_direct: object) -> Iterator[Finding]:
    if off_rail:
        yield Finding(
            code="WRONG_RAIL",
            where=where,
            evidence="; ".join(off_rail[:2]),
            hint="see in the job's log whether NCCL_IB_HCA lists the rails' devices in the same order on every node",
        )
    if gpu_direct in {"some", "none"}:
        yield Finding(
            code="GPUDIRECT_OFF",
            where=where,
            evidence=f"{'no channel' if gpu_direct == 'none' else 'only some channels'} over the network with GDRDMA",
            hint="look for nvidia_peermem or DMA-BUF on the hosts, and for a NIC and GPU under one PCIe switch",
        )

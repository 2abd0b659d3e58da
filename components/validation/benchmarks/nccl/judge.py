"""The verdict on the all-reduce: its busbw against what the rails carry, and faults that its log
shows. Pure.
"""

from collections.abc import Iterator

from components.finding import Finding
from components.physics.ceilings import Ceiling, Path, bandwidth_ceiling
from components.physics.nccl import Ring, nccl_ceiling
from components.physics.signs import GPUDIRECT_HINT
from components.validation.benchmarks.plan import Plan
from components.validation.records import (
    LogResult,
    NcclResult,
    RunRecord,
    median_of,
)
from components.validation.summary import (
    NOTHING,
    REPLAYED,
    SIMULATED,
    JudgedTest,
    counted,
    rate,
)
from stacks.benchmarks import Benchmarks


def judge_nccl(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> JudgedTest:
    """The all-reduce over all rails."""
    result = record.nccl or NcclResult(outcome="failed", reasons=("no result",))
    because = SIMULATED if record.simulated else NOTHING
    shown = counted("nccl_all_reduce", [result.outcome], 1, because, "GB/s")
    shown = shown.replace(median=result.busbw_gbyte_s)
    if result.replayed:
        return shown.replace(**REPLAYED)
    if record.simulated:
        return shown
    return _rated(plan, benchmarks, record, shown, result)


def _rated(
    plan: Plan, benchmarks: Benchmarks, record: RunRecord, shown: JudgedTest, result: NcclResult
) -> JudgedTest:
    if plan.nccl is None or benchmarks.nccl is None or result.busbw_gbyte_s is None:
        return shown
    ceiling = ceiling_of(plan, record)
    if ceiling is None:
        return shown.replace(because="none of its rails was measured or reports a line rate")
    _, measured = rails_gbit_s(plan, record)
    if measured:
        threshold = benchmarks.nccl.threshold_measured
    else:
        threshold = benchmarks.nccl.threshold
    ratio = result.busbw_gbyte_s / ceiling.value
    return shown.rated(rate(ratio, threshold), ceiling.value, ceiling.basis, ratio)


def ceiling_of(plan: Plan, record: RunRecord) -> Ceiling | None:
    """What a ring over all nodes can reach; None where no rail's bandwidth is known."""
    result = record.nccl
    rails, measured = rails_gbit_s(plan, record)
    if plan.nccl is None or result is None or not rails:
        return None
    # NCCL_ALGO=Ring is pinned, so each ring crosses each rail's NIC once
    alone = []
    for node in record.rings:
        if node.busbw_gbyte_s:
            alone.append(node.busbw_gbyte_s)
    vendors = sorted({host.cpu_vendor for host in record.hosts.values()})
    vendor = vendors[0] if len(vendors) == 1 else ""
    message_bytes = plan.nccl.largest_bytes
    if result.curve:
        message_bytes = result.curve[-1].message_bytes
    ring = Ring(
        nodes=len(plan.nccl.nodes),
        gpus_per_node=plan.nccl.gpus_per_node,
        message_bytes=message_bytes,
        cpu_vendor=vendor,
    )
    within = min(alone, default=None)
    return nccl_ceiling(
        rails, ring, measured=measured, verbs=plan.verbs.test, within_gbyte_s=within
    )


def rails_gbit_s(plan: Plan, record: RunRecord) -> tuple[list[float], bool]:
    """The bandwidth of each rail that NCCL uses, and whether it was measured; empty where it is
    unknown.
    """
    measured = _measured_gbit_s(plan, record)
    return measured or _computed_gbit_s(plan, record), bool(measured)


def _measured_gbit_s(plan: Plan, record: RunRecord) -> list[float]:
    """Median verbs bandwidth of each rail that NCCL uses; empty unless all have one."""
    stage = plan.main_stage
    if stage is None or plan.nccl is None:
        return []
    medians_of_rails = []
    for rail in plan.nccl.rails:
        medians_of_rails.append(median_of(record.transfers_of(stage.test, stage.shape, rail)))
    medians = [value for value in medians_of_rails if value]
    if len(medians) == len(medians_of_rails):
        return medians
    return []


def _computed_gbit_s(plan: Plan, record: RunRecord) -> list[float]:
    """Computed goodput of the slowest port of each rail of NCCL; empty unless all have one."""
    goodputs = []
    for name in plan.nccl.rails if plan.nccl else ():
        paths = set()
        for t in record.transfers:
            if t.rail == name and t.line_rate_gbit_s:
                path = Path(
                    line_rate_gbit_s=t.line_rate_gbit_s,
                    path_mtu_bytes=plan.rail(name).path_mtu_bytes,
                    pcie_gbit_s=t.pcie_gbit_s,
                    ports_on_slot=t.ports_on_slot,
                )
                paths.add(path)
        if not paths:
            return []
        goodputs.append(min(bandwidth_ceiling(path).value for path in paths))
    return goodputs


def nccl_reasons(record: RunRecord) -> Iterator[str]:
    """Why it is no pass; a recorded log needs no reason."""
    if record.nccl and not record.nccl.replayed:
        for reason in record.nccl.reasons:
            yield f"nccl_all_reduce {record.nccl.outcome}: {reason}"


def network_findings(plan: Plan, record: RunRecord) -> Iterator[Finding]:
    """Channels off their rail, unused GPUDirect, and an algorithm that the ceiling does not fit.

    A recorded log comes from other machines, so it yields no finding.
    """
    nccl = record.nccl
    if nccl and not nccl.replayed:
        direct = None
        if _asked(plan):
            direct = nccl.network.get("gpu_direct")
        yield from _used("nccl_all_reduce", nccl, direct)
        algorithm = nccl.network.get("algorithm")
        if algorithm is not None and algorithm != "Ring":
            yield Finding(
                code="ALGORITHM_NOT_PINNED",
                where="nccl_all_reduce",
                evidence=f"NCCL_ALGO is {algorithm}, but the ceiling is that of a ring",
                hint="other algorithms move less over the network, so that a broken rail can hide "
                "behind them",
            )
    by_place: dict[tuple[str, str], Finding] = {}
    for job in (job for job in record.jobs if not job.replayed):
        where = f"{job.program} {job.transport}"
        direct = None
        if _asked(plan, where):
            direct = job.details.get("gpu_direct")
        for finding in _used(where, job, direct):
            by_place.setdefault(
                (finding.code, where), finding
            )  # each transport of a comparison runs twice
    yield from by_place.values()


def _asked(plan: Plan, where: str = "") -> bool:
    """Whether the lab allows GPUDirect for the all-reduce, or for the job over a transport."""
    if not where:
        return plan.nccl is not None and plan.nccl.gpu_direct
    for job in plan.jobs:
        if job.workers and job.workers.gpu_direct and f"{job.program} {job.transport}" == where:
            return True
    return False


def _used(where: str, result: LogResult, gpu_direct: object) -> Iterator[Finding]:
    if result.off_rail:
        yield Finding(
            code="WRONG_RAIL",
            where=where,
            evidence="; ".join(result.off_rail[:2]),
            hint="see in the job's log whether NCCL_IB_HCA lists the rails' devices in the same "
            "order on every node",
        )
    if result.unchecked:
        yield Finding(
            code="RAILS_UNCHECKED",
            where=where,
            evidence=f"on {' and '.join(result.unchecked[:2])} channels use unnamed adapters",
            hint="NCCL fuses the ports of a NIC, and names them only in logs of up to 256 ranks: "
            "measure on fewer nodes, or set NCCL_IB_MERGE_NICS=0 in the image",
        )
    if gpu_direct in {"some", "none"}:
        yield Finding(
            code="GPUDIRECT_OFF",
            where=where,
            evidence=f"{'no channel' if gpu_direct == 'none' else 'only some channels'} over the "
            "network with GDRDMA",
            hint=GPUDIRECT_HINT,
        )

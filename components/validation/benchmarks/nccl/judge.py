"""The verdict on the all-reduce: its busbw against what the rails carry, and faults that its log shows. Pure."""

from collections.abc import Iterator, Sequence

from components.physics.ceilings import Ceiling, Path, bandwidth_ceiling, nccl_ceiling_gbyte_s
from components.validation.judging.states import NOTHING, SIMULATED, function_of_counts, rate
from components.validation.planning.plan import Plan
from components.validation.records import NcclResult, RunRecord, median_of, outcome_counts
from components.validation.summary import Finding, JudgedTest
from stacks.benchmarks import Benchmarks
from stacks.words import plural


def judge_nccl(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> JudgedTest:
    """The all-reduce over all rails."""
    result = record.nccl or NcclResult(outcome="failed", reasons=("no result",))
    counts = outcome_counts([result.outcome])
    shown = JudgedTest(
        test="nccl_all_reduce",
        shape="",
        rail=None,
        function="replayed" if result.replayed else function_of_counts(1, **counts),
        performance="not rated",
        because="replayed" if result.replayed else SIMULATED if record.simulated else NOTHING,
        median=result.busbw_gbyte_s,
        unit="GB/s",
        **counts,
    )
    if result.replayed or record.simulated or result.busbw_gbyte_s is None:
        return shown
    return _rated(plan, benchmarks, record, shown, result.busbw_gbyte_s)


def _rated(
    plan: Plan, benchmarks: Benchmarks, record: RunRecord, shown: JudgedTest, busbw_gbyte_s: float
) -> JudgedTest:
    if plan.nccl is None or benchmarks.nccl is None:
        return shown
    rails, measured = rails_gbit_s(plan, record)
    if not rails:
        return shown.model_copy(update={"because": "no rail that it runs over was measured, or reports its line rate"})
    # NCCL_ALGO=Ring is pinned, so each ring crosses each rail's NIC once
    alone = [ring.busbw_gbyte_s for ring in record.rings if ring.busbw_gbyte_s]
    ceiling = nccl_ceiling(rails, measured=measured, verbs=plan.verbs.test, within_gbyte_s=min(alone, default=None))
    threshold = benchmarks.nccl.threshold_measured if measured else benchmarks.nccl.threshold
    ratio = busbw_gbyte_s / ceiling.value
    return shown.model_copy(
        update={
            "performance": rate(ratio, threshold),
            "because": "",
            "ceiling": round(ceiling.value, 3),
            "basis": f"{ceiling.basis}{_largest(record.nccl, ceiling.value)}",
            "ratio": round(ratio, 4),
        }
    )


def _largest(nccl: NcclResult | None, ceiling_gbyte_s: float) -> str:
    """The row that guides quote, beside the median of all large ones that is judged."""
    if nccl is None or not nccl.curve or (largest := nccl.curve[-1].value) == nccl.busbw_gbyte_s:
        return ""
    return f"; its largest row alone, {largest:.2f} GB/s, is {largest / ceiling_gbyte_s:.1%} of that"


def rails_gbit_s(plan: Plan, record: RunRecord) -> tuple[list[float], bool]:
    """The bandwidth of each rail that NCCL uses, and whether it was measured; empty where it is unknown."""
    measured = _measured_gbit_s(plan, record)
    return measured or _computed_gbit_s(plan, record), bool(measured)


def _measured_gbit_s(plan: Plan, record: RunRecord) -> list[float]:
    """Median verbs bandwidth of each rail that NCCL uses; empty unless all have one."""
    stage = plan.main_stage
    if stage is None or plan.nccl is None:
        return []
    found = [median_of(record.transfers_of(stage.test, stage.shape, rail)) for rail in plan.nccl.rails]
    medians = [value for value in found if value]
    return medians if len(medians) == len(found) else []


def _computed_gbit_s(plan: Plan, record: RunRecord) -> list[float]:
    """Computed goodput of the slowest port of each rail that NCCL uses; empty unless all rails have one."""
    found = []
    for name in plan.nccl.rails if plan.nccl else ():
        mtu_bytes = plan.rail(name).path_mtu_bytes
        ports = {
            Path(
                line_rate_gbit_s=t.line_rate_gbit_s,
                path_mtu_bytes=mtu_bytes,
                pcie_gbit_s=t.pcie_gbit_s,
                ports_on_slot=t.ports_on_slot,
            )
            for t in record.transfers
            if t.rail == name and t.line_rate_gbit_s
        }
        ceilings = [bandwidth_ceiling(path).value for path in ports]
        if not ceilings:
            return []
        found.append(min(ceilings))
    return found


def nccl_ceiling(
    rails_gbit_s: Sequence[float],
    *,
    measured: bool,
    verbs: str = "ib_write_bw",
    within_gbyte_s: float | None = None,
) -> Ceiling:
    """Largest busbw of an all-reduce, in 10^9 bytes a second.

    Args:
        rails_gbit_s: the verbs bandwidth of each rail, measured or computed.
        measured: whether they are measured; thresholds are stricter then.
        verbs: the test that measured them.
        within_gbyte_s: the least busbw that a node reached alone. The ring goes through every node, so it is no faster
            than the slowest node: on eight GPUs with 400 Gbit/s each, NVLink carries less than the rails.
    """
    rails_gbyte_s = nccl_ceiling_gbyte_s(rails_gbit_s)
    basis = f"{f'measured {verbs}' if measured else 'computed goodput'} of {plural(len(rails_gbit_s), 'rail')}"
    if within_gbyte_s is not None and within_gbyte_s < rails_gbyte_s:
        less = f"ring of the slowest node alone; {basis} would be {rails_gbyte_s:.1f} GB/s"
        return Ceiling(value=within_gbyte_s, unit="GB/s", basis=less, limited_by="node")
    return Ceiling(
        value=rails_gbyte_s,
        unit="GB/s",
        basis=basis,
        limited_by="measured verbs" if measured else "line",
    )


def nccl_reasons(record: RunRecord) -> Iterator[str]:
    """Why it is no pass; a recorded log needs no reason."""
    if record.nccl and not record.nccl.replayed:
        yield from (f"nccl_all_reduce {record.nccl.outcome}: {reason}" for reason in record.nccl.reasons)


def network_findings(plan: Plan, record: RunRecord) -> Iterator[Finding]:
    """Channels off their rail, unused GPUDirect, and an algorithm that the ceiling does not fit.

    A recorded log comes from other machines, so it yields no finding.
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
    by_place: dict[tuple[str, str], Finding] = {}
    for job in (job for job in record.jobs if not job.replayed):
        where = f"{job.program} {job.transport}"
        direct = job.details.get("gpu_direct") if _asked(plan, where) else None
        for finding in _used(where, job.off_rail, direct):
            by_place.setdefault((finding.code, where), finding)  # each transport of a comparison runs twice
    yield from by_place.values()


def _asked(plan: Plan, where: str = "") -> bool:
    """Whether the lab allows GPUDirect for the all-reduce, or for the job over a transport."""
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

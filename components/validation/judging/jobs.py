"""The judgement over jobs: NCCL against what the rails measured, applications and transports side by side."""

from collections import Counter
from collections.abc import Iterator
from statistics import fmean, median

from components.validation.judging.levels import main_stage
from components.validation.judging.states import NOTHING, SHOWN_ONLY, SIMULATED, function_of_counts, rate
from components.validation.physics.ceilings import Path, bandwidth_ceiling
from components.validation.physics.nccl import Job, nccl_ceiling
from components.validation.planning.jobs import in_turn
from components.validation.planning.plan import Plan
from components.validation.records import JobResult, NcclResult, Outcome, RunRecord
from components.validation.summary import Finding, Function, JudgedTest
from stacks.benchmarks import Benchmarks
from stacks.words import plural

REPLAYED = "replayed"
FUNCTIONS: dict[Outcome, Function] = {"measured": "pass", "failed": "fail", "skipped": "skip", "error": "error"}


def judge_nccl(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> JudgedTest:
    """The all-reduce over all rails."""
    result = record.nccl or NcclResult(outcome="failed", reasons=("no result",))
    shown = JudgedTest(
        test="nccl_all_reduce",
        shape="",
        rail=None,
        function="replayed" if result.replayed else FUNCTIONS[result.outcome],
        performance="not rated",
        because=REPLAYED if result.replayed else SIMULATED if record.simulated else NOTHING,
        median=result.busbw_gbyte_s,
        unit="GB/s",
        measured=int(result.outcome == "measured"),
        failed=int(result.outcome == "failed"),
        skipped=int(result.outcome == "skipped"),
        errors=int(result.outcome == "error"),
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
        return shown.model_copy(update={"because": "no rail that it runs over was measured, or tells its line rate"})
    # NCCL_ALGO=Ring is pinned, so each ring crosses each rail's NIC once
    ranks = len(plan.nccl.nodes)
    job = Job(nodes=len(plan.nccl.nodes), ranks=ranks)
    alone = [ring.busbw_gbyte_s for ring in record.rings if ring.busbw_gbyte_s]
    ceiling = nccl_ceiling(
        rails, job, measured=measured, verbs=plan.verbs.test, within_gbyte_s=min(alone, default=None)
    )
    threshold = benchmarks.nccl.threshold_measured if measured else benchmarks.nccl.threshold
    ratio = busbw_gbyte_s / ceiling.value
    return shown.model_copy(
        update={
            "performance": rate(ratio, threshold),
            "because": "",
            "ceiling": round(ceiling.value, 3),
            "basis": f"{ceiling.basis}{_largest(record, ceiling.value)}",
            "ratio": round(ratio, 4),
        }
    )


def _largest(record: RunRecord, ceiling_gbyte_s: float) -> str:
    """The row that guides quote, beside the median of all large ones that is judged."""
    largest = record.nccl.largest_busbw_gbyte_s if record.nccl else None
    if largest is None or record.nccl is None or largest == record.nccl.busbw_gbyte_s:
        return ""
    return f"; its largest row alone, {largest:.2f} GB/s, is {largest / ceiling_gbyte_s:.1%} of that"


def rails_gbit_s(plan: Plan, record: RunRecord) -> tuple[list[float], bool]:
    """What each rail of NCCL's carries, and whether that was measured; empty where nobody knows."""
    measured = _measured_gbit_s(plan, record)
    return measured or _computed_gbit_s(plan, record), bool(measured)


def _measured_gbit_s(plan: Plan, record: RunRecord) -> list[float]:
    """Median verbs bandwidth of each rail that NCCL uses; empty unless all have one."""
    stage = main_stage(plan)
    if stage is None or plan.nccl is None:
        return []
    found = [record.series_of(stage.test, stage.shape, rail) for rail in plan.nccl.rails]
    medians = [series.median for series in found if series and series.median]
    return medians if len(medians) == len(plan.nccl.rails) else []


def _computed_gbit_s(plan: Plan, record: RunRecord) -> list[float]:
    """Computed goodput of each rail that NCCL uses: of its slowest port, as any transfer told; empty unless all did."""
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


def judge_jobs(plan: Plan, record: RunRecord) -> Iterator[JudgedTest]:
    """The jobs of comparisons and applications, all runs of one over one transport together.

    They are judged by whether they ran: what they should reach nobody can compute.
    """
    # each transport of a comparison runs there and back
    planned: Counter[tuple[str, str]] = Counter((job.program, job.transport) for job in in_turn(plan.jobs))
    for key in dict.fromkeys((*planned, *((job.program, job.transport) for job in record.jobs))):
        jobs = [job for job in record.jobs if (job.program, job.transport) == key]
        yield _several(key, jobs, planned[key] or len(jobs), simulated=record.simulated)


def _several(key: tuple[str, str], jobs: list[JobResult], planned: int, *, simulated: bool) -> JudgedTest:
    count = Counter(job.outcome for job in jobs)
    values = [job.value for job in jobs if job.value is not None]
    replayed = any(job.replayed for job in jobs)
    outcomes = {"measured": count["measured"], "failed": count["failed"], "skipped": count["skipped"]}
    return JudgedTest(
        test=key[0],
        shape=key[1],
        rail=None,
        function="replayed" if replayed else function_of_counts(planned, errors=count["error"], **outcomes),
        performance="not rated",
        because=REPLAYED if replayed else SIMULATED if simulated else SHOWN_ONLY,
        median=median(values) if values else None,
        unit=jobs[0].unit if jobs else "",
        errors=count["error"],
        **outcomes,
    )


def job_findings(record: RunRecord) -> Iterator[Finding]:
    """What jobs tell beside their value: outliers by name, and a transport that is none. Replayed logs tell nothing."""
    if record.nccl and record.nccl.transport == "socket" and not record.nccl.replayed:
        yield Finding(
            code="SOCKET_FALLBACK",
            where="nccl_all_reduce",
            evidence="NCCL's log says NET/Socket",
            hint="look at NCCL_DEBUG's lines: no RDMA device in the pods, a GID index without an address, or memlock",
        )
    for job in record.jobs:
        if job.dropped and job.value is not None and not job.replayed:
            mean = fmean(job.samples)
            yield Finding(
                code="OUTLIERS",
                where=f"{job.program} {job.transport}",
                evidence=f"mean {mean:.1f} {job.unit} over {plural(len(job.samples), 'iteration')}; "
                f"{' and '.join(f'{value:g}' for value in job.dropped)} are outliers, "
                f"without them the median is {job.value:.1f}",
                hint="single slow iterations come from other work on the node: data loading, clocks, another job",
            )

"""The verdict on jobs over several transports and on applications: did they run, and what does RDMA
gain? Pure.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean, median

from components.finding import Finding
from components.validation.benchmarks.jobs.plan import in_turn
from components.validation.benchmarks.plan import Plan
from components.validation.records import JobResult, RunRecord, outcome_counts
from components.validation.repeats import interval_of_ratio, repeats
from components.validation.summary import (
    REPLAYED,
    SHOWN_ONLY,
    SIMULATED,
    JudgedTest,
    function_of_counts,
    unrated,
)
from stacks.frozen import frozen
from stacks.words import plural


def judge_jobs(plan: Plan, record: RunRecord) -> Iterator[JudgedTest]:
    """One test per program and transport, over all its runs.

    Jobs are judged only by whether they ran, since no ceiling can be computed for them.
    """
    # each transport of a comparison runs twice
    planned: Counter[tuple[str, str]] = Counter(
        (job.program, job.transport) for job in in_turn(plan.jobs)
    )
    for program, transport in dict.fromkeys(
        (*planned, *((job.program, job.transport) for job in record.jobs))
    ):
        jobs = [job for job in record.jobs if (job.program, job.transport) == (program, transport)]
        values = [job.value for job in jobs if job.value is not None]
        expected = planned[program, transport] or len(jobs)
        counts = outcome_counts(job.outcome for job in jobs)
        typical = median(values) if values else None
        unit = jobs[0].unit if jobs else ""
        because = SIMULATED if record.simulated else SHOWN_ONLY
        function = function_of_counts(expected, **counts)
        values_of_test = {"shape": transport, "median": typical, "unit": unit, **counts}
        shown = unrated(program, function, because, **values_of_test)
        if any(job.replayed for job in jobs):
            shown = shown.replace(**REPLAYED)
        yield shown


def job_reasons(record: RunRecord) -> Iterator[str]:
    """Why jobs are no pass; a recorded log needs no reason."""
    for job in record.jobs:
        if not job.replayed:
            for reason in job.reasons:
                yield f"{job.program} {job.transport} {job.outcome}: {reason}"


def job_findings(record: RunRecord) -> Iterator[Finding]:
    """Outliers of jobs, and NCCL over sockets. Replayed logs yield no finding."""
    if record.nccl and record.nccl.transport == "socket" and not record.nccl.replayed:
        yield Finding(
            code="SOCKET_FALLBACK",
            where="nccl_all_reduce",
            evidence="NCCL's log says NET/Socket",
            hint="check NCCL_DEBUG's lines for a missing RDMA device in the pods, a GID index "
            "without address, or memlock",
        )
    for job in record.jobs:
        if job.dropped and job.value is not None and not job.replayed:
            mean = fmean(job.samples)
            yield Finding(
                code="OUTLIERS",
                where=f"{job.program} {job.transport}",
                evidence=f"mean {mean:.1f} {job.unit} over "
                f"{plural(len(job.samples), 'iteration')}; "
                f"{' and '.join(f'{value:g}' for value in job.dropped)} are outliers, "
                f"without them the median is {job.value:.1f}",
                hint="single slow iterations come from other work on the node: data loading, "
                "clocks, another job",
            )


TRANSPORTS = ("roce", "tcp", "host")
FAST_GBIT_S = 100.0
SUSPICIOUS = 1.2
"""From 100 Gbit/s up NCCL over RDMA is at least twice as fast as over TCP; below this factor it is
not RDMA."""
OVERHEAD = 0.97
"""In the DeepOps RoCE guide VFs in pods are as fast as the hosts' own ports; below this share of it
is overhead."""


@frozen
class TransportComparison:
    """One program over several transports, by medians over all their runs without outliers."""

    program: str
    unit: str
    roce: float
    tcp: float | None = None
    host: float | None = None
    speedup: float | None = None
    speedup_interval: tuple[float, float] | None = None
    """95 %, by bootstrap; None with fewer than five values on a side."""
    sriov_overhead_percent: float | None = None
    """How much slower RoCE in pods is than the hosts' own network; negative where it is faster."""

    @property
    def sriov_costs(self) -> bool | None:
        """Whether VFs cost more than the 3 % by which runs differ anyway."""
        if self.host is None:
            return None
        return self.roce / self.host < OVERHEAD


def comparisons(jobs: Sequence[JobResult]) -> list[TransportComparison]:
    """Every program that ran over RoCE and over another transport; replayed logs are not
    compared.
    """
    compared = []
    for program in dict.fromkeys(job.program for job in jobs):
        samples: dict[str, list[float]] = {transport: [] for transport in TRANSPORTS}
        unit = ""
        for job in jobs:
            if job.program == program and job.outcome == "measured" and not job.replayed:
                samples[job.transport] += job.samples
                unit = job.unit
        medians = {}
        for name, values in samples.items():
            if values:
                medians[name] = repeats(values).median
        if "roce" in medians and len(medians) > 1:
            compared.append(_comparison(program, unit, samples, medians))
    return compared


def _comparison(
    program: str, unit: str, samples: dict[str, list[float]], medians: dict[str, float]
) -> TransportComparison:
    roce, tcp, host = medians["roce"], medians.get("tcp"), medians.get("host")
    speedup = roce / tcp if tcp else None
    overhead_percent = (1 - roce / host) * 100 if host else None
    return TransportComparison(
        program=program,
        unit=unit,
        roce=roce,
        tcp=tcp,
        host=host,
        speedup=speedup,
        speedup_interval=interval_of_ratio(samples["roce"], samples["tcp"]),
        sriov_overhead_percent=overhead_percent,
    )


def comparison_findings(record: RunRecord) -> Iterator[Finding]:
    """RoCE that is suspiciously slow compared with another transport; never in the simulator."""
    if record.simulated:
        return
    lines = []
    for transfer in record.transfers:
        if transfer.line_rate_gbit_s:
            lines.append(transfer.line_rate_gbit_s)
    for compared in comparisons(record.jobs):
        slow = compared.speedup is not None and compared.speedup < SUSPICIOUS
        if compared.program == "nccl_all_reduce" and slow and lines and min(lines) >= FAST_GBIT_S:
            yield Finding(
                code="SOCKET_FALLBACK",
                where="nccl_all_reduce roce",
                evidence=f"{compared.roce:.2f} {compared.unit} over RoCE is "
                f"{compared.speedup:.2f} times TCP at {min(lines):g} Gbit/s",
                hint="read the job's log for NET/IB and GDRDMA; RDMA is twice as fast as TCP at "
                "this rate",
            )
        if compared.sriov_costs:
            yield Finding(
                code="SRIOV_OVERHEAD",
                where=f"{compared.program} roce",
                evidence=f"{compared.roce:.2f} {compared.unit} in pods, {compared.host:.2f} "
                f"in the hosts' own network: {compared.sriov_overhead_percent:.1f} % less",
                hint="compare MTU, GID index and NUMA node of VF and PF, and whether GPUDirect is "
                "on in both logs",
            )

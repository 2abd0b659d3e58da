"""The verdict on jobs over several transports and on applications: did they run, and what does RDMA gain? Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from components.finding import Finding
from components.validation.benchmarks.jobs.plan import in_turn
from components.validation.benchmarks.plan import Plan
from components.validation.records import JobResult, RunRecord, outcome_counts
from components.validation.statistics import interval_of_ratio, repeats
from components.validation.summary import SHOWN_ONLY, SIMULATED, JudgedTest, function_of_counts
from stacks.words import plural


def judge_jobs(plan: Plan, record: RunRecord) -> Iterator[JudgedTest]:
    """One test per program and transport, over all its runs.

    Jobs are judged only by whether they ran, since no ceiling can be computed for them.
    """
    # each transport of a comparison runs twice
    planned: Counter[tuple[str, str]] = Counter((job.program, job.transport) for job in in_turn(plan.jobs))
    for program, transport in dict.fromkeys((*planned, *((job.program, job.transport) for job in record.jobs))):
        jobs = [job for job in record.jobs if (job.program, job.transport) == (program, transport)]
        values = [job.value for job in jobs if job.value is not None]
        replayed = any(job.replayed for job in jobs)
        counts = outcome_counts(job.outcome for job in jobs)
        expected = planned[program, transport] or len(jobs)
        yield JudgedTest(
            test=program,
            shape=transport,
            rail=None,
            function="replayed" if replayed else function_of_counts(expected, **counts),
            performance="not rated",
            because="replayed" if replayed else SIMULATED if record.simulated else SHOWN_ONLY,
            median=median(values) if values else None,
            unit=jobs[0].unit if jobs else "",
            **counts,
        )


def job_reasons(record: RunRecord) -> Iterator[str]:
    """Why jobs are no pass; a recorded log needs no reason."""
    for job in record.jobs:
        if not job.replayed:
            yield from (f"{job.program} {job.transport} {job.outcome}: {reason}" for reason in job.reasons)


def job_findings(record: RunRecord) -> Iterator[Finding]:
    """Outliers of jobs, and NCCL over sockets. Replayed logs yield no finding."""
    if record.nccl and record.nccl.transport == "socket" and not record.nccl.replayed:
        yield Finding(
            code="SOCKET_FALLBACK",
            where="nccl_all_reduce",
            evidence="NCCL's log says NET/Socket",
            hint="check NCCL_DEBUG's lines: no RDMA device in the pods, a GID index without an address, or memlock",
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


TRANSPORTS = ("roce", "tcp", "host")
FAST_GBIT_S = 100.0
SUSPICIOUS = 1.2
"""From 100 Gbit/s up NCCL over RDMA is at least twice as fast as over TCP; below this factor it is not RDMA."""
OVERHEAD = 0.97
"""In the DeepOps RoCE guide VFs in pods are as fast as the hosts' own ports; below this share of it is overhead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TransportComparison:
    """One program over several transports, by medians over all their runs without outliers."""

    program: str
    unit: str
    roce: float
    tcp: float | None = None
    host: float | None = None
    speedup: float | None = None
    """RoCE over TCP."""
    speedup_interval: tuple[float, float] | None = None
    """95 %, by bootstrap; None with fewer than five values on a side."""
    sriov_overhead_percent: float | None = None
    """How much slower RoCE in pods is than the hosts' own network; negative where it is faster."""

    @property
    def sriov_costs(self) -> bool | None:
        """Whether VFs cost more than the 3 % by which runs differ anyway."""
        return None if self.host is None else self.roce / self.host < OVERHEAD


def comparisons(jobs: Sequence[JobResult]) -> list[TransportComparison]:
    """Every program that ran over RoCE and over another transport; replayed logs are not compared."""
    found: list[TransportComparison] = []
    for program in dict.fromkeys(job.program for job in jobs):
        runs = [job for job in jobs if (job.program, job.outcome, job.replayed) == (program, "measured", False)]
        samples = {name: [v for job in runs if job.transport == name for v in job.samples] for name in TRANSPORTS}
        medians = {transport: repeats(values).median for transport, values in samples.items() if values}
        roce, tcp, host = (medians.get(transport) for transport in TRANSPORTS)
        if roce is None or (tcp is None and host is None):
            continue
        found.append(
            TransportComparison(
                program=program,
                unit=runs[0].unit,
                roce=roce,
                tcp=tcp,
                host=host,
                speedup=roce / tcp if tcp else None,
                speedup_interval=interval_of_ratio(samples["roce"], samples["tcp"]),
                sriov_overhead_percent=(1 - roce / host) * 100 if host else None,
            )
        )
    return found


def comparison_findings(record: RunRecord) -> Iterator[Finding]:
    """RoCE that is suspiciously slow compared with another transport; never in the simulator."""
    if record.simulated:
        return
    lines = [transfer.line_rate_gbit_s for transfer in record.transfers if transfer.line_rate_gbit_s]
    for one in comparisons(record.jobs):
        slow = one.speedup is not None and one.speedup < SUSPICIOUS
        if one.program == "nccl_all_reduce" and slow and lines and min(lines) >= FAST_GBIT_S:
            yield Finding(
                code="SOCKET_FALLBACK",
                where="nccl_all_reduce roce",
                evidence=f"{one.roce:.2f} {one.unit} over RoCE is {one.speedup:.2f} times TCP at {min(lines):g} Gbit/s",
                hint="read the job's log for NET/IB and GDRDMA; RDMA is twice as fast as TCP at this rate",
            )
        if one.sriov_costs:
            yield Finding(
                code="SRIOV_OVERHEAD",
                where=f"{one.program} roce",
                evidence=f"{one.roce:.2f} {one.unit} in pods, {one.host:.2f} in the hosts' own network: "
                f"{one.sriov_overhead_percent:.1f} % less",
                hint="compare MTU, GID index and NUMA node of VF and PF, and whether GPUDirect is on in both logs",
            )

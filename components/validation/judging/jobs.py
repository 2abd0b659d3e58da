"""The verdict on comparisons of transports and on applications: whether they ran, and what a transport gains. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from components.validation.judging.states import SHOWN_ONLY, SIMULATED, function_of_counts
from components.validation.judging.statistics import interval_of_ratio, repeats
from components.validation.planning.jobs import in_turn
from components.validation.planning.plan import Plan
from components.validation.records import JobResult, Outcome, RunRecord
from components.validation.summary import Finding, Function, JudgedTest
from stacks.words import plural

FUNCTIONS: dict[Outcome, Function] = {"measured": "pass", "failed": "fail", "skipped": "skip", "error": "error"}


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
        because="replayed" if replayed else SIMULATED if simulated else SHOWN_ONLY,
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


FAST_GBIT_S = 100.0
SUSPICIOUS = 1.2
"""From 100 Gbit/s up NCCL over RDMA is at least twice as fast as over TCP; less than this is no RDMA."""
OVERHEAD = 0.97
"""Seed A: virtual functions in pods are as fast as the hosts' own ports; less than this share of it is overhead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
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
    """What RoCE in pods lacks to the hosts' own network; below 0 where it is faster."""

    @property
    def sriov_costs(self) -> bool | None:
        """Whether virtual functions cost more than the 3 % that runs differ by anyway."""
        return None if self.host is None else self.roce / self.host < OVERHEAD


def comparisons(jobs: Sequence[JobResult]) -> list[Comparison]:
    """Every program that ran over RoCE and over another transport; recorded logs are compared with nothing."""
    found = (_of(program, jobs) for program in dict.fromkeys(job.program for job in jobs))
    return [comparison for comparison in found if comparison]


def _of(program: str, jobs: Sequence[JobResult]) -> Comparison | None:
    samples = {transport: _samples(jobs, program, transport) for transport in ("roce", "tcp", "host")}
    if not samples["roce"] or not (samples["tcp"] or samples["host"]):
        return None
    middle = {transport: repeats(values).median for transport, values in samples.items() if values}
    roce, tcp, host = middle["roce"], middle.get("tcp"), middle.get("host")
    return Comparison(
        program=program,
        unit=next(job.unit for job in jobs if job.program == program),
        roce=roce,
        tcp=tcp,
        host=host,
        speedup=roce / tcp if tcp else None,
        speedup_interval=interval_of_ratio(samples["roce"], samples["tcp"]),
        sriov_overhead_percent=(1 - roce / host) * 100 if host else None,
    )


def _samples(jobs: Sequence[JobResult], program: str, transport: str) -> list[float]:
    return [
        value
        for job in jobs
        if (job.program, job.transport, job.outcome) == (program, transport, "measured") and not job.replayed
        for value in job.samples
    ]


def comparison_findings(record: RunRecord) -> Iterator[Finding]:
    """What a comparison makes suspect; nothing in the simulator, whose speeds are nobody's."""
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

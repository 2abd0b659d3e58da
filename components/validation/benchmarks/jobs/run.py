"""Runs the jobs of a comparison and of an application in turn, and reads each one's log."""

import re
from collections.abc import Sequence

from components.jobs.workers import Transport
from components.validation.benchmarks.jobs.plan import (
    ALL_REDUCE,
    MPI_ALL_REDUCE,
    PlannedJob,
    in_turn,
)
from components.validation.benchmarks.nccl.log import parse_nccl_log
from components.validation.benchmarks.nccl.run import (
    ROTATED,
    curve_of,
    faults_of_table,
    missing_sizes,
    network_details,
    rails_of_channels,
    wrong_values,
)
from components.validation.benchmarks.nccl.table import NcclTable, lost_its_beginning, parse_nccl
from components.validation.benchmarks.training import training_benchmark
from components.validation.mpijobs import NO_KUBECONFIG, ClusterRun, FinishedJob, JobToRun, run_job
from components.validation.parsers import lines_of
from components.validation.records import JobResult, Outcome, outcome_of
from components.validation.repeats import repeats

IMAGE_OF = {ALL_REDUCE: "benchmark", MPI_ALL_REDUCE: "mpi"}
NO_RECORDING = "the nodes show recorded logs, but there is none for this job"


def run_jobs(jobs: Sequence[PlannedJob], cluster: ClusterRun) -> tuple[JobResult, ...]:
    """Runs every job in its turn; whatever happens is a result. Blocks: call it in a thread."""
    results = []
    for turn, job in enumerate(in_turn(jobs), 1):
        result = _run(job, turn, cluster)
        results.append(result)
        shown = result.shown(result.value, result.unit)
        cluster.say(f"{job.program} over {job.transport} {shown}")
    return tuple(results)


def _run(job: PlannedJob, turn: int, cluster: ClusterRun) -> JobResult:
    if job.workers is None:
        return not_run(job, "skipped", "")
    if cluster.stop.is_set():
        return not_run(job, "skipped", "the run was stopped")
    if cluster.lacks(job.workers):
        return not_run(job, "skipped", NO_KUBECONFIG)
    name, log_name = job.job_name(cluster.run_id, turn), f"{job.name}.{turn}.log"
    result = run_job(
        cluster,
        JobToRun(
            name=name,
            what=job.name,
            workers=job.workers,
            program=job.mpi_program(job.workers),
            log_name=log_name,
            image=IMAGE_OF.get(job.program, "training"),
            read=lambda finished: _read(job, finished),
            # not replayed: the operator really ran the job, even if the log is a recording
            failed=lambda reason: not_run(job, "failed", reason),
            sound=lambda result: result.outcome != "failed" or bool(result.samples),
        ),
    )
    raw = log_name if log_name in cluster.raw else ""
    return result.replace(job=name, raw=raw)


def _read(job: PlannedJob, finished: FinishedJob) -> JobResult:
    if finished.replayed and not finished.log.strip():
        return not_run(job, "skipped", NO_RECORDING)
    return read_job(job, finished.log, replayed=finished.replayed)


def read_job(job: PlannedJob, log: str, *, replayed: bool) -> JobResult:
    """The numbers of a log.

    Raises:
        ResultFormatError: when it gives none.
    """
    if job.program not in IMAGE_OF:
        ranks = job.workers.ranks if job.workers else 1
        reading = training_benchmark(job.program).read(log, ranks)
        result = _measured(job, reading.samples, [], replayed=replayed)
        return result.replace(details=reading.details)
    if not replayed and lost_its_beginning(log):
        return not_run(job, "error", ROTATED)
    table = parse_nccl(log)
    update: dict[str, object] = {"curve": curve_of(table)}
    if job.program == MPI_ALL_REDUCE:
        lanes = lanes_between_nodes(log)
        faults = faults_of_mpi(table, log, job.transport, job.largest_bytes)
        update["details"] = {"lanes": ", ".join(lanes), "ranks": table.ranks}
    else:
        network = parse_nccl_log(log)
        faults = faults_of_table(table, network, job.transport, job.largest_bytes)
        update |= {"details": network_details(network), **rails_of_channels(network)}
    if replayed:
        # a recorded log comes from other machines, so it cannot contradict this lab's plan
        faults = []
    samples = tuple(row.out_of_place.busbw_gbyte_s for row in table.large)
    return _measured(job, samples, faults, replayed=replayed).replace(**update)


def _measured(
    job: PlannedJob, samples: tuple[float, ...], faults: list[str], *, replayed: bool
) -> JobResult:
    several = repeats(samples)
    return JobResult(
        program=job.program,
        transport=job.transport,
        outcome=outcome_of(faults),
        reasons=tuple(faults),
        replayed=replayed,
        unit=job.unit,
        samples=samples,
        dropped=several.dropped,
        value=round(several.median, 4),
    )


def without_a_run(
    jobs: Sequence[PlannedJob], outcome: Outcome, reason: str
) -> tuple[JobResult, ...]:
    """The same outcome for each job in its turn, except for impossible jobs."""
    return tuple(not_run(job, outcome, reason) for job in in_turn(jobs))


def not_run(job: PlannedJob, outcome: Outcome, reason: str) -> JobResult:
    """A result without a number."""
    if job.workers is None:
        outcome, reason = "skipped", job.impossible
    return JobResult(
        program=job.program,
        transport=job.transport,
        outcome=outcome,
        reasons=(reason,),
        unit=job.unit,
    )


_CONNECTION = re.compile(r"UCX\s+INFO\s.*cfg(?:#\d+|\[\d+\]:) (?P<lanes>.*)$")
"""UCX's line of a connection: `ep_cfg[1]: tag(rc_verbs/rxe0:1)` up to 1.13, `inter-node cfg#1
tag(rc_mlx5/mlx5_0:1)` later."""
_LANE = re.compile(r"\b(?P<transport>[a-z0-9_]+)/(?P<device>[A-Za-z0-9_.-]+(?::\d+)?)")
_LEFT_OUT = re.compile(
    r"^\[[\d.]+\] \[(?P<host>[\w.-]+):.*UCX\s+WARN\s+network devices? (?P<devices>'\S+') "
    r"(?:is|are) not available"
)
WITHIN_NODE = frozenset({"self", "sysv", "posix", "cma", "knem", "xpmem", "mm"})
"""Transports that leave no node."""


def lanes_between_nodes(text: str) -> tuple[str, ...]:
    """Transport and device of each lane between nodes, such as `rc_verbs/rxe0:1`, each once."""
    lanes: dict[str, None] = {}
    for line in lines_of(text):
        connection = _CONNECTION.search(line.text)
        if connection:
            for lane in _LANE.finditer(connection["lanes"]):
                if lane["transport"] not in WITHIN_NODE:
                    lanes[lane[0]] = None
    return tuple(lanes)


def devices_left_out(text: str) -> tuple[str, ...]:
    """Devices that a rank should use and could not, with its host: UCX only warns, and uses the
    others.
    """
    devices: dict[str, None] = {}
    for line in lines_of(text):
        left = _LEFT_OUT.search(line.text)
        if left:
            for device in re.findall(r"'([^']+)'", left["devices"]):
                devices[f"{device} on {left['host']}"] = None
    return tuple(devices)


def faults_of_mpi(
    table: NcclTable, log: str, transport: Transport, largest_bytes: int | None
) -> list[str]:
    """Contradictions between a log and its job; empty if all ranks reduced over its transport and
    devices.
    """
    faults, lanes = list(wrong_values(table, "memory or transport")), lanes_between_nodes(log)
    if left_out := devices_left_out(log):
        faults.append(f"UCX could not use {', '.join(left_out)}: check the link of that interface")
    prefix, words = ("tcp/", "TCP") if transport == "tcp" else ("rc", "RDMA (rc)")
    other = [lane for lane in lanes if not lane.startswith(prefix)]
    if other or not lanes:
        reported = ", ".join(other) or "no lane between nodes"
        faults.append(f"UCX reported {reported} instead of {words}")
    return [*faults, *missing_sizes(table, largest_bytes)]

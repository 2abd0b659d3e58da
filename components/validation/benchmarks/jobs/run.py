"""Runs the jobs of a comparison and of an application one after the other, and reads each one's log."""

import re
import threading
from collections.abc import Sequence

from components.jobs.workers import Transport
from components.kubernetes.client import KubernetesApi
from components.validation import Say
from components.validation.benchmarks.jobs.plan import ALL_REDUCE, MPI_ALL_REDUCE, PlannedJob, in_turn
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
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.training import training_benchmark
from components.validation.cluster import evidence_of, refuse_missing_image
from components.validation.mpijobs import JobError, MpiJobs
from components.validation.parsers import lines_of
from components.validation.records import JobResult, Outcome
from components.validation.statistics import repeats
from stacks.base import LabError

IMAGE_OF = {ALL_REDUCE: "benchmark", MPI_ALL_REDUCE: "mpi"}
"""The image of each collective; a training has the other one."""
NO_RECORDING = "the nodes show recorded logs, but there is none for this job"


def run_jobs(
    plan: Plan, run_id: str, kubeconfig: str, say: Say, stop: threading.Event
) -> tuple[list[JobResult], dict[str, str]]:
    """Runs every job in its turn; whatever happens is a result. Blocks: call it in a thread.

    Returns:
        The results in their order, and the launchers' logs by name.
    """
    results: list[JobResult] = []
    raw: dict[str, str] = {}
    try:
        with KubernetesApi(kubeconfig) as api:
            _sweep(api, plan, say)
            for turn, job in enumerate(in_turn(plan.jobs), 1):
                result, log = _turn(api, plan, job, (run_id, turn), say, stop, raw)
                if log:
                    raw[name := f"{job.name}.{turn}.log"] = log
                    result = result.model_copy(update={"raw": name})
                results.append(result)
                shown = f"{result.value:.2f} {result.unit}" if result.value is not None else "; ".join(result.reasons)
                outcome = f"{result.outcome}{' (replayed)' if result.replayed else ''}"
                say(f"{job.program} over {job.transport} {outcome}: {shown}")
    except LabError as error:
        return without_a_run(plan.jobs, "failed", str(error)), {}
    return results, raw


def _sweep(api: KubernetesApi, plan: Plan, say: Say) -> None:
    """Deletes the jobs of a killed run, whose workers would hold the GPUs that these jobs need."""
    workers = next((job.workers for job in plan.jobs if job.workers), None)
    try:
        if workers:
            MpiJobs(api, workers, plan.lab, simulated=plan.simulated).sweep(say)
    except LabError as error:
        say(f"jobs of a killed run could not be deleted: {error}")


def _turn(  # noqa: PLR0913, PLR0917  # one job, and where its texts go
    api: KubernetesApi,
    plan: Plan,
    job: PlannedJob,
    turn: tuple[str, int],
    say: Say,
    stop: threading.Event,
    raw: dict[str, str],
) -> tuple[JobResult, str]:
    """Runs one job; returns its result and the launcher's log. `raw` gets the evidence of a failed job."""
    if job.workers is None:
        return not_run(job, "skipped", ""), ""
    if stop.is_set():
        return not_run(job, "skipped", "the run was stopped"), ""
    jobs = MpiJobs(api, job.workers, plan.lab, simulated=plan.simulated)
    name, log = job.job_name(*turn), ""
    try:
        if not plan.simulated:  # a simulated node pulls nothing
            refuse_missing_image(job.workers, say, IMAGE_OF.get(job.program, "training"))
        with jobs.created(name, job.document(plan.lab, *turn), say):
            try:
                log = jobs.finished_log(name, job.name, say, stop)
                replayed = jobs.replayed(name)
                silent = replayed and not log.strip()
                result = not_run(job, "skipped", NO_RECORDING) if silent else read_job(job, log, replayed=replayed)
            except JobError as error:
                log = error.log
                if not stop.is_set():
                    raw |= evidence_of(api, job.workers.namespace, name)
                raise
    except LabError as error:
        # not replayed: the operator really ran the job, even if the log is a recording
        result = not_run(job, "failed", str(error))
    return result.model_copy(update={"job": name}), log


def read_job(job: PlannedJob, log: str, *, replayed: bool) -> JobResult:
    """The numbers of a log.

    Raises:
        ResultFormatError: when it gives none.
    """
    if job.program not in (ALL_REDUCE, MPI_ALL_REDUCE):
        reading = training_benchmark(job.program).read(log, job.workers.ranks if job.workers else 1)
        return _measured(job, reading.samples, [], replayed=replayed).model_copy(update={"details": reading.details})
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
    samples = tuple(row.out_of_place.busbw_gbyte_s for row in table.large)
    # a recorded log comes from other machines, so it cannot contradict this lab's plan
    return _measured(job, samples, [] if replayed else faults, replayed=replayed).model_copy(update=update)


def _measured(job: PlannedJob, samples: tuple[float, ...], faults: list[str], *, replayed: bool) -> JobResult:
    several = repeats(samples)
    return JobResult(
        program=job.program,
        transport=job.transport,
        outcome="failed" if faults else "measured",
        reasons=tuple(faults),
        replayed=replayed,
        unit=job.unit,
        samples=samples,
        dropped=several.dropped,
        value=round(several.median, 4),
    )


def without_a_run(jobs: Sequence[PlannedJob], outcome: Outcome, reason: str) -> list[JobResult]:
    """The same outcome for each job in its turn, except for impossible jobs."""
    return [not_run(job, outcome, reason) for job in in_turn(jobs)]


def not_run(job: PlannedJob, outcome: Outcome, reason: str) -> JobResult:
    """A result without a number."""
    if job.workers is None:
        outcome, reason = "skipped", job.impossible
    return JobResult(program=job.program, transport=job.transport, outcome=outcome, reasons=(reason,), unit=job.unit)


_CONNECTION = re.compile(r"UCX\s+INFO\s.*cfg(?:#\d+|\[\d+\]:) (?P<lanes>.*)$")
"""`ep_cfg[1]: tag(rc_verbs/rxe0:1)` up to 1.13, `inter-node cfg#1 tag(rc_mlx5/mlx5_0:1)` later."""
_LANE = re.compile(r"\b(?P<transport>[a-z0-9_]+)/(?P<device>[A-Za-z0-9_.-]+(?::\d+)?)")
_LEFT_OUT = re.compile(
    r"^\[[\d.]+\] \[(?P<host>[\w.-]+):.*UCX\s+WARN\s+network devices? (?P<devices>'\S+') (?:is|are) not available"
)
WITHIN_NODE = frozenset({"self", "sysv", "posix", "cma", "knem", "xpmem", "mm"})
"""Transports that leave no node."""


def lanes_between_nodes(text: str) -> tuple[str, ...]:
    """Transport and device of each lane between nodes, such as `rc_verbs/rxe0:1`, without duplicates."""
    found = [
        lane[0]
        for line in lines_of(text)
        if (connection := _CONNECTION.search(line.text))
        for lane in _LANE.finditer(connection["lanes"])
        if lane["transport"] not in WITHIN_NODE
    ]
    return tuple(dict.fromkeys(found))


def devices_left_out(text: str) -> tuple[str, ...]:
    """Devices that a rank should use and could not, with its host: UCX only warns, and uses the others."""
    found = [
        f"{device} on {left['host']}"
        for line in lines_of(text)
        if (left := _LEFT_OUT.search(line.text))
        for device in re.findall(r"'([^']+)'", left["devices"])
    ]
    return tuple(dict.fromkeys(found))


def faults_of_mpi(table: NcclTable, log: str, transport: Transport, largest_bytes: int | None) -> list[str]:
    """Contradictions between a log and its job; empty if all ranks reduced correctly over its transport and devices."""
    faults, lanes = wrong_values(table, "memory or transport"), lanes_between_nodes(log)
    if left_out := devices_left_out(log):
        faults.append(f"UCX could not use {', '.join(left_out)}: check the link of that interface")
    other = [lane for lane in lanes if not lane.startswith("tcp/" if transport == "tcp" else "rc")]
    if other or not lanes:
        reported = ", ".join(other) or "no lane between nodes"
        faults.append(f"UCX reported {reported} instead of {'TCP' if transport == 'tcp' else 'RDMA (rc)'}")
    return [*faults, *missing_sizes(table, largest_bytes)]

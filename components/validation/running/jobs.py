"""Runs the jobs of a comparison and of an application one after the other, and reads each one's log."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from components.kubernetes.client import KubernetesApi
from components.validation.benchmarks import ALL_REDUCE, MPI_ALL_REDUCE, training_benchmark, unit_of
from components.validation.benchmarks.mpi.log import faults_of_mpi, lanes_between_nodes
from components.validation.benchmarks.nccl.log import parse_nccl_log
from components.validation.benchmarks.nccl.run import curve_of, faults_of_table, network_details, off_rail
from components.validation.benchmarks.nccl.table import parse_nccl
from components.validation.judging.statistics import repeats
from components.validation.planning.jobs import PlannedJob, in_turn
from components.validation.planning.plan import Plan
from components.validation.records import JobResult, Outcome
from components.validation.running.evidence import evidence_of
from components.validation.running.mpijob import (
    JobError,
    MpiJobs,
    Say,
    Waiting,
    delete_quietly,
    wait,
)
from components.validation.running.pulls import IMAGE_OF, refuse_missing_image
from stacks.base import LabError

NO_RECORDING = "the nodes show recorded logs, and there is none of this job"


def run_jobs(
    plan: Plan, run_id: str, kubeconfig: str, say: Say, stop: threading.Event
) -> tuple[list[JobResult], dict[str, str]]:
    """Runs every job in its turn; whatever happens is a result. Blocks: call it in a thread.

    Returns:
        The results in their order, and the launchers' logs by name.
    """
    try:
        api = KubernetesApi(kubeconfig)
    except LabError as error:
        return without_a_run(plan.jobs, "failed", str(error)), {}
    results: list[JobResult] = []
    logs: dict[str, str] = {}
    try:
        _sweep(api, plan, say)
        for turn, job in enumerate(in_turn(plan.jobs), 1):
            result, log = _Turn(api=api, plan=plan, job=job, run_id=run_id, turn=turn, say=say, logs=logs).result(stop)
            if log:
                logs[raw := f"{job.name}.{turn}.log"] = log
                result = result.model_copy(update={"raw": raw})
            results.append(result)
            shown = f"{result.value:.2f} {result.unit}" if result.value is not None else "; ".join(result.reasons)
            outcome = f"{result.outcome}{' (replayed)' if result.replayed else ''}"
            say(f"{job.program} over {job.transport} {outcome}: {shown}")
    finally:
        api.close()
    return results, logs


def _sweep(api: KubernetesApi, plan: Plan, say: Say) -> None:
    """Takes away what a killed run left: its workers would hold the GPUs that these jobs wait for."""
    workers = next((job.workers for job in plan.jobs if job.workers), None)
    try:
        for old in MpiJobs(api, workers, plan.lab).sweep() if workers else ():
            say(f"job {old} of a killed run deleted")
    except LabError as error:
        say(f"jobs of a killed run could not be deleted: {error}")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Turn:
    """One job of a run."""

    api: KubernetesApi
    plan: Plan
    job: PlannedJob
    run_id: str
    turn: int
    """From 1, over all jobs of the run."""
    say: Say
    logs: dict[str, str]
    """Gets what else there is to look at of a job that failed."""

    def result(self, stop: threading.Event) -> tuple[JobResult, str]:
        """Creates the job, waits for its end, reads the launcher's log, and takes the job away again."""
        job, workers, log = self.job, self.job.workers, ""
        if workers is None:
            return not_run(job, "skipped", ""), ""
        if stop.is_set():
            return not_run(job, "skipped", "the run was stopped"), ""
        jobs, name = MpiJobs(self.api, workers, self.plan.lab), job.job_name(self.run_id, self.turn)
        try:
            if not self.plan.simulated:  # a simulated node pulls nothing
                refuse_missing_image(workers, self.say, IMAGE_OF.get(job.program, "training"))
            jobs.create(job.document(self.plan.lab, self.run_id, self.turn))
            try:
                wait(jobs, name, Waiting.of(job.name, workers, simulated=self.plan.simulated), self.say, stop)
                log, replayed = jobs.log(name), jobs.replayed(name)
                silent = replayed and not log.strip()
                result = not_run(job, "skipped", NO_RECORDING) if silent else read_job(job, log, replayed=replayed)
            except JobError as error:
                log = jobs.log(name) if error.has_log else ""
                if not stop.is_set():
                    self.logs.update(evidence_of(self.api, workers.namespace, name))
                raise error.with_log(log) from None
            finally:
                delete_quietly(jobs, name, self.say)
        except LabError as error:
            # not replayed: the operator really ran the job, even if the log is a recording
            result = not_run(job, "failed", str(error))
        return result.model_copy(update={"job": name}), log


def read_job(job: PlannedJob, log: str, *, replayed: bool) -> JobResult:
    """The numbers of a log.

    Raises:
        ResultFormatError: when it gives none.
    """
    if job.program == MPI_ALL_REDUCE:
        table, lanes = parse_nccl(log), lanes_between_nodes(log)
        faults = [] if replayed else faults_of_mpi(table, log, job.transport, job.largest_bytes)
        samples = tuple(row.out_of_place.busbw_gbyte_s for row in table.large)
        return _measured(job, samples, faults, replayed=replayed).model_copy(
            update={"curve": curve_of(table), "details": {"lanes": ", ".join(lanes), "ranks": table.ranks}}
        )
    if job.program == ALL_REDUCE:
        table = parse_nccl(log)
        # a recorded log comes from other machines: to compare it with this lab's plan would say nothing
        faults = [] if replayed else faults_of_table(table, job.transport, job.largest_bytes)
        samples = tuple(row.out_of_place.busbw_gbyte_s for row in table.large)
        network = parse_nccl_log(log)
        return _measured(job, samples, faults, replayed=replayed).model_copy(
            update={"curve": curve_of(table), "details": network_details(network), "off_rail": off_rail(network)}
        )
    reading = training_benchmark(job.program).read(log, job.workers.ranks if job.workers else 1)
    return _measured(job, reading.samples, [], replayed=replayed).model_copy(update={"details": reading.details})


def _measured(job: PlannedJob, samples: tuple[float, ...], faults: list[str], *, replayed: bool) -> JobResult:
    several = repeats(samples)
    return JobResult(
        program=job.program,
        transport=job.transport,
        outcome="failed" if faults else "measured",
        reasons=tuple(faults),
        replayed=replayed,
        unit=unit_of(job.program),
        samples=samples,
        dropped=several.dropped,
        value=round(several.median, 4),
    )


def without_a_run(jobs: Sequence[PlannedJob], outcome: Outcome, reason: str) -> list[JobResult]:
    """The same outcome for each job in its turn; one that is impossible anyway says that."""
    return [not_run(job, outcome, reason) for job in in_turn(jobs)]


def not_run(job: PlannedJob, outcome: Outcome, reason: str) -> JobResult:
    """A result without a number."""
    if job.workers is None:
        outcome, reason = "skipped", job.impossible
    return JobResult(
        program=job.program, transport=job.transport, outcome=outcome, reasons=(reason,), unit=unit_of(job.program)
    )

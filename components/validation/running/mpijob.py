"""Creates the all-reduce MPIJob, waits for its end, collects the launcher's log, and takes the job away again."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from pydantic import JsonValue

from components.jobs.image.speaks import refusal_in
from components.jobs.mpijob import GROUP, LAB_LABEL, PLURAL, RUN_LABEL, VERSION
from components.jobs.programs import all_reduce_job, job_name
from components.jobs.workers import Workers
from components.kubernetes.client import ApiError, KubernetesApi
from components.validation.parsers.nccl import LARGE_BYTES, NcclLog, parse_nccl
from components.validation.parsers.nccl_log import NcclNetwork, parse_nccl_log, rail_faults, rails_by_order
from components.validation.planning.plan import Plan
from components.validation.records import CurvePoint, NcclResult
from components.validation.running.checks import faults_of_nccl
from components.validation.running.evidence import evidence_of
from components.validation.running.kube import Event, Job, Node, Pod, objects
from components.validation.running.pulls import PullFault, pull_fault, refuse_missing_image
from stacks.base import LabError

POLL_S = 1.0
ANNOUNCE_S = 30.0
"""How often a wait says what it waits for."""
START_S = {True: 300, False: 900}
"""Until all ranks run, by simulated or not: a real node may first pull an image of many gigabytes, and an emulated one
takes a minute for each pod that it starts."""
PLAYED_S = 90
"""The same where kwok plays the kubelets: a pod that does not run by then never will."""
LARGEST_LOG_BYTES = 16_000_000
NCCL_LOG = "nccl_all_reduce.log"
"""Name of the launcher's log in the run's bundle."""
REPLAYED = "rocelab.dev/replayed-logs"
"""Label or annotation of nodes whose pods show recorded logs."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)

MOST_FAULTS = 4

Say = Callable[[str], None]


class JobError(LabError):
    """The job ended badly, or did not start."""

    def __init__(self, text: str, *, has_log: bool) -> None:
        super().__init__(text)
        self.has_log = has_log

    def with_log(self, log: str) -> "JobError":
        """The same and what a rank said of its own image: the operator knows that the launcher failed, and not why."""
        refusal = refusal_in(log)
        return JobError(f"{self}; {refusal}", has_log=self.has_log) if refusal else self


class MpiJobs:
    """The MPIJobs of one lab."""

    def __init__(self, api: KubernetesApi, workers: Workers, lab: str) -> None:
        self._api, self._workers, self._lab = api, workers, lab
        self._jobs = f"/apis/{GROUP}/{VERSION}/namespaces/{workers.namespace}/{PLURAL}"
        self._core = f"/api/v1/namespaces/{workers.namespace}"

    def sweep(self) -> list[str]:
        """Deletes jobs that a killed run left: whoever holds the lease is the only runner of the lab."""
        found = objects(self._api, self._jobs, Job, {"labelSelector": f"{LAB_LABEL}={self._lab},{RUN_LABEL}"})
        for job in found:
            self.delete(job.metadata.name)
        return [job.metadata.name for job in found]

    def create(self, document: dict[str, JsonValue]) -> None:
        """Creates a job."""
        self._api.create(self._jobs, document)

    def conditions(self, name: str) -> dict[str, str]:
        """Message of each condition that is true."""
        found = self._api.get(f"{self._jobs}/{name}")
        if found is None:
            raise ApiError(404, f"job {name} is gone")
        job = Job.model_validate(found)
        return {c.type: c.message for c in job.status.conditions if c.status == "True"}

    def refused(self, name: str) -> str:
        """Why the operator will not start the job: it says so only in an event, and the job then sits idle."""
        events = objects(self._api, f"{self._core}/events", Event, {"fieldSelector": f"involvedObject.name={name}"})
        return next((event.message for event in events if event.reason == "ValidationError"), "")

    def pull_fault(self, name: str) -> PullFault | None:
        """What keeps a pod from getting its image."""
        return pull_fault(self._pods(name), self._workers.image)

    def waiting_for(self, name: str) -> str:
        """Why the job's pods do not run."""
        if fault := self.pull_fault(name):
            return fault.text
        for pod in self._pods(name):
            for condition in pod.status.conditions:
                if condition.status == "False" and condition.message:
                    return f"{pod.metadata.name}: {condition.message[:200]}"
        return "no pod tells why"

    def log(self, name: str) -> str:
        """The newest launcher's log."""
        launchers = self._pods(name, "launcher")
        if not launchers:
            raise LabError("the launcher's pod is gone, and its log with it")
        newest = max(launchers, key=lambda pod: pod.metadata.created or LONG_AGO)
        path = f"{self._core}/pods/{newest.metadata.name}/log"
        return self._api.text(path, {"limitBytes": str(LARGEST_LOG_BYTES)})

    def node_of(self, name: str) -> dict[str, str]:
        """Node of each worker's pod, while there are any: the operator takes workers away when the job ends."""
        return {pod.metadata.name: pod.spec.node for pod in self._pods(name, "worker") if pod.spec.node}

    def replayed(self, name: str) -> bool:
        """Whether any node that the job may lie on shows recorded logs: one is enough to believe none."""
        names = {pod.spec.node for pod in self._pods(name)} | set(self._workers.nodes)
        nodes = [node.metadata for node in objects(self._api, "/api/v1/nodes", Node) if node.metadata.name in names]
        return any((node.annotations | node.labels).get(REPLAYED) == "true" for node in nodes)

    def delete(self, name: str) -> None:
        """Takes the job and all that it made away."""
        self._api.delete(f"{self._jobs}/{name}")

    def _pods(self, name: str, role: str = "") -> list[Pod]:
        selector = f"training.kubeflow.org/job-name={name}"
        if role:
            selector += f",training.kubeflow.org/job-role={role}"
        return objects(self._api, f"{self._core}/pods", Pod, {"labelSelector": selector})


def run_nccl(
    plan: Plan, run_id: str, kubeconfig: str, say: Say, stop: threading.Event
) -> tuple[NcclResult, dict[str, str]]:
    """Runs the job to its end; whatever happens is a result. Blocks: call it in a thread.

    Returns:
        The result, and by name the launcher's log and, of a job that failed, what else there is to look at.
    """
    if plan.nccl is None:
        raise ValueError("the plan has no NCCL job")
    try:
        api = KubernetesApi(kubeconfig)
    except LabError as error:
        return NcclResult(outcome="failed", reasons=(str(error),)), {}
    name, raw = job_name(run_id), dict[str, str]()
    jobs, made = MpiJobs(api, plan.nccl, plan.lab), False
    try:
        try:
            if not plan.simulated:  # a simulated node pulls nothing
                refuse_missing_image(plan.nccl, say)
            for old in jobs.sweep():
                say(f"job {old} of a killed run deleted")
            jobs.create(all_reduce_job(plan.nccl, plan.lab, run_id))
            made = True
            result = _result(plan, jobs, name, raw, say, stop)
        except LabError as error:
            # not replayed: that the job ran to its end is the operator's real work, whoever wrote the log
            result = NcclResult(outcome="failed", job=name if made else "", reasons=(str(error),))
        if made and result.outcome == "failed" and not stop.is_set():
            raw |= evidence_of(api, plan.nccl.namespace, name)
        return result, raw
    finally:
        if made:
            delete_quietly(jobs, name, say)
        api.close()


def _result(  # noqa: PLR0913, PLR0917  # one step of the above
    plan: Plan, jobs: MpiJobs, name: str, raw: dict[str, str], say: Say, stop: threading.Event
) -> NcclResult:
    """Waits for the job and reads its log, which `raw` gets.

    Raises:
        LabError: when it ended badly.
    """
    if plan.nccl is None:
        raise ValueError("the plan has no NCCL job")
    try:
        wait(jobs, name, Waiting.of("nccl_all_reduce", plan.nccl, simulated=plan.simulated), say, stop)
    except JobError as error:
        raw[NCCL_LOG] = jobs.log(name) if error.has_log else ""
        raise error.with_log(raw[NCCL_LOG]) from None
    raw[NCCL_LOG] = jobs.log(name)
    return _read(plan, name, raw[NCCL_LOG], replayed=jobs.replayed(name))


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """What is waited for, and how long at most."""

    what: str
    workers: int
    start_s: float
    timeout_s: float

    @classmethod
    def of(cls, what: str, workers: Workers, *, simulated: bool) -> Self:
        """For the workers of a job."""
        return cls(what=what, workers=len(workers.nodes), start_s=START_S[simulated], timeout_s=workers.timeout_s)


def wait(  # noqa: PLR0913, PLR0917  # what is waited for, and what is done meanwhile
    jobs: MpiJobs,
    name: str,
    waiting: Waiting,
    say: Say,
    stop: threading.Event,
    running_now: Callable[[], None] | None = None,
) -> None:
    """Waits until the job succeeded, or there is no hope; never longer than start and run may take.

    Args:
        jobs: of the lab.
        name: of the job.
        waiting: what is waited for.
        say: for progress.
        stop: ends the waiting.
        running_now: called once, when all ranks run.

    Raises:
        JobError: why it did not.
    """
    begun, running, said_s = time.monotonic(), False, 0.0
    start_s, asked = waiting.start_s, waiting.start_s <= PLAYED_S
    while not stop.wait(POLL_S):
        conditions, waited_s = jobs.conditions(name), time.monotonic() - begun
        if "Succeeded" in conditions:
            return
        if "Failed" in conditions:
            raise JobError(f"the job failed: {conditions['Failed'][:200]}", has_log=True)
        if not conditions and (refused := jobs.refused(name)):
            raise JobError(f"the operator refused the job: {refused[:200]}", has_log=False)
        if "Running" in conditions and not running:
            running = True
            say(f"{waiting.what}: {waiting.workers} workers run")
            if running_now:
                running_now()
        if not running and (fault := jobs.pull_fault(name)) and fault.final:
            raise JobError(fault.text, has_log=False)
        if waited_s >= said_s + ANNOUNCE_S:
            said_s, why = waited_s, "runs" if running else f"has not started: {jobs.waiting_for(name)}"
            say(f"{waiting.what}: {why}, for {waited_s:.0f} s now")
        if not running and not asked and waited_s > PLAYED_S:
            asked, start_s = True, PLAYED_S if jobs.replayed(name) else start_s
        if not running and waited_s > start_s:
            why = jobs.waiting_for(name) if conditions else "the MPI operator does not touch it: does it run?"
            raise JobError(f"not started after {waited_s:.0f} s: {why}", has_log=False)
        if waited_s > start_s + waiting.timeout_s:
            raise JobError(f"no end after {waited_s:.0f} s", has_log=True)
    raise JobError("the run was ended", has_log=False)


def _read(plan: Plan, name: str, log: str, *, replayed: bool) -> NcclResult:
    try:
        table = parse_nccl(log)
    except LabError as error:
        return NcclResult(outcome="failed", job=name, replayed=replayed, reasons=(str(error),), raw=NCCL_LOG)
    # a recorded log comes from other machines: to compare it with this lab's plan would say nothing
    faults = [] if replayed else faults_of_nccl(table, plan)
    network = parse_nccl_log(log)
    return NcclResult(
        outcome="failed" if faults else "measured",
        reasons=tuple(faults),
        job=name,
        replayed=replayed,
        busbw_gbyte_s=table.busbw_gbyte_s,
        at_least_bytes=min(LARGE_BYTES, table.large[0].size_bytes),
        largest_busbw_gbyte_s=table.rows[-1].out_of_place.busbw_gbyte_s,
        average_busbw_gbyte_s=table.average_busbw_gbyte_s,
        rows=len(table.rows),
        wrong=table.wrong,
        transport=table.transport,
        network=network_details(network),
        off_rail=off_rail(network),
        curve=curve_of(table),
        raw=NCCL_LOG,
    )


def off_rail(network: NcclNetwork) -> tuple[str, ...]:
    """A few channels that left the rails, by the order in which each rank names the devices of its own."""
    return tuple(rail_faults(network, rails_by_order(network))[:MOST_FAULTS])


def curve_of(table: NcclLog) -> tuple[CurvePoint, ...]:
    """Out-of-place busbw by message size, as tables are drawn."""
    return tuple(CurvePoint(message_bytes=r.size_bytes, value=r.out_of_place.busbw_gbyte_s) for r in table.rows)


def delete_quietly(jobs: MpiJobs, name: str, say: Say) -> None:
    """Takes a job away; what stays is the next run's to delete."""
    try:
        jobs.delete(name)
    except LabError as error:
        say(f"job {name} could not be deleted ({error}); the next run does it")


def network_details(network: NcclNetwork) -> dict[str, JsonValue]:
    """What NCCL told of its network, as far as it did; shown, never judged."""
    devices: list[JsonValue] = list(dict.fromkeys(d for found in network.used_devices.values() for d in found))
    told: dict[str, JsonValue] = {
        "nccl": network.version,
        "cuda_driver": network.cuda_driver,
        "algorithm": network.algorithm,
        "pinned_net": network.pinned_net,
        "gpu_direct": network.gpu_direct,
        "devices": devices or None,
    }
    return {name: value for name, value in told.items() if value is not None}

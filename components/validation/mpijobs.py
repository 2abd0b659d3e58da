"""Runs an MPIJob: creates it, waits for its end, reads the launcher's log, and deletes it."""

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from components.jobs.image.pvrdma_inside import refusal_in
from components.jobs.mpijob import (
    GROUP,
    LAB_LABEL,
    PLURAL,
    RUN_LABEL,
    VERSION,
    MpiProgram,
    mpi_job,
)
from components.jobs.workers import Workers
from components.kubernetes.client import ApiError, KubernetesApi
from components.validation import Say
from components.validation.cluster import (
    Event,
    Job,
    Node,
    Pod,
    PullFault,
    evidence_of,
    objects,
    pull_fault,
    refuse_missing_image,
)
from stacks.base import LabError
from stacks.frozen import frozen

T = TypeVar("T")
NO_KUBECONFIG = "no kubeconfig"
POLL_S = 1.0
ANNOUNCE_S = 30.0
START_S = {True: 300, False: 900}
"""Until all ranks run, by simulated or not: a node may pull an image of many gigabytes first."""
PLAYED_S = 90
"""The same limit where kwok simulates the kubelets: a pod that does not run by then never will."""
LARGEST_LOG_BYTES = 64_000_000
"""What 4,000 ranks print at up to 16 KB each; a smaller bound would cut off the table's footers."""
REPLAYED = "rocelab.dev/replayed-logs"
"""Label or annotation of nodes whose pods show recorded logs."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)


OnNodes = Callable[[Workers, MpiProgram, str], str]
"""Runs a job of this name without pods; returns its output. Blocks."""


@frozen
class ClusterRun:
    """A run's access to the cluster, and where its words and texts go."""

    kubeconfig: str | None
    """None: only jobs without pods can run."""
    lab: str
    run_id: str
    simulated: bool
    say: Say
    stop: threading.Event = field(default_factory=threading.Event)
    """Ends all waiting; jobs and pods are deleted then."""
    raw: dict[str, str] = field(default_factory=dict)
    on_nodes: OnNodes | None = None

    def lacks(self, workers: Workers) -> bool:
        """Whether a job of these workers cannot run."""
        return workers.runner == "pods" and self.kubeconfig is None

    async def in_thread(self, run: Callable[..., T], *args: object) -> T:
        """Runs what blocks; if the run is cancelled, the thread deletes its pods and jobs within
        seconds.
        """
        try:
            return await asyncio.to_thread(run, *args)
        except asyncio.CancelledError:
            self.stop.set()
            raise


@frozen
class FinishedJob:
    """What is left of a job that succeeded."""

    log: str
    replayed: bool
    """Whether a node of the job shows recorded logs."""
    node_of: dict[str, str]


@frozen
class JobToRun(Generic[T]):
    """A job, and how its end becomes a result."""

    name: str
    what: str
    workers: Workers
    program: MpiProgram
    log_name: str
    image: str = "benchmark"
    """Which of the images that `rocelab image push` builds it runs."""
    read: Callable[[FinishedJob], T]
    failed: Callable[[str], T]
    """The result of a job without a log that can be read, from the reason."""
    sound: Callable[[T], bool]
    """Whether a result needs no evidence."""
    alone: bool = True
    """Whether no other job of the run is there: then a killed run's jobs are deleted."""


def run_job(cluster: ClusterRun, job: JobToRun[T]) -> T:
    """Runs a job to its end; whatever happens is a result. Blocks: call it in a thread."""
    if job.workers.runner != "pods":
        return _without_pods(cluster, job)
    try:
        with KubernetesApi(cluster.kubeconfig or "") as api:
            running = MpiJob(api, cluster, job)
            if not cluster.simulated:  # a simulated node pulls nothing
                refuse_missing_image(job.workers, cluster.say, job.image)
            if job.alone:
                running.sweep()
            with running.created():
                result = _result(running, cluster, job)
                if not job.sound(result) and not cluster.stop.is_set():
                    cluster.raw.update(evidence_of(api, job.workers.namespace, job.name))
                return result
    except LabError as error:
        return job.failed(str(error))


def _without_pods(cluster: ClusterRun, job: JobToRun[T]) -> T:
    if cluster.on_nodes is None:
        return job.failed("this run has no connection to the nodes")
    try:
        log = cluster.on_nodes(job.workers, job.program, job.name)
        cluster.raw[job.log_name] = log
        return job.read(FinishedJob(log=log, replayed=False, node_of={}))
    except LabError as error:
        if isinstance(error, JobError) and error.log:
            cluster.raw[job.log_name] = error.log
        return job.failed(str(error))


def _result(running: "MpiJob", cluster: ClusterRun, job: JobToRun[T]) -> T:
    try:
        finished = running.finished()
        if finished.log:
            cluster.raw[job.log_name] = finished.log
        return job.read(finished)
    except JobError as error:
        if error.log:
            cluster.raw[job.log_name] = error.log
        return job.failed(str(error))
    except LabError as error:
        return job.failed(str(error))


def replayed_on(api: KubernetesApi, nodes: Collection[str]) -> bool:
    """Whether any of these nodes shows recorded logs instead of running pods."""
    for node in objects(api, "/api/v1/nodes", Node):
        marks = node.annotations | node.labels
        if node.name in nodes and marks.get(REPLAYED) == "true":
            return True
    return False


class JobError(LabError):
    """The job failed, or did not start."""

    def __init__(self, text: str, *, ran: bool, log: str = "") -> None:
        super().__init__(text)
        self.ran = ran
        """Whether its launcher may have printed something."""
        self.log = log


class MpiJob:
    """One MPIJob in the cluster."""

    def __init__(self, api: KubernetesApi, cluster: ClusterRun, job: JobToRun[Any]) -> None:
        self._api, self._cluster, self._job = api, cluster, job
        self._name, self._workers = job.name, job.workers
        self._jobs = f"/apis/{GROUP}/{VERSION}/namespaces/{job.workers.namespace}/{PLURAL}"
        self._core = f"/api/v1/namespaces/{job.workers.namespace}"

    def sweep(self) -> None:
        """Deletes jobs of a killed run: the holder of the lease is the lab's only run."""
        selector = {"labelSelector": f"{LAB_LABEL}={self._cluster.lab},{RUN_LABEL}"}
        for job in objects(self._api, self._jobs, Job, selector):
            self._delete(job.name)
            self._cluster.say(f"job {job.name} of a killed run deleted")

    @contextmanager
    def created(self) -> Iterator[None]:
        """Creates the job, which exists within the block.

        If it cannot be deleted, the next run does it.
        """
        labels = {LAB_LABEL: self._cluster.lab, RUN_LABEL: self._cluster.run_id}
        document = mpi_job(self._name, self._workers, self._job.program, labels)
        self._api.create(self._jobs, document)
        try:
            yield
        finally:
            try:
                self._delete(self._name)
            except LabError as error:
                self._cluster.say(f"{error}; the next run deletes job {self._name}")

    def finished(self) -> FinishedJob:
        """Waits until the job has succeeded or cannot succeed.

        Raises:
            JobError: why it did not succeed, with the log and with what a rank reported about its
                image: the operator knows only that the launcher failed.
        """
        try:
            node_of = self._wait()
        except JobError as error:
            log = self._log() if error.ran else ""
            refusal = refusal_in(log)
            text = f"{error}; {refusal}" if refusal else str(error)
            raise JobError(text, ran=error.ran, log=log) from None
        return FinishedJob(log=self._log(), replayed=self._replayed(), node_of=node_of)

    def _wait(self) -> dict[str, str]:
        """Waits for the end; returns the node of each worker, which the operator deletes then."""
        begun, what = time.monotonic(), self._job.what
        announced_s, running, node_of = 0.0, False, dict[str, str]()
        start_s = START_S[self._cluster.simulated]
        kubelet_known = start_s <= PLAYED_S
        while not self._cluster.stop.wait(POLL_S):
            conditions, waited_s = self._conditions(), time.monotonic() - begun
            if "Succeeded" in conditions:
                return node_of
            if "Running" in conditions and not running:
                running, node_of = True, self._node_of()
                self._cluster.say(f"{what}: {len(self._workers.nodes)} workers run")
            self._refuse_hopeless(conditions, running=running)
            if waited_s >= announced_s + ANNOUNCE_S:
                announced_s, why = waited_s, "runs"
                if not running:
                    why = f"has not started: {self._waiting_for()}"
                self._cluster.say(f"{what}: {why}, for {waited_s:.0f} s now")
            if not running and not kubelet_known and waited_s > PLAYED_S:
                kubelet_known = True
                if self._replayed():
                    start_s = PLAYED_S
            self._refuse_late(conditions, waited_s, start_s, running=running)
        raise JobError("the run was stopped", ran=False)

    def _refuse_hopeless(self, conditions: dict[str, str], *, running: bool) -> None:
        if "Failed" in conditions:
            raise JobError(f"the job failed: {conditions['Failed'][:200]}", ran=True)
        if not conditions and (refused := self._refused()):
            raise JobError(f"the operator refused the job: {refused[:200]}", ran=False)
        if not running and (fault := self._pull_fault()) and fault.final:
            raise JobError(fault.text, ran=False)

    def _refuse_late(
        self,
        conditions: dict[str, str],
        waited_s: float,
        start_s: float,
        *,
        running: bool,
    ) -> None:
        if not running and waited_s > start_s:
            why = "the MPI operator ignores it: is it running?"
            if conditions:
                why = self._waiting_for()
            raise JobError(f"not started after {waited_s:.0f} s: {why}", ran=False)
        if waited_s > start_s + self._workers.timeout_s:
            raise JobError(f"no end after {waited_s:.0f} s", ran=True)

    def _conditions(self) -> dict[str, str]:
        """Message of each condition that is true."""
        document = self._api.get(f"{self._jobs}/{self._name}")
        if document is None:
            raise ApiError(404, f"job {self._name} is gone")
        job = Job.model_validate(document)
        return {c.type: c.message for c in job.conditions if c.status == "True"}

    def _refused(self) -> str:
        """Why the operator refuses the job: it says so only in an event, and the job stays idle."""
        selector = {"fieldSelector": f"involvedObject.name={self._name}"}
        for event in objects(self._api, f"{self._core}/events", Event, selector):
            if event.reason == "ValidationError":
                return event.message
        return ""

    def _pull_fault(self) -> PullFault | None:
        """Why a pod does not get its image."""
        return pull_fault(self._pods(), self._workers.image)

    def _waiting_for(self) -> str:
        """Why the job's pods do not run."""
        if fault := self._pull_fault():
            return fault.text
        for pod in self._pods():
            for condition in pod.conditions:
                if condition.status == "False" and condition.message:
                    return f"{pod.name}: {condition.message[:200]}"
        if "Suspended" in self._conditions():
            return "the job is suspended, so its queue has not admitted it (kubectl get workloads)"
        return "no pod reports why"

    def _log(self) -> str:
        """The newest launcher's log."""
        launchers = self._pods("launcher")
        if not launchers:
            raise LabError("the launcher's pod is gone, and its log with it")
        newest = max(launchers, key=lambda pod: pod.created or LONG_AGO)
        path = f"{self._core}/pods/{newest.name}/log"
        return self._api.text(path, {"limitBytes": str(LARGEST_LOG_BYTES)})

    def _node_of(self) -> dict[str, str]:
        return {pod.name: pod.node for pod in self._pods("worker") if pod.node}

    def _replayed(self) -> bool:
        """Whether any node that the job may run on shows recorded logs: one is enough to distrust
        the log.
        """
        nodes = {pod.node for pod in self._pods()}
        return replayed_on(self._api, nodes | set(self._workers.nodes))

    def _delete(self, name: str) -> None:
        """Deletes the job with all its pods."""
        self._api.delete(f"{self._jobs}/{name}")

    def _pods(self, role: str = "") -> list[Pod]:
        selector = f"training.kubeflow.org/job-name={self._name}"
        if role:
            selector += f",training.kubeflow.org/job-role={role}"
        return objects(self._api, f"{self._core}/pods", Pod, {"labelSelector": selector})

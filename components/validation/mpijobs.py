"""Creates an MPIJob, waits for its end, reads the launcher's log, and deletes the job."""

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from pydantic import JsonValue

from components.jobs.image.pvrdma_inside import refusal_in
from components.jobs.mpijob import GROUP, LAB_LABEL, PLURAL, RUN_LABEL, VERSION
from components.jobs.workers import Workers
from components.kubernetes.client import ApiError, KubernetesApi
from components.validation import Say
from components.validation.cluster import Event, Job, Node, Pod, PullFault, objects, pull_fault
from stacks.base import LabError

POLL_S = 1.0
ANNOUNCE_S = 30.0
"""How often a wait says what it waits for."""
START_S = {True: 300, False: 900}
"""Until all ranks run, by simulated or not: a real node may first pull an image of many gigabytes, and an emulated one
takes a minute for each pod that it starts."""
PLAYED_S = 90
"""The same limit where kwok simulates the kubelets: a pod that does not run by then never will."""
LARGEST_LOG_BYTES = 64_000_000
"""What 4,000 ranks print at up to 16 KB each; a smaller bound would cut off the footers of the table."""
REPLAYED = "rocelab.dev/replayed-logs"
"""Label or annotation of nodes whose pods show recorded logs."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)


def replayed_on(api: KubernetesApi, nodes: Collection[str]) -> bool:
    """Whether any of these nodes shows recorded logs instead of running pods."""
    found = [node for node in objects(api, "/api/v1/nodes", Node) if node.name in nodes]
    return any((node.annotations | node.labels).get(REPLAYED) == "true" for node in found)


class JobError(LabError):
    """The job failed, or did not start."""

    def __init__(self, text: str, *, has_log: bool, log: str = "") -> None:
        super().__init__(text)
        self.has_log = has_log
        """Whether its launcher may have printed something."""
        self.log = log


class MpiJobs:
    """The MPIJobs of one lab over the same workers."""

    def __init__(self, api: KubernetesApi, workers: Workers, lab: str, *, simulated: bool) -> None:
        self._api, self._workers, self._lab, self._simulated = api, workers, lab, simulated
        self._jobs = f"/apis/{GROUP}/{VERSION}/namespaces/{workers.namespace}/{PLURAL}"
        self._core = f"/api/v1/namespaces/{workers.namespace}"

    def sweep(self, say: Say) -> None:
        """Deletes jobs of a killed run: the holder of the lease is the lab's only run."""
        for job in objects(self._api, self._jobs, Job, {"labelSelector": f"{LAB_LABEL}={self._lab},{RUN_LABEL}"}):
            self._delete(job.name)
            say(f"job {job.name} of a killed run deleted")

    @contextmanager
    def created(self, name: str, document: dict[str, JsonValue], say: Say) -> Iterator[None]:
        """Creates a job that exists within the block; if it cannot be deleted, the next run does it."""
        self._api.create(self._jobs, document)
        try:
            yield
        finally:
            try:
                self._delete(name)
            except LabError as error:
                say(f"job {name} could not be deleted ({error}); the next run does it")

    def conditions(self, name: str) -> dict[str, str]:
        """Message of each condition that is true."""
        found = self._api.get(f"{self._jobs}/{name}")
        if found is None:
            raise ApiError(404, f"job {name} is gone")
        job = Job.model_validate(found)
        return {c.type: c.message for c in job.conditions if c.status == "True"}

    def refused(self, name: str) -> str:
        """Why the operator refuses the job: it says so only in an event, and the job stays idle."""
        events = objects(self._api, f"{self._core}/events", Event, {"fieldSelector": f"involvedObject.name={name}"})
        return next((event.message for event in events if event.reason == "ValidationError"), "")

    def pull_fault(self, name: str) -> PullFault | None:
        """Why a pod does not get its image."""
        return pull_fault(self._pods(name), self._workers.image)

    def waiting_for(self, name: str) -> str:
        """Why the job's pods do not run."""
        if fault := self.pull_fault(name):
            return fault.text
        for pod in self._pods(name):
            for condition in pod.conditions:
                if condition.status == "False" and condition.message:
                    return f"{pod.name}: {condition.message[:200]}"
        if "Suspended" in self.conditions(name):
            return "the job is suspended, so its queue has not admitted it (kubectl get workloads)"
        return "no pod reports why"

    def log(self, name: str) -> str:
        """The newest launcher's log."""
        launchers = self._pods(name, "launcher")
        if not launchers:
            raise LabError("the launcher's pod is gone, and its log with it")
        newest = max(launchers, key=lambda pod: pod.created or LONG_AGO)
        path = f"{self._core}/pods/{newest.name}/log"
        return self._api.text(path, {"limitBytes": str(LARGEST_LOG_BYTES)})

    def node_of(self, name: str) -> dict[str, str]:
        """Node of each worker's pod, while the job runs: the operator deletes workers when it ends."""
        return {pod.name: pod.node for pod in self._pods(name, "worker") if pod.node}

    def replayed(self, name: str) -> bool:
        """Whether any node that the job may run on shows recorded logs: one is enough to distrust the log."""
        return replayed_on(self._api, {pod.node for pod in self._pods(name)} | set(self._workers.nodes))

    def _delete(self, name: str) -> None:
        """Deletes the job with all its pods."""
        self._api.delete(f"{self._jobs}/{name}")

    def _pods(self, name: str, role: str = "") -> list[Pod]:
        selector = f"training.kubeflow.org/job-name={name}"
        if role:
            selector += f",training.kubeflow.org/job-role={role}"
        return objects(self._api, f"{self._core}/pods", Pod, {"labelSelector": selector})

    def finished_log(
        self,
        name: str,
        what: str,
        say: Say,
        stop: threading.Event,
        running_now: Callable[[], None] = lambda: None,
    ) -> str:
        """Waits until the job has succeeded or cannot succeed, and returns the launcher's log.

        Args:
            name: of the job.
            what: the job in words, for progress.
            say: for progress.
            stop: ends the waiting.
            running_now: called once, when all ranks run.

        Raises:
            JobError: why it did not succeed, with the log and with what a rank reported about its image: the operator
                knows only that the launcher failed.
        """
        try:
            self._wait(name, what, say, stop, running_now)
        except JobError as error:
            log = self.log(name) if error.has_log else ""
            refusal = refusal_in(log)
            raise JobError(f"{error}; {refusal}" if refusal else str(error), has_log=error.has_log, log=log) from None
        return self.log(name)

    def _wait(self, name: str, what: str, say: Say, stop: threading.Event, running_now: Callable[[], None]) -> None:
        begun, running, said_s = time.monotonic(), False, 0.0
        start_s = START_S[self._simulated]
        asked = start_s <= PLAYED_S
        while not stop.wait(POLL_S):
            conditions, waited_s = self.conditions(name), time.monotonic() - begun
            if "Succeeded" in conditions:
                return
            if "Failed" in conditions:
                raise JobError(f"the job failed: {conditions['Failed'][:200]}", has_log=True)
            if not conditions and (refused := self.refused(name)):
                raise JobError(f"the operator refused the job: {refused[:200]}", has_log=False)
            if "Running" in conditions and not running:
                running = True
                say(f"{what}: {len(self._workers.nodes)} workers run")
                running_now()
            if not running and (fault := self.pull_fault(name)) and fault.final:
                raise JobError(fault.text, has_log=False)
            if waited_s >= said_s + ANNOUNCE_S:
                said_s, why = waited_s, "runs" if running else f"has not started: {self.waiting_for(name)}"
                say(f"{what}: {why}, for {waited_s:.0f} s now")
            if not running and not asked and waited_s > PLAYED_S:
                asked, start_s = True, PLAYED_S if self.replayed(name) else start_s
            if not running and waited_s > start_s:
                why = self.waiting_for(name) if conditions else "the MPI operator ignores it: is it running?"
                raise JobError(f"not started after {waited_s:.0f} s: {why}", has_log=False)
            if waited_s > start_s + self._workers.timeout_s:
                raise JobError(f"no end after {waited_s:.0f} s", has_log=True)
        raise JobError("the run was stopped", has_log=False)

"""Runs a plan on the hosts and the cluster. Their faults are results, never exceptions."""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from components.ssh.credentials import LabAccess
from components.validation import Say
from components.validation.benchmarks.gpu_memory import measure_gpu_memory
from components.validation.benchmarks.jobs.plan import in_turn
from components.validation.benchmarks.jobs.run import run_jobs, without_a_run
from components.validation.benchmarks.nccl.rings import rings_without_a_run, run_rings
from components.validation.benchmarks.nccl.run import run_nccl
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.pods.judge import broken_pods
from components.validation.benchmarks.pods.run import run_pods
from components.validation.benchmarks.verbs.course import Course, Progress
from components.validation.benchmarks.verbs.ports import differing_versions, low_memlock
from components.validation.benchmarks.verbs.run import BusyError, Hcas
from components.validation.records import (
    GpuTransfer,
    JobResult,
    MeasuredHost,
    NcclResult,
    NodeRing,
    Outcome,
    PodRails,
    RunRecord,
    TransferResult,
)
from components.validation.running.hosts import taken
from stacks.words import plural

T = TypeVar("T")
InCluster = Callable[[Plan, str, str, Say, threading.Event], tuple[T, dict[str, str]]]
"""Runs pods or jobs of the plan, by run id and kubeconfig; returns the result, and logs by name."""
NO_KUBECONFIG = "no kubeconfig"


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A finished run: its record, and the raw outputs by name."""

    record: RunRecord
    raw: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContext:
    """The surroundings of a run, besides its plan."""

    progress: Progress | None = None
    hcas: Hcas | None = None
    """Reads the counters below PVRDMA machines."""


NO_CONTEXT = RunContext()


async def measure(
    plan: Plan, access: LabAccess, say: Say, fingerprint: str = "", around: RunContext = NO_CONTEXT
) -> Run:
    """Runs the plan. Faults of hosts and cluster are results, never exceptions."""
    record, clock = _begun(plan, fingerprint), time.monotonic()
    say(f"run {record.run_id}: {shown(plan)}")
    notes: list[str] = []
    raw: dict[str, str] = {}
    hosts: dict[str, MeasuredHost] = {}
    try:
        async with taken(plan, access, record.run_id, notes) as bench:
            raw, bench.hcas = bench.raw, around.hcas
            hosts = {node: ports.facts for node, ports in bench.ports.items()}
            for warning in (differing_versions(bench.ports), low_memlock(bench.ports, plan.verbs.pinned_bytes)):
                if warning:
                    say(f"warning: {warning}")
                    notes.append(warning)
            course = Course(bench=bench, say=say, progress=around.progress, notes=notes)
            results = await _results(course, _Cluster(plan, record.run_id, access.kubeconfig, say, raw))
    except BusyError as error:
        say(f"busy: {error}")
        results = _all(plan, "skipped", f"busy: {error}")
    seconds = {"duration_s": round(time.monotonic() - clock, 1)}
    return Run(record=record.model_copy(update={**results, **seconds, "hosts": hosts, "notes": tuple(notes)}), raw=raw)


async def _results(course: Course, cluster: "_Cluster") -> dict[str, object]:
    """Everything that the plan measures, as fields of the record. What lies on a broken foundation is not run."""
    plan = course.bench.plan
    transfers = await course.measured()
    pods = await cluster.pods()
    gpu_memory = await measure_gpu_memory(course.bench, transfers, course.say) if plan.gpu_memory else ()
    rings = await cluster.rings()
    nccl = await cluster.nccl(_broken(transfers, rings, None, pods))
    jobs = await cluster.jobs(_broken(transfers, rings, nccl, pods))
    return {
        "transfers": tuple(transfers),
        "pods": pods,
        "gpu_memory": gpu_memory,
        "rings": rings,
        "nccl": nccl,
        "jobs": tuple(jobs),
    }


def shown(plan: Plan) -> str:
    """The plan in one line."""
    jobs = f", {plural(len(in_turn(plan.jobs)), 'job')}" if plan.jobs else ""
    return f"{plan.rounds_in_words or 'no verbs'}{', NCCL' if plan.nccl else ''}{jobs}; about {plan.estimate_s:.0f} s"


def all_failed(plan: Plan, reason: str, fingerprint: str) -> Run:
    """The result of a run that could not start."""
    return Run(record=_begun(plan, fingerprint).model_copy(update=_all(plan, "error", reason)), raw={})


def _begun(plan: Plan, fingerprint: str) -> RunRecord:
    """The record of a run that has measured nothing yet."""
    started = datetime.now(UTC)
    return RunRecord(
        run_id=f"{started:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        started_at=started.isoformat(timespec="seconds").replace("+00:00", "Z"),
        duration_s=0,
        simulated=plan.simulated,
        plan_digest=plan.digest,
        fingerprint=fingerprint,
        transfers=(),
    )


@dataclass(frozen=True, slots=True)
class _Cluster:
    """Runs the parts of the plan that need pods; `raw` gets their logs."""

    plan: Plan
    run_id: str
    kubeconfig: str | None
    say: Say
    raw: dict[str, str]

    async def pods(self) -> PodRails | None:
        """Checks the rails from inside pods, even if the hosts' own fail: pods have another VLAN."""
        if self.plan.pods is None or self.plan.pods.impossible:
            return None
        if self.kubeconfig is None:
            return PodRails(outcome="skipped", reason=NO_KUBECONFIG)
        found = await self._in_thread(run_pods, self.kubeconfig)
        reached, pairs = sum(rail.reached for rail in found.rails), sum(rail.pairs for rail in found.rails)
        words = [fault.code for fault in found.faults[:2]] or [found.reason or f"{reached} of {plural(pairs, 'pair')}"]
        self.say(f"pod_rails {'not run' if found.played else found.outcome}: {'; '.join(words)}")
        return found

    async def rings(self) -> tuple[NodeRing, ...]:
        """Runs NCCL within each node alone. It needs no rail, so it runs even if the rails fail."""
        if self.plan.nccl is None or not self.plan.rings:
            return ()
        if self.kubeconfig is None:
            return rings_without_a_run(self.plan, "skipped", NO_KUBECONFIG)
        rings = await self._in_thread(run_rings, self.kubeconfig)
        slowest = min((ring for ring in rings if ring.busbw_gbyte_s), key=lambda ring: ring.of_itself, default=None)
        bad = [f"{ring.node} {ring.outcome}: {ring.reason}" for ring in rings if ring.outcome != "measured"]
        least = [f"slowest {slowest.node}, {slowest.of_itself:.2f} GB/s"] if slowest else []
        self.say(f"nccl_one_node: {'; '.join([*least, *bad[:3]])}")
        return rings

    async def nccl(self, broken: str) -> NcclResult | None:
        """Runs the all-reduce, unless the rails do not work: NCCL would hang until its time limit."""
        if self.plan.nccl is None:
            return None
        if self.kubeconfig is None or broken:
            return NcclResult(outcome="skipped", reasons=(NO_KUBECONFIG if self.kubeconfig is None else broken,))
        result = await self._in_thread(run_nccl, self.kubeconfig)
        busbw = f"{result.busbw_gbyte_s:.2f} GB/s" if result.busbw_gbyte_s is not None else "; ".join(result.reasons)
        self.say(f"nccl_all_reduce {result.outcome}{' (replayed)' if result.replayed else ''}: {busbw}")
        return result

    async def jobs(self, broken: str) -> list[JobResult]:
        """Runs the further jobs, unless their foundation does not work."""
        if not self.plan.jobs:
            return []
        if self.kubeconfig is None or broken:
            return without_a_run(self.plan.jobs, "skipped", broken or NO_KUBECONFIG)
        return await self._in_thread(run_jobs, self.kubeconfig)

    async def _in_thread(self, run: InCluster[T], kubeconfig: str) -> T:
        """Runs what blocks; if the run is cancelled, the thread deletes its pods and jobs within seconds."""
        stop = threading.Event()
        try:
            result, logs = await asyncio.to_thread(run, self.plan, self.run_id, kubeconfig, self.say, stop)
        finally:
            stop.set()
        self.raw.update(logs)
        return result


def _broken(
    transfers: list[TransferResult], rings: Sequence[NodeRing], nccl: NcclResult | None, pods: PodRails | None
) -> str:
    """Why a job would hang; empty when rails, pods, nodes and NCCL work."""
    if transfer := next((one for one in transfers if one.outcome != "measured" and not one.same_host), None):
        return f"{transfer.test} did not pass on every rail"
    if broken := broken_pods(pods):
        return broken
    if ring := next((one for one in rings if one.outcome != "measured"), None):
        return f"nccl_one_node did not pass on {ring.node}"
    return "nccl_all_reduce did not pass" if nccl and nccl.outcome != "measured" else ""


def _all(plan: Plan, outcome: Outcome, reason: str) -> dict[str, object]:
    """The same outcome for everything in the plan, as fields of the record."""
    return {
        "transfers": tuple(
            stage.result(t.flow, outcome, reason)
            for stage in plan.stages
            for transfers in plan.rounds_of(stage)
            for t in transfers
        ),
        "pods": PodRails(outcome=outcome, reason=reason) if plan.pods else None,
        "gpu_memory": tuple(
            GpuTransfer(**t.flow._asdict(), outcome=outcome, reason=reason)
            for transfers in plan.gpu_memory
            for t in transfers
        ),
        "rings": rings_without_a_run(plan, outcome, reason),
        "nccl": NcclResult(outcome=outcome, reasons=(reason,)) if plan.nccl else None,
        "jobs": tuple(without_a_run(plan.jobs, outcome, reason)),
    }

"""Runs a plan on the hosts and the cluster. Their faults are results, never exceptions."""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from components.ssh.credentials import Access
from components.validation.benchmarks.gpu_memory import measure_gpu_memory
from components.validation.benchmarks.nccl.rings import run_rings
from components.validation.benchmarks.nccl.run import run_nccl
from components.validation.benchmarks.pod_rails.judge import broken_pods
from components.validation.benchmarks.pod_rails.run import run_pods
from components.validation.benchmarks.verbs.course import Course, Progress, Say
from components.validation.benchmarks.verbs.hcas import Hcas
from components.validation.benchmarks.verbs.ports import differing_versions, state_of
from components.validation.benchmarks.verbs.run import Bench, BusyError
from components.validation.planning.jobs import in_turn
from components.validation.planning.plan import Plan
from components.validation.records import (
    GpuTransfer,
    HostFacts,
    JobResult,
    NcclResult,
    NodeRing,
    Outcome,
    PodRails,
    RunRecord,
    TransferResult,
)
from components.validation.running.hosts import taken
from components.validation.running.jobs import run_jobs, without_a_run
from components.validation.running.journal import Head, Journal, JournalOptions, now_s
from stacks.words import plural

T = TypeVar("T")
InCluster = Callable[[Plan, str, str, Say, threading.Event], T]
"""Runs pods or jobs of the plan, by run id and kubeconfig."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A finished run: its record, and the raw outputs by name."""

    record: RunRecord
    raw: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContext:
    """The surroundings of a run, besides its plan."""

    journal: JournalOptions | None = None
    """Where measured transfers are kept, so the next run can resume a killed one."""
    progress: Progress | None = None
    hcas: Hcas | None = None
    """Reads the counters below PVRDMA machines."""


NO_CONTEXT = RunContext()


async def measure(plan: Plan, access: Access, say: Say, fingerprint: str = "", around: RunContext = NO_CONTEXT) -> Run:
    """Runs the plan. Faults of hosts and cluster are results, never exceptions."""
    started, clock = datetime.now(UTC), time.monotonic()
    run_id = _run_id(started)
    say(f"run {run_id}: {shown(plan)}")
    notes: list[str] = []
    transfers: list[TransferResult] = []
    pods: PodRails | None = None
    gpu_memory: tuple[GpuTransfer, ...] = ()
    rings: tuple[NodeRing, ...] = ()
    nccl: NcclResult | None = None
    jobs: list[JobResult] = []
    raw: dict[str, str] = {}
    hosts: dict[str, HostFacts] = {}
    try:
        async with taken(plan, access, run_id, notes) as bench:
            raw, bench.hcas = bench.raw, around.hcas
            hosts = {node: ports.facts for node, ports in bench.ports.items()}
            if differs := differing_versions(bench.ports):
                say(f"warning: {differs}")
                notes.append(differs)
            head = Head(
                run_id=run_id,
                plan_digest=plan.digest,
                fingerprint=fingerprint,
                hosts=state_of(bench.ports),
                began_s=now_s(),
            )
            journal = _journal(bench, head, around, say)
            if journal and journal.finished:
                own = plural(len(journal.finished), "transfer is", "transfers are")
                notes.append(f"resumes run {journal.head.run_id}: {own} its own")
            finished = False
            try:
                course = Course(bench=bench, say=say, journal=journal, progress=around.progress, notes=notes)
                transfers = await course.measured()
                pods = await _pods(plan, run_id, access, say, raw)
                if plan.gpu_memory:
                    gpu_memory = await measure_gpu_memory(bench, transfers, say)
                if plan.rings:
                    rings, logs = await _rings(plan, run_id, access, say)
                    raw |= logs
                if plan.nccl:
                    nccl, logs = await _nccl(plan, run_id, access, _broken(transfers, rings, None, pods), say)
                    raw |= logs
                jobs, logs = await _jobs(plan, run_id, access, _broken(transfers, rings, nccl, pods), say)
                raw |= logs
                finished = True
            finally:
                if journal:
                    journal.close(finished=finished)
    except BusyError as error:
        say(f"busy: {error}")
        transfers, pods, gpu_memory, rings, nccl = _all(plan, "skipped", f"busy: {error}")
        jobs = without_a_run(plan.jobs, "skipped", f"busy: {error}")
    record = RunRecord(
        run_id=run_id,
        started_at=_rfc3339(started),
        duration_s=round(time.monotonic() - clock, 1),
        simulated=plan.simulated,
        plan_digest=plan.digest,
        fingerprint=fingerprint,
        transfers=tuple(transfers),
        pods=pods,
        gpu_memory=gpu_memory,
        rings=rings,
        nccl=nccl,
        jobs=tuple(jobs),
        hosts=hosts,
        notes=tuple(notes),
    )
    return Run(record=record, raw=raw)


def shown(plan: Plan) -> str:
    """The plan in one line."""
    rounds = (
        ", ".join(f"{stage.name} {plural(len(plan.rounds_of(stage)), 'round')}" for stage in plan.stages) or "no verbs"
    )
    jobs = f", {plural(len(in_turn(plan.jobs)), 'job')}" if plan.jobs else ""
    return f"{rounds}{', NCCL' if plan.nccl else ''}{jobs}; about {plan.estimate_s:.0f} s"


def all_failed(plan: Plan, reason: str, fingerprint: str) -> Run:
    """The result of a run that could not start."""
    started = datetime.now(UTC)
    transfers, pods, gpu_memory, rings, nccl = _all(plan, "error", reason)
    record = RunRecord(
        run_id=_run_id(started),
        started_at=_rfc3339(started),
        duration_s=0,
        simulated=plan.simulated,
        plan_digest=plan.digest,
        fingerprint=fingerprint,
        transfers=tuple(transfers),
        pods=pods,
        gpu_memory=gpu_memory,
        rings=rings,
        nccl=nccl,
        jobs=tuple(without_a_run(plan.jobs, "error", reason)),
    )
    return Run(record=record, raw={})


def _journal(bench: Bench, head: Head, around: RunContext, say: Say) -> Journal | None:
    """Opens the journal once the hosts are leased, so there is no other writer."""
    if around.journal is None:
        return None
    journal = Journal.open(around.journal, head, say)
    bench.begun -= head.began_s - journal.head.began_s  # times of both halves count from the same moment
    return journal


async def _pods(plan: Plan, run_id: str, access: Access, say: Say, raw: dict[str, str]) -> PodRails | None:
    """Checks the rails from inside pods, even if the hosts' own fail: pods have another VLAN."""
    if plan.pods is None or plan.pods.impossible:
        return None
    if access.kubeconfig is None:
        return PodRails(outcome="skipped", reason="no kubeconfig")
    found, logs = await _in_thread(run_pods, plan, run_id, access.kubeconfig, say)
    reached, pairs = sum(rail.reached for rail in found.rails), sum(rail.pairs for rail in found.rails)
    words = [fault.code for fault in found.faults[:2]] or [found.reason or f"{reached} of {plural(pairs, 'pair')}"]
    say(f"pod_rails {'not run' if found.played else found.outcome}: {'; '.join(words)}")
    raw.update(logs)
    return found


async def _rings(plan: Plan, run_id: str, access: Access, say: Say) -> tuple[tuple[NodeRing, ...], dict[str, str]]:
    """Runs NCCL within each node alone. It needs no rail, so it runs even if these fail."""
    nodes = plan.nccl.nodes if plan.nccl else ()
    if access.kubeconfig is None or not nodes:
        return tuple(NodeRing(node=node, outcome="skipped", reason="no kubeconfig") for node in nodes), {}
    rings, logs = await _in_thread(run_rings, plan, run_id, access.kubeconfig, say)
    slowest = min((ring for ring in rings if ring.busbw_gbyte_s), key=lambda ring: ring.of_itself, default=None)
    bad = [f"{ring.node} {ring.outcome}: {ring.reason}" for ring in rings if ring.outcome != "measured"]
    told = [f"slowest {slowest.node}, {slowest.of_itself:.2f} GB/s"] if slowest else []
    say(f"nccl_one_node: {'; '.join([*told, *bad[:3]])}")
    return rings, logs


async def _nccl(plan: Plan, run_id: str, access: Access, broken: str, say: Say) -> tuple[NcclResult, dict[str, str]]:
    """Runs the job, unless the rails do not work: NCCL would hang until its time limit."""
    if access.kubeconfig is None:
        return NcclResult(outcome="skipped", reasons=("no kubeconfig",)), {}
    if broken:
        return NcclResult(outcome="skipped", reasons=(broken,)), {}
    result, logs = await _in_thread(run_nccl, plan, run_id, access.kubeconfig, say)
    shown_value = f"{result.busbw_gbyte_s:.2f} GB/s" if result.busbw_gbyte_s is not None else "; ".join(result.reasons)
    say(f"nccl_all_reduce {result.outcome}{' (replayed)' if result.replayed else ''}: {shown_value}")
    return result, logs


async def _jobs(
    plan: Plan, run_id: str, access: Access, broken: str, say: Say
) -> tuple[list[JobResult], dict[str, str]]:
    """Runs the further jobs, unless their foundation does not work."""
    if not plan.jobs:
        return [], {}
    if access.kubeconfig is None or broken:
        return without_a_run(plan.jobs, "skipped", broken or "no kubeconfig"), {}
    return await _in_thread(run_jobs, plan, run_id, access.kubeconfig, say)


async def _in_thread(run: InCluster[T], plan: Plan, run_id: str, kubeconfig: str, say: Say) -> T:
    """Runs what blocks; when the run is cancelled, the thread sees it within seconds and deletes its pods and jobs."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(run, plan, run_id, kubeconfig, say, stop)
    finally:
        stop.set()


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


def _all(
    plan: Plan, outcome: Outcome, reason: str
) -> tuple[list[TransferResult], PodRails | None, tuple[GpuTransfer, ...], tuple[NodeRing, ...], NcclResult | None]:
    """The same outcome for everything in the plan."""
    transfers = [
        stage.result(t.flow, outcome, reason)
        for stage in plan.stages
        for transfers in plan.rounds_of(stage)
        for t in transfers
    ]
    nodes = plan.nccl.nodes if plan.nccl and plan.rings else ()
    rings = tuple(NodeRing(node=node, outcome=outcome, reason=reason) for node in nodes)
    gpu_memory = tuple(
        GpuTransfer(**t.flow._asdict(), outcome=outcome, reason=reason)
        for together in plan.gpu_memory
        for t in together
    )
    pods = PodRails(outcome=outcome, reason=reason) if plan.pods else None
    return transfers, pods, gpu_memory, rings, NcclResult(outcome=outcome, reasons=(reason,)) if plan.nccl else None


def _run_id(started: datetime) -> str:
    return f"{started:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")

"""Runs a plan on the hosts and the cluster. Their faults are results, never exceptions."""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from components.jobs.mpijob import MpiProgram
from components.jobs.workers import Workers
from components.ssh.credentials import LabAccess
from components.validation import Say
from components.validation.benchmarks.gpu_memory import measure_gpu_memory
from components.validation.benchmarks.jobs.plan import in_turn
from components.validation.benchmarks.jobs.run import NO_KUBECONFIG, run_jobs, without_a_run
from components.validation.benchmarks.nccl.judge import ceiling_of
from components.validation.benchmarks.nccl.plan import RING_S
from components.validation.benchmarks.nccl.rings import Rings, rings_without_a_run, run_rings
from components.validation.benchmarks.nccl.run import run_nccl, run_smaller_ring
from components.validation.benchmarks.nccl.search import Topology, search_of
from components.validation.benchmarks.node.run import alone_without_a_run, measure_alone
from components.validation.benchmarks.on_hosts import launched
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.pods.judge import broken_pods
from components.validation.benchmarks.pods.run import run_pods
from components.validation.benchmarks.verbs.course import Course, Progress
from components.validation.benchmarks.verbs.hosts import taken
from components.validation.benchmarks.verbs.ports import differing_versions, low_memlock
from components.validation.benchmarks.verbs.run import BusyError, Hcas
from components.validation.mpijobs import ClusterRun
from components.validation.records import (
    GpuTransfer,
    JobResult,
    MeasuredHost,
    NcclResult,
    NodeRing,
    Outcome,
    PodRails,
    RingResult,
    RunRecord,
    TransferResult,
)
from components.validation.search.fabric import BAD_BELOW
from components.validation.store import declared_rails, leaves_of
from stacks.lab import Lab
from stacks.words import plural

T = TypeVar("T")


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
    budget_s: float = 0
    """For everything, a search by smaller rings included."""
    leaf_of: Topology = field(default_factory=dict)

    @classmethod
    def of(cls, lab: Lab, hcas: Hcas | None, progress: Progress | None = None) -> "RunContext":
        """That of a lab."""
        budget_s = lab.benchmarks.budget_s if lab.benchmarks else 0
        leaf_of = leaves_of(declared_rails(lab))
        return cls(progress=progress, hcas=hcas, budget_s=budget_s, leaf_of=leaf_of)


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
            pinned_bytes = plan.verbs.pinned_bytes
            for warning in (
                differing_versions(bench.ports),
                low_memlock(bench.ports, pinned_bytes),
            ):
                if warning:
                    say(f"warning: {warning}")
                    notes.append(warning)
            course = Course(bench=bench, say=say, progress=around.progress, notes=notes)
            cluster = _cluster(plan, record.run_id, access, course)
            results = await _results(course, cluster)
            facts = record.model_copy(update={**results, "hosts": hosts})
            search = await smaller_rings(plan, facts, around, cluster, clock + around.budget_s)
            results["smaller_rings"] = search
    except BusyError as error:
        say(f"busy: {error}")
        results = _all(plan, "skipped", f"busy: {error}")
    results["duration_s"] = round(time.monotonic() - clock, 1)
    update = {**results, "hosts": hosts, "notes": tuple(notes)}
    return Run(record=record.model_copy(update=update), raw=raw)


def _cluster(plan: Plan, run_id: str, access: LabAccess, course: Course) -> ClusterRun:
    loop = asyncio.get_running_loop()

    def on_nodes(workers: Workers, program: MpiProgram, name: str) -> str:
        job = launched(course.bench, workers, program, name)
        return asyncio.run_coroutine_threadsafe(job, loop).result()

    return ClusterRun(
        kubeconfig=access.kubeconfig,
        lab=plan.lab,
        run_id=run_id,
        simulated=plan.simulated,
        say=course.say,
        raw=course.bench.raw,
        on_nodes=on_nodes,
    )


async def _results(course: Course, cluster: ClusterRun) -> dict[str, object]:
    """Everything that the plan measures, as fields of the record.

    What lies on a broken foundation is not run: NCCL would hang until its time limit. Pods are
    checked even if the hosts' rails fail, since they have another VLAN, and a node's own ring needs
    no rail.
    """
    plan = course.bench.plan
    alone = await measure_alone(course.bench, course.say) if plan.alone else None
    transfers = await course.measured()
    pods = await _pods(plan, cluster)
    gpu_memory: tuple[GpuTransfer, ...] = ()
    if plan.gpu_memory:
        gpu_memory = await measure_gpu_memory(course.bench, transfers, course.say)
    rings = await _rings(plan, cluster)
    nccl = await _nccl(plan, cluster, _broken(transfers, rings, None, pods))
    jobs = await _jobs(plan, cluster, _broken(transfers, rings, nccl, pods))
    return {
        "alone": alone,
        "transfers": tuple(transfers),
        "pods": pods,
        "gpu_memory": gpu_memory,
        "rings": rings,
        "nccl": nccl,
        "jobs": jobs,
    }


def shown(plan: Plan) -> str:
    """The plan in one line."""
    jobs = f", {plural(len(in_turn(plan.jobs)), 'job')}" if plan.jobs else ""
    return (
        f"{plan.rounds_in_words or 'no verbs'}{', NCCL' if plan.nccl else ''}{jobs}; about "
        f"{plan.estimate_s:.0f} s"
    )


def all_failed(plan: Plan, reason: str, fingerprint: str) -> Run:
    """The result of a run that could not start."""
    return Run(
        record=_begun(plan, fingerprint).model_copy(update=_all(plan, "error", reason)), raw={}
    )


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


async def smaller_rings(
    plan: Plan, record: RunRecord, around: RunContext, cluster: ClusterRun, until_s: float
) -> tuple[RingResult, ...]:
    """Pairs and halves, if the ring over all nodes is slow, for as long as the budget lasts."""
    nccl, ceiling = record.nccl, ceiling_of(plan, record)
    if plan.nccl is None or nccl is None or nccl.replayed or record.simulated or ceiling is None:
        return ()
    whole = nccl.busbw_gbyte_s
    if whole is None or whole >= BAD_BELOW * ceiling.value:
        return ()
    search = search_of(plan.nccl.nodes, around.leaf_of, whole)
    results: list[RingResult] = []
    while (rings := search.next_rings(results)) and time.monotonic() + RING_S < until_s:
        cluster.say(f"nccl_all_reduce is slow: {plural(len(rings), 'smaller ring')}")
        running = []
        for number, nodes in enumerate(rings, len(results)):
            running.append(_in_thread(cluster, run_smaller_ring, plan.nccl, nodes, number, cluster))
        results += await asyncio.gather(*running)
    return tuple(results)


async def _pods(plan: Plan, cluster: ClusterRun) -> PodRails | None:
    if plan.pods is None or plan.pods.impossible:
        return None
    if cluster.kubeconfig is None:
        return PodRails(outcome="skipped", reason=NO_KUBECONFIG)
    pods = await _in_thread(cluster, run_pods, plan, cluster)
    cluster.say(f"pod_rails {_pods_in_words(pods)}")
    return pods


def _pods_in_words(pods: PodRails) -> str:
    if pods.faults:
        return f"{pods.outcome}: {'; '.join(fault.code for fault in pods.faults[:2])}"
    if pods.reason:
        return f"{'not run' if pods.played else pods.outcome}: {pods.reason}"
    reached, pairs = (
        sum(rail.reached for rail in pods.rails),
        sum(rail.pairs for rail in pods.rails),
    )
    return f"{pods.outcome}: {reached} of {plural(pairs, 'pair')}"


async def _rings(plan: Plan, cluster: ClusterRun) -> Rings:
    if plan.nccl is None or not plan.rings:
        return ()
    if _has_no_cluster(plan.nccl, cluster):
        return rings_without_a_run(plan.nccl, "skipped", NO_KUBECONFIG)
    rings = await _in_thread(cluster, run_rings, plan.nccl, cluster)
    words = []
    with_value = [ring for ring in rings if ring.busbw_gbyte_s]
    if with_value:
        slowest = min(with_value, key=lambda ring: ring.of_itself)
        words.append(f"slowest {slowest.node}, {slowest.of_itself:.2f} GB/s")
    bad = [ring for ring in rings if ring.outcome != "measured"]
    words += [f"{ring.node} {ring.outcome}: {ring.reason}" for ring in bad[:3]]
    cluster.say(f"nccl_one_node: {'; '.join(words)}")
    return rings


async def _nccl(plan: Plan, cluster: ClusterRun, broken: str) -> NcclResult | None:
    if plan.nccl is None:
        return None
    if _has_no_cluster(plan.nccl, cluster):
        broken = NO_KUBECONFIG
    if broken:
        return NcclResult(outcome="skipped", reasons=(broken,))
    result = await _in_thread(cluster, run_nccl, plan.nccl, cluster)
    cluster.say(f"nccl_all_reduce {result.shown(result.busbw_gbyte_s, 'GB/s')}")
    return result


def _has_no_cluster(workers: Workers, cluster: ClusterRun) -> bool:
    return workers.runner == "pods" and cluster.kubeconfig is None


async def _jobs(plan: Plan, cluster: ClusterRun, broken: str) -> tuple[JobResult, ...]:
    if broken:
        return without_a_run(plan.jobs, "skipped", broken)
    return await _in_thread(cluster, run_jobs, plan.jobs, cluster)


async def _in_thread(cluster: ClusterRun, run: Callable[..., T], *args: object) -> T:
    """Runs what blocks.

    If the run is cancelled, the thread deletes its pods and jobs within seconds.
    """
    try:
        return await asyncio.to_thread(run, *args)
    except asyncio.CancelledError:
        cluster.stop.set()
        raise


def _broken(
    transfers: Sequence[TransferResult],
    rings: Sequence[NodeRing],
    nccl: NcclResult | None,
    pods: PodRails | None,
) -> str:
    """Why a job would hang; empty when rails, pods, nodes and NCCL work."""
    for transfer in transfers:
        if transfer.outcome != "measured" and not transfer.same_host:
            return f"{transfer.test} did not pass on every rail"
    if broken := broken_pods(pods):
        return broken
    for ring in rings:
        if ring.outcome != "measured":
            return f"nccl_one_node did not pass on {ring.node}"
    return "nccl_all_reduce did not pass" if nccl and nccl.outcome != "measured" else ""


def _all(plan: Plan, outcome: Outcome, reason: str) -> dict[str, object]:
    """The same outcome for everything in the plan, as fields of the record."""
    transfers, gpu_memory = [], []
    for stage in plan.stages:
        for together in plan.rounds_of(stage):
            transfers += [stage.result(transfer.flow, outcome, reason) for transfer in together]
    for together in plan.gpu_memory:
        for transfer in together:
            flow = transfer.flow._asdict()
            gpu_memory.append(GpuTransfer(**flow, outcome=outcome, reason=reason))
    rings: Rings = ()
    if plan.nccl and plan.rings:
        rings = rings_without_a_run(plan.nccl, outcome, reason)
    return {
        "alone": alone_without_a_run(plan, outcome, reason),
        "transfers": tuple(transfers),
        "pods": PodRails(outcome=outcome, reason=reason) if plan.pods else None,
        "gpu_memory": tuple(gpu_memory),
        "rings": rings,
        "nccl": NcclResult(outcome=outcome, reasons=(reason,)) if plan.nccl else None,
        "jobs": without_a_run(plan.jobs, outcome, reason),
    }

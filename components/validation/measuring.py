"""Measures a lab as its plan says, and judges, compares and stores what was measured."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from components.jobs.mpijob import MpiProgram
from components.jobs.workers import Workers
from components.provider import log
from components.provider.base import ProviderConfig
from components.ssh.credentials import LabAccess, access_to
from components.validation import Say, store
from components.validation.benchmarks.gpu_memory import measure_gpu_memory
from components.validation.benchmarks.jobs.plan import in_turn
from components.validation.benchmarks.jobs.run import run_jobs, without_a_run
from components.validation.benchmarks.nccl.rings import Rings, measure_rings, rings_without_a_run
from components.validation.benchmarks.nccl.run import measure_nccl, smaller_rings
from components.validation.benchmarks.node.run import alone_without_a_run, measure_alone
from components.validation.benchmarks.on_hosts import launched
from components.validation.benchmarks.part import confirming, quarantined, without
from components.validation.benchmarks.plan import Plan, plan_of
from components.validation.benchmarks.pods.judge import broken_pods
from components.validation.benchmarks.pods.run import measure_pods
from components.validation.benchmarks.verbs.course import Course, Progress
from components.validation.benchmarks.verbs.hca_proof import hcas_of, proven_round
from components.validation.benchmarks.verbs.hosts import taken
from components.validation.benchmarks.verbs.ports import differing_versions, low_memlock
from components.validation.benchmarks.verbs.run import BusyError, Hcas
from components.validation.history import (
    REBASELINE,
    Entry,
    History,
    entry_of,
    history_of,
    judged,
    values_of,
    worse_values,
)
from components.validation.mpijobs import ClusterRun
from components.validation.records import (
    GpuTransfer,
    MeasuredHost,
    NcclResult,
    NodeRing,
    Outcome,
    PodRails,
    RunRecord,
    TransferResult,
)
from components.validation.redact import needles_of, redacted_fields
from components.validation.search.measured_fabric import Topology
from components.validation.stale import HostStates
from components.validation.store import RunDocument, declared_rails, leaves_of, with_inventory
from components.validation.summary import Summary
from components.validation.verdict import judge
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.words import plural

TREND = 20


@frozen
class Run:
    """A finished run: its record, and the raw outputs by name."""

    record: RunRecord
    raw: dict[str, str]


Runs = Callable[[Plan], Awaitable[Run]]


@frozen
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
    unmeasured: dict[str, str] = {}
    try:
        async with taken(plan, access, record.run_id, notes) as bench:
            raw, bench.hcas = bench.raw, around.hcas
            unmeasured = bench.unreachable
            if any(rail.pvrdma for rail in plan.rails):
                bench.proof = proven_round
            for node, ports in bench.ports.items():
                hosts[node] = ports.facts
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
            facts = record.replace(**results, hosts=hosts)
            until_s = clock + around.budget_s
            search = await smaller_rings(plan, facts, around.leaf_of, cluster, until_s)
            results["smaller_rings"] = search
    except BusyError as error:
        say(f"busy: {error}")
        results = _all(plan, "skipped", f"busy: {error}")
    results["duration_s"] = round(time.monotonic() - clock, 1)
    update = {**results, "hosts": hosts, "unmeasured": unmeasured, "notes": tuple(notes)}
    return Run(record=record.replace(**update), raw=raw)


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
    alone = None
    if plan.alone:
        alone = await measure_alone(course.bench, course.say)
    transfers = await course.measured()
    pods: PodRails | None = None
    if plan.pods and not plan.pods.impossible:
        pods = await cluster.in_thread(measure_pods, plan, cluster)
    gpu_memory: tuple[GpuTransfer, ...] = ()
    if plan.gpu_memory:
        gpu_memory = await measure_gpu_memory(course.bench, transfers, course.say)
    rings: Rings = ()
    if plan.nccl and plan.rings:
        rings = await cluster.in_thread(measure_rings, plan.nccl, cluster)
    nccl: NcclResult | None = None
    if plan.nccl:
        broken = _broken(transfers, rings, None, pods)
        nccl = await cluster.in_thread(measure_nccl, plan.nccl, cluster, broken)
    broken = _broken(transfers, rings, nccl, pods)
    if broken:
        jobs = without_a_run(plan.jobs, "skipped", broken)
    else:
        jobs = await cluster.in_thread(run_jobs, plan.jobs, cluster)
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
    jobs = ""
    if plan.jobs:
        jobs = f", {plural(len(in_turn(plan.jobs)), 'job')}"
    return (
        f"{plan.rounds_in_words or 'no verbs'}{', NCCL' if plan.nccl else ''}{jobs}; about "
        f"{plan.estimate_s:.0f} s"
    )


def all_failed(plan: Plan, reason: str, fingerprint: str) -> Run:
    """The result of a run that could not start."""
    return Run(record=_begun(plan, fingerprint).replace(**_all(plan, "error", reason)), raw={})


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
    if nccl and nccl.outcome != "measured":
        return "nccl_all_reduce did not pass"
    return ""


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


@frozen
class MeasurementRequest:
    lab: Lab
    plan: Plan
    root: Path
    hosts: HostStates = field(default_factory=dict)
    before: History
    """The history in the state; the store's history joins it."""
    rebaseline: bool = False
    secrets: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The lab's part of the store."""
        return store.store_of(self.lab, self.root)


@frozen
class Measured:
    """The part of a measurement in the state; the rest is in the stored document."""

    verdict: Summary
    history: History
    settled: bool


async def carried_out(request: MeasurementRequest, runs: Runs, say: Say) -> Measured:
    """Measures, and repeats what was worse than the baseline."""
    folder, plan, lab = request.folder, request.plan, request.lab
    earlier = store.read(folder, lab.name)
    history = request.before.merged(earlier)
    run = await runs(plan)
    raw, record = dict(run.raw), with_inventory(run.record, request.hosts)
    document = RunDocument(plan=plan, rails=declared_rails(lab), record=record)
    judgement = judge(plan, lab.benchmarks or Benchmarks(), record, document.leaves)
    entry = entry_of(plan, record, _asked(request, history, record))
    if judgement.settled and (names := worse_values(entry, history)):
        entry = await _confirmed(plan, entry, names, runs, say, raw)
    kept = {"raw_sha256": store.write_bundle(folder, record.run_id, raw, request.secrets)}
    before = _trend(history, earlier, entry)
    verdict = judgement.verdict(history_of((*before, entry)))
    verdict = verdict.replace(**kept, store=lab.report.store or "")
    entry = judged(entry, verdict)
    whole = {"record": record.replace(**kept), "history": (*before, entry)}
    update = {
        "document_sha256": store.write_document(folder, document.replace(**whole), request.secrets)
    }
    entry = entry.replace(**update)
    store.append(folder, entry)
    after = history.with_entry(entry)
    baseline_run = after.baseline.run_id if after.baseline else ""
    store.prune(folder, baseline_run)
    return Measured(verdict=verdict.replace(**update), history=after, settled=judgement.settled)


def _trend(history: History, earlier: list[Entry], entry: Entry) -> tuple[Entry, ...]:
    """The last runs before this one, and the baseline."""
    before = {
        run.run_id: run for run in (*earlier, *history.known) if run.started_at < entry.started_at
    }
    ordered = sorted(before.values(), key=lambda run: (run.started_at, run.run_id))
    baseline = history.baseline.run_id if history.baseline else ""
    recent = {run.run_id for run in ordered[1 - TREND :]}
    return tuple(run for run in ordered if run.run_id in recent or run.run_id == baseline)


def _asked(request: MeasurementRequest, history: History, record: RunRecord) -> str:
    """The run from which comparisons start: this one, or the one that the last run names."""
    if request.rebaseline:
        return record.run_id
    if history.entries:
        return history.entries[-1].config.get(REBASELINE, "")
    return ""


async def _confirmed(  # noqa: PLR0913, PLR0917 # one step of the above
    plan: Plan, entry: Entry, names: tuple[str, ...], runs: Runs, say: Say, raw: dict[str, str]
) -> Entry:
    """The entry with the values of a second run over what was worse; its raw outputs join those of
    the first.
    """
    part = confirming(plan, names)
    if part is None:
        return entry
    say(f"worse than the baseline: {', '.join(names)}; measured once more")
    run = await runs(part)
    again = values_of(part, run.record)
    raw |= {f"again/{name}": text for name, text in run.raw.items()}
    values = dict(entry.values)
    for name in names:
        if name in again:
            values[name] = values[name].replace(again=again[name].median)
    return entry.replace(values=values)


async def measure_lab(
    config: ProviderConfig,
    hosts: HostStates,
    fingerprint: str,
    before: History,
    *,
    rebaseline: bool,
) -> dict[str, JsonValue]:
    """One run of the plan: the fields that the state keeps of it, without secrets.

    Raises:
        LabError: when the lab has no benchmarks.
    """
    lab, root = config.lab, Path.cwd()
    whole = plan_of(lab)
    if whole is None:
        raise LabError("benchmarks: missing, or mode is off: there is nothing to measure")
    access: LabAccess | None = None
    missing = ""
    try:
        access = await access_to(lab, root, config.get)
    except LabError as error:
        missing = str(error)
    request = MeasurementRequest(
        lab=lab,
        plan=without(whole, quarantined(whole, hosts)),
        root=root,
        hosts=hosts,
        before=before,
        rebaseline=rebaseline,
        secrets=needles_of(config.get, access),
    )

    async def run(part: Plan) -> Run:
        if access is None:
            return all_failed(part, missing, fingerprint)
        with hcas_of(lab, part, config.get, root) as hcas:
            around = RunContext.of(lab, hcas)
            return await measure(part, access, log.info, fingerprint, around)

    done = await carried_out(request, run, log.info)
    verdict = done.verdict.model_dump(mode="json", exclude_defaults=True)
    return {
        "verdict": redacted_fields(verdict, request.secrets),
        "settled": done.settled,
        "history": done.history.model_dump(mode="json", exclude_defaults=True),
    }

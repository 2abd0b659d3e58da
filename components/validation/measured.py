"""One measurement from its plan to the stored run document: run, compared, confirmed, judged."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from components.validation import Say
from components.validation.judging.stale import HostStates, made_stale
from components.validation.memory import regression, store
from components.validation.memory.document import RunDocument, declared_rails, with_inventory
from components.validation.memory.entry import ASKED, entry_of, judged, values_of
from components.validation.memory.history import Entry, History, history_of
from components.validation.planning.part import confirming
from components.validation.planning.plan import Plan
from components.validation.records import RunRecord
from components.validation.running.runner import Run
from components.validation.summary import Summary
from components.validation.verdict import bounds_digest, judge, verdict_on
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab

Runs = Callable[[Plan], Awaitable[Run]]
TREND = 20
"""Runs that a document remembers: a report charts them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasurementRequest:
    lab: Lab
    plan: Plan
    root: Path
    hosts: HostStates = field(default_factory=dict)
    """Facts that the hosts reported to the Fleet, by node."""
    before: History
    """The history in the state; the store's history joins it."""
    rebaseline: bool = False
    """Whether to discard earlier baselines."""
    secrets: tuple[str, ...] = ()
    """Texts that must not be kept."""

    @property
    def folder(self) -> Path:
        """The lab's part of the store."""
        return store.store_of(self.lab, self.root)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The part of a measurement in the state; the rest is in the stored document."""

    verdict: Summary
    history: History
    settled: bool
    """Whether everything planned was measured and works."""


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
    if judgement.settled and (names := regression.worse(entry, history)):
        entry = await _confirmed(plan, entry, names, runs, say, raw)
    kept = {"raw_sha256": store.write_bundle(folder, record.run_id, raw, request.secrets)}
    before = _trend(history, earlier, entry)
    verdict = judgement.verdict(history_of((*before, entry)))
    verdict = verdict.model_copy(update=kept | {"store": lab.report.store or ""})
    entry = judged(entry, verdict)
    whole = {"record": record.model_copy(update=kept), "history": (*before, entry)}
    update = {"document_sha256": store.write_document(folder, document.model_copy(update=whole), request.secrets)}
    entry = entry.model_copy(update=update)
    store.append(folder, entry)
    after = history.with_entry(entry)
    store.prune(folder, [after.baseline.run_id] if after.baseline else [])
    return Measured(verdict=verdict.model_copy(update=update), history=after, settled=judgement.settled)


def verdict_by(lab: Lab, verdict: Summary, root: Path) -> Summary:
    """The verdict by the current bounds; after an edit of the bounds, the stored run is judged again."""
    benchmarks = lab.benchmarks or Benchmarks()
    mode = {"mode": benchmarks.mode}
    if verdict.bounds == bounds_digest(benchmarks):
        return verdict.model_copy(update=mode)
    folder = store.folder_of(verdict.lab, root, simulated=verdict.simulated, store=verdict.store)
    document = store.read_document(folder, verdict.run_id, verdict.document_sha256)
    if document is None:
        why = f"the bounds in benchmarks changed, and run {verdict.run_id} is not in the store here: judged as before"
        return made_stale(verdict.model_copy(update=mode), (why,))
    kept = {"store": verdict.store, "document_sha256": verdict.document_sha256}
    return verdict_on(document, benchmarks).model_copy(update=kept)


def _trend(history: History, earlier: list[Entry], entry: Entry) -> tuple[Entry, ...]:
    """The last runs before this one, and the baseline."""
    before = {one.run_id: one for one in (*earlier, *history.known) if one.started_at < entry.started_at}
    ordered = sorted(before.values(), key=lambda one: (one.started_at, one.run_id))
    baseline = history.baseline.run_id if history.baseline else ""
    recent = {one.run_id for one in ordered[1 - TREND :]}
    return tuple(one for one in ordered if one.run_id in recent or one.run_id == baseline)


def _asked(request: MeasurementRequest, history: History, record: RunRecord) -> str:
    """The run from which comparisons start: this one, or the one that the last run names."""
    if request.rebaseline:
        return record.run_id
    return history.entries[-1].config.get(ASKED, "") if history.entries else ""


async def _confirmed(  # noqa: PLR0913, PLR0917 # one step of the above
    plan: Plan, entry: Entry, names: tuple[str, ...], runs: Runs, say: Say, raw: dict[str, str]
) -> Entry:
    """The entry with the values of a second run over what was worse; its raw outputs join those of the first."""
    part = confirming(plan, names)
    if part is None:
        return entry
    say(f"worse than the baseline: {', '.join(names)}; measured once more")
    run = await runs(part)
    again = values_of(part, run.record)
    raw |= {f"again/{name}": text for name, text in run.raw.items()}
    values = {
        name: value.model_copy(update={"again": again[name].median}) if name in names and name in again else value
        for name, value in entry.values.items()
    }
    return entry.model_copy(update={"values": values})

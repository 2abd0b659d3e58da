"""Measures a lab as its plan says, and judges, compares and stores what was measured."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from components.provider import log
from components.provider.base import ProviderConfig
from components.ssh.credentials import LabAccess, access_to
from components.validation import Say, store
from components.validation.benchmarks.part import confirming, quarantined, without
from components.validation.benchmarks.plan import Plan, plan_of
from components.validation.benchmarks.verbs.hcas import hcas_of
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
from components.validation.records import RunRecord
from components.validation.redact import needles_of, redacted_fields
from components.validation.runner import Run, RunContext, all_failed, measure
from components.validation.stale import HostStates
from components.validation.store import RunDocument, declared_rails, with_inventory
from components.validation.summary import Summary
from components.validation.verdict import judge
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab

Runs = Callable[[Plan], Awaitable[Run]]
TREND = 20


@dataclass(frozen=True, kw_only=True, slots=True)
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


@dataclass(frozen=True, kw_only=True, slots=True)
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
    verdict = verdict.model_copy(update=kept | {"store": lab.report.store or ""})
    entry = judged(entry, verdict)
    whole = {"record": record.model_copy(update=kept), "history": (*before, entry)}
    update = {
        "document_sha256": store.write_document(
            folder, document.model_copy(update=whole), request.secrets
        )
    }
    entry = entry.model_copy(update=update)
    store.append(folder, entry)
    after = history.with_entry(entry)
    baseline_run = after.baseline.run_id if after.baseline else ""
    store.prune(folder, baseline_run)
    return Measured(
        verdict=verdict.model_copy(update=update), history=after, settled=judgement.settled
    )


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
    return history.entries[-1].config.get(REBASELINE, "") if history.entries else ""


async def _confirmed(  # noqa: PLR0913, PLR0917 # one step of the above
    plan: Plan, entry: Entry, names: tuple[str, ...], runs: Runs, say: Say, raw: dict[str, str]
) -> Entry:
    """The entry with the values of a second run over what was worse.

    Its raw outputs join those of the first.
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
            values[name] = values[name].model_copy(update={"again": again[name].median})
    return entry.model_copy(update={"values": values})


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

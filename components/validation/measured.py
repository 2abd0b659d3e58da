"""One measurement from its plan to what is remembered: run, compared, confirmed, judged, and put into the store."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from components.validation.judging import regression
from components.validation.judging.verdict import Beside, function_of, judge
from components.validation.memory import store
from components.validation.memory.bundle import folder_of, prune, write_bundle, write_record
from components.validation.memory.entry import ASKED, entry_of, judged, values_of
from components.validation.memory.history import Entry, History
from components.validation.planning.confirming import confirming
from components.validation.planning.plan import Plan
from components.validation.records import RunRecord
from components.validation.running.runner import Run
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab

Say = Callable[[str], None]
Runs = Callable[[Plan], Awaitable[Run]]
"""Carries a plan out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """One measurement as it is asked for."""

    lab: Lab
    plan: Plan
    root: Path
    before: History
    """What the state remembers; the store's memory joins it."""
    rebaseline: bool = False
    """A human says that runs up to now are no measure any more."""
    secrets: tuple[str, ...] = ()
    """Texts that must not be kept."""

    @property
    def folder(self) -> Path:
        """The lab's part of the store."""
        return store_of(self.lab, self.root)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What came of it."""

    record: RunRecord
    history: History
    settled: bool
    """Whether everything planned was measured and works."""


def store_of(lab: Lab, root: Path) -> Path:
    """Where a lab's runs lie."""
    return folder_of(lab.name, root, simulated=lab.simulated, store=lab.report.store)


async def carried_out(wanted: Wanted, runs: Runs, say: Say) -> Measured:
    """Measures once, and what was worse than the baseline a second time."""
    history = wanted.before.merged(store.read(wanted.folder, wanted.lab.name))
    run = await runs(wanted.plan)
    raw = dict(run.raw)
    entry = entry_of(wanted.plan, run.record, _asked(wanted, history, run.record))
    settled = function_of(wanted.plan, run.record) == "pass"
    if settled and (names := regression.worse(entry, history)):
        entry = await _confirmed(wanted, entry, names, runs, say, raw)
    digest = write_bundle(wanted.folder, run.record.run_id, raw, wanted.secrets)
    record = run.record.model_copy(update={"raw_sha256": digest})
    entry = entry.model_copy(
        update={"raw_sha256": digest, "record_sha256": write_record(wanted.folder, record, wanted.secrets)}
    )
    benchmarks = wanted.lab.benchmarks or Benchmarks()
    entry = judged(entry, judge(wanted.plan, benchmarks, record, Beside(history=history.with_entry(entry))))
    store.append(wanted.folder, entry)
    after = history.with_entry(entry)
    prune(wanted.folder, [after.baseline.run_id] if after.baseline else [])
    return Measured(record=record, history=after, settled=settled)


def _asked(wanted: Wanted, history: History, record: RunRecord) -> str:
    """Run from which on comparisons begin anew: this one, or that which the last run named."""
    if wanted.rebaseline:
        return record.run_id
    return history.entries[-1].config.get(ASKED, "") if history.entries else ""


async def _confirmed(  # noqa: PLR0913, PLR0917 # one step of the above
    wanted: Wanted, entry: Entry, names: tuple[str, ...], runs: Runs, say: Say, raw: dict[str, str]
) -> Entry:
    """The entry with the values of a second run over what was worse; its raw outputs join those of the first."""
    plan = confirming(wanted.plan, names)
    if plan is None:
        return entry
    say(f"worse than the baseline: {', '.join(names)}; measured once more")
    run = await runs(plan)
    again = values_of(plan, run.record)
    raw |= {f"again/{name}": text for name, text in run.raw.items()}
    values = {
        name: value.model_copy(update={"again": again[name].median}) if name in names and name in again else value
        for name, value in entry.values.items()
    }
    return entry.model_copy(update={"values": values})

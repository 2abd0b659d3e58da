"""The history of a lab: a few numbers per run, what makes two runs comparable, and the comparison.
Pure.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Literal

from pydantic import ValidationError

from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.pvrdma_path import NOT_PROVEN, PATH, proof_in_words
from components.validation.records import (
    Frozen,
    RunHead,
    RunRecord,
    TransferResult,
    median_of,
    unit_of,
)
from components.validation.repeats import cv
from components.validation.summary import Comparison, Regression, Summary, function_of_tests

KEPT = 10
"""Runs in the stack's state; the store has all."""


class Value(Frozen):
    """One number of a run that can be compared with that of another run."""

    median: float
    unit: str
    cv: float | None = None
    """Coefficient of variation over the repeats of all pairs."""
    again: float | None = None
    """Value of the confirming run, if the first run was worse than the baseline."""

    @property
    def lower_is_better(self) -> bool:
        """Whether it is a time."""
        return self.unit == "us"


class Entry(RunHead):
    schema_version: Literal[1] = 1
    lab: str
    function: str
    performance: str
    passed: bool
    """Whether it may be a baseline."""
    config: dict[str, str]
    """What two runs must share to be compared, by name."""
    values: dict[str, Value]
    """By test, shape and rail, or by job and transport."""
    document_sha256: str = ""


class History(Frozen):
    """The history in the state: the last runs, the oldest first, and the last one that passed."""

    entries: tuple[Entry, ...] = ()
    baseline: Entry | None = None

    def with_entry(self, entry: Entry) -> "History":
        """The history after a run."""
        return history_of([*self.known, entry])

    def merged(self, others: Iterable[Entry]) -> "History":
        """Joined with the runs of another place: the state may be new, or the store empty."""
        return history_of([*others, *self.known])

    def before(self, run_id: str) -> "History":
        """The history without a run, with which the run is compared."""
        return history_of(entry for entry in self.known if entry.run_id != run_id)

    def entry(self, run_id: str) -> Entry | None:
        """The run of that name."""
        for entry in self.entries:
            if entry.run_id == run_id:
                return entry
        return None

    def baseline_for(self, config: dict[str, str]) -> Entry | None:
        """The last run that passed with the same configuration; else the last one that passed at
        all.
        """
        passing = [entry for entry in self.known if entry.passed and entry.values]
        same = [entry for entry in passing if entry.config == config]
        return (same or passing)[-1] if passing else None

    def comparable(self, config: dict[str, str]) -> list[Entry]:
        """Runs that passed with the same configuration."""
        return [entry for entry in self.known if entry.passed and entry.config == config]

    @property
    def known(self) -> list[Entry]:
        """All of them: the baseline may be older than the last runs."""
        old = []
        if self.baseline and self.entry(self.baseline.run_id) is None:
            old = [self.baseline]
        return [*old, *self.entries]


def history_of(entries: Iterable[Entry]) -> History:
    """The history of any runs in any order: each run counts once, and the last `KEPT` stay."""
    by_run = {entry.run_id: entry for entry in entries}
    ordered = sorted(by_run.values(), key=lambda entry: (entry.started_at, entry.run_id))
    passing = [entry for entry in ordered if entry.passed and entry.values]
    baseline = passing[-1] if passing else None
    return History(entries=tuple(ordered[-KEPT:]), baseline=baseline)


def history_in(kept: object) -> History:
    """The history in a stack's state; an unreadable one counts as empty, so it never prevents a
    measurement.
    """
    try:
        return History.model_validate(kept)
    except ValidationError:
        return History()


REBASELINE = "rebaseline"
"""Part of a configuration that only you change: it discards earlier baselines."""
PVRDMA_PATH = "PVRDMA path"
"""Whether the HCAs' counters proved that the values are those of RDMA."""
RATED = ("one_way", "both_ways")


def entry_of(plan: Plan, record: RunRecord, rebaselined: str = "") -> Entry:
    """A run as the history has it, before it is judged.

    Args:
        plan: what was measured.
        record: what came of it.
        rebaselined: the run from which comparisons start over.
    """
    return Entry(
        **record.head,
        lab=plan.lab,
        function="skip",
        performance="not rated",
        passed=False,
        config=config_of(plan, record) | ({REBASELINE: rebaselined} if rebaselined else {}),
        values=values_of(plan, record),
    )


def passes(summary: Summary) -> bool:
    """Whether a run may be a baseline. Warnings pass: otherwise a lab with a known warning could
    never be compared.

    A run over an unproven PVRDMA path passes too: the path is part of its configuration, so it is
    only compared with runs of the same kind.
    """
    unknown = [test for test in summary.tests if test.test == PATH and test.function == "skip"]
    rest = [test.function for test in summary.tests if test not in unknown]
    works = summary.function == "pass"
    if unknown and summary.function == "skip" and not summary.stale:
        works = function_of_tests(rest) == "pass"
    return works and summary.performance not in ("fail", "unstable")


def unproven(entry: Entry) -> bool:
    """Whether it is not known that all its values are those of RDMA."""
    return entry.config.get(PVRDMA_PATH, "").startswith(NOT_PROVEN)


def judged(entry: Entry, summary: Summary) -> Entry:
    """The entry with its verdict."""
    same = {}
    for name in ("function", "performance", "raw_sha256"):
        same[name] = getattr(summary, name)
    return entry.replace(passed=passes(summary), **same)


def values_of(plan: Plan, record: RunRecord) -> dict[str, Value]:
    """The values that two runs are compared by: medians over all pairs of a rail, and those of
    jobs.
    """
    values: dict[str, Value] = {}
    for stage in plan.stages:
        for rail in plan.rails:
            measured = record.measured_of(stage.test, stage.shape, rail.name)
            middle = median_of(measured)
            if middle is not None and stage.shape in RATED:
                value = Value(median=middle, unit=unit_of(stage.test), cv=_pooled_cv(measured))
                values[f"{stage.test} {stage.shape} {rail.name}"] = value
    return values | _values_of_gpus(record) | _values_of_jobs(record)


def _values_of_gpus(record: RunRecord) -> dict[str, Value]:
    values: dict[str, Value] = {}
    near = [t for t in record.gpu_memory if t.outcome == "measured" and t.gbit_s and not t.far]
    if near:
        slowest = min(near, key=lambda t: t.ratio)
        values["gpu_memory"] = Value(median=slowest.gbit_s or 0.0, unit="Gbit/s")
    alone = []
    for ring in record.rings:
        if ring.outcome == "measured":
            alone.append(ring.of_itself)
    if alone:
        values["nccl_one_node"] = Value(median=min(alone), unit="GB/s")
    nccl = record.nccl
    if nccl and nccl.busbw_gbyte_s is not None and not nccl.replayed:
        values["nccl_all_reduce"] = Value(median=nccl.busbw_gbyte_s, unit="GB/s")
    return values


def _values_of_jobs(record: RunRecord) -> dict[str, Value]:
    measured: dict[tuple[str, str], list[float]] = {}
    for job in record.jobs:
        if job.value is not None and not job.replayed:
            name = f"{job.program} {job.transport}"
            measured.setdefault((name, job.unit), []).append(job.value)
    return {name: Value(median=median(of), unit=unit) for (name, unit), of in measured.items()}


def _pooled_cv(transfers: Iterable[TransferResult]) -> float | None:
    """Coefficient of variation over the repeats of all pairs."""
    squares = []
    for t in transfers:
        if len(t.samples) > 1:
            squares.append(cv(t.samples) ** 2)
    if squares:
        return round(math.sqrt(math.fsum(squares) / len(squares)), 4)
    return None


def config_of(plan: Plan, record: RunRecord) -> dict[str, str]:
    """What makes two runs comparable, by name; unknown parts are left out."""
    hosts = record.hosts.values()
    lines = set()
    for t in record.transfers:
        if t.line_rate_gbit_s:
            lines.add(f"{t.line_rate_gbit_s:g}")
    # ports and bounds of time change nothing that is measured
    tests = plan.verbs.model_dump_json(exclude={"first_port", "timeout_s"})
    parts = {
        "nodes": str(len(plan.nodes)),
        "rails": _joined({rail.name for rail in plan.rails}),
        "path MTU": _joined({str(rail.path_mtu_bytes) for rail in plan.rails}),
        "NIC": _joined({host.nic for host in hosts}),
        "driver": _joined({host.driver for host in hosts}),
        "firmware": _joined({host.firmware for host in hosts}),
        "line rate": _joined(lines),
        "image": plan.nccl.image if plan.nccl else "",
        "tests": hashlib.sha256(tests.encode()).hexdigest()[:12],
        PVRDMA_PATH: proof_in_words(plan, record),
    }
    return {key: value for key, value in parts.items() if value}


def _joined(values: set[str]) -> str:
    return ", ".join(sorted(value for value in values if value))[:120]


LEAST_BANDWIDTH, LEAST_LATENCY = 0.05, 0.10
"""Changes below these are noise on any fabric."""
SPREADS = 3.0
"""Coefficients of variation that a change has to exceed."""
CREEP = 0.08
"""Loss against the best known run that counts as a slow decline."""
LEAST_CREEP_RUNS = 2
MOST_REASONS = 6


def change(now: float, before: float) -> float:
    """Relative change; -0.05 is five per cent less."""
    return (now - before) / before if before else 0.0


def limit(now: Value, before: Value) -> float:
    """The relative loss that noise explains."""
    pooled = math.sqrt(((now.cv or 0.0) ** 2 + (before.cv or 0.0) ** 2) / 2)
    least = LEAST_LATENCY if now.lower_is_better else LEAST_BANDWIDTH
    return max(least, SPREADS * pooled)


def loss(now: Value, before: float, value: float | None = None) -> float:
    """Relative loss of a value; negative if it is better."""
    if value is None:
        value = now.median
    moved = change(value, before)
    return moved if now.lower_is_better else -moved


def worse_values(entry: Entry, history: History) -> tuple[str, ...]:
    """Names of the values that lost more than noise against the baseline; a confirming run measures
    them again.
    """
    return tuple(name for name, pair in _comparable(entry, history).items() if _is_worse(*pair))


def relative_changes(entry: Entry, history: History) -> dict[str, float]:
    """Relative change of each value against the baseline; empty where nothing can be compared."""
    pairs = _comparable(entry, history)
    return {
        name: round(change(now.median, before.median), 4) for name, (now, before) in pairs.items()
    }


def confirmed_losses(entry: Entry, history: History) -> tuple[str, ...]:
    """Names of the values that were worse in the confirming run too."""
    pairs = _comparable(entry, history)
    return tuple(name for name, pair in pairs.items() if _is_worse(*pair) and _again_worse(*pair))


def compared(entry: Entry, history: History) -> Regression | None:
    """The comparison; None for the first run of a lab and in the simulator."""
    baseline = history.baseline_for(entry.config)
    if baseline is None or entry.simulated or baseline.simulated:
        return None
    if baseline.config != entry.config:
        reasons = (*_other_config(entry, baseline), *_moved(entry, baseline))
        return Regression(
            baseline_run=baseline.run_id, verdict="not comparable", reasons=reasons[:MOST_REASONS]
        )
    pairs, worse, creeping = (
        _shared(entry, baseline),
        worse_values(entry, history),
        tuple(_creep(entry, history)),
    )
    if not worse and not creeping:
        verdict: Comparison = "same"
        if any(-loss(now, old.median) > limit(now, old) for now, old in pairs.values()):
            verdict = "better"
        return Regression(baseline_run=baseline.run_id, verdict=verdict)
    reasons = (*(_line(name, *pairs[name]) for name in worse), *creeping)[:MOST_REASONS]
    verdict = "worse"
    if worse and not confirmed_losses(entry, history):
        verdict = "unconfirmed"
    return Regression(baseline_run=baseline.run_id, verdict=verdict, reasons=reasons)


def _comparable(entry: Entry, history: History) -> dict[str, tuple[Value, Value]]:
    """The values that run and baseline share; none where the configurations differ, or in the
    simulator.
    """
    baseline = history.baseline_for(entry.config)
    if baseline is None or baseline.config != entry.config or entry.simulated or baseline.simulated:
        return {}
    return _shared(entry, baseline)


def _shared(entry: Entry, baseline: Entry) -> dict[str, tuple[Value, Value]]:
    """The values that both have, now and before, by name."""
    shared = {}
    for name, now in entry.values.items():
        if name in baseline.values:
            shared[name] = (now, baseline.values[name])
    return shared


def _is_worse(now: Value, before: Value) -> bool:
    return loss(now, before.median) > limit(now, before)


def _again_worse(now: Value, before: Value) -> bool:
    return now.again is not None and loss(now, before.median, now.again) > limit(now, before)


def _creep(entry: Entry, history: History) -> Iterator[str]:
    runs = history.comparable(entry.config)
    for name, now in entry.values.items():
        known = [run.values[name] for run in runs if name in run.values]
        if len(known) < LEAST_CREEP_RUNS:
            continue
        best = (min if now.lower_is_better else max)(value.median for value in known)
        spread = median([value.cv or 0.0 for value in (*known, now)])
        least = LEAST_LATENCY if now.lower_is_better else CREEP
        if loss(now, best) > max(CREEP, SPREADS * spread, least):
            yield (
                f"{name}: {now.median:.4g} {now.unit} is {loss(now, best):.1%} worse than the "
                f"best of the last {len(known)} runs ({best:.4g}), after small losses"
            )


def _line(name: str, now: Value, before: Value) -> str:
    lost = loss(now, before.median)
    if now.again is None:
        again = "no second run confirmed it"
    elif _again_worse(now, before):
        again = f"a second run confirms it: {now.again:.4g}"
    else:
        again = f"a second run does not: {now.again:.4g}"
    more = "more" if now.lower_is_better else "less"
    return (
        f"{name}: {now.median:.4g} {now.unit} is {lost:.1%} {more} than {before.median:.4g}; "
        f"{again}"
    )


def _other_config(entry: Entry, baseline: Entry) -> Iterator[str]:
    for key in sorted({*entry.config, *baseline.config}):
        now, before = entry.config.get(key, ""), baseline.config.get(key, "")
        if now != before:
            yield f"{key} was {before or 'unknown'}, is {now or 'unknown'}"


def _moved(entry: Entry, baseline: Entry) -> Iterator[str]:
    """Values that changed together with the configuration: shown, not judged."""
    for name, (now, before) in _shared(entry, baseline).items():
        if abs(change(now.median, before.median)) > limit(now, before):
            yield f"{name} was {before.median:.4g} {now.unit}, is {now.median:.4g}: not judged"

"""Compares a run with the last one that passed. Worse means: by more than noise, in two measurements. Pure."""

import math
from collections.abc import Iterator
from statistics import median

from components.validation.memory.history import Entry, History, Value
from components.validation.summary import Regression

LEAST_BANDWIDTH, LEAST_LATENCY = 0.05, 0.10
"""Changes below these are noise on any fabric."""
SPREADS = 3.0
"""Coefficients of variation that a change has to exceed."""
CREEP = 0.08
"""Loss against the best known run that counts as a slow decline: many steps, each too small to report."""
LEAST_CREEP_RUNS = 2
MOST_REASONS = 6


def change(now: float, before: float) -> float:
    """Relative change; -0.05 is five per cent less."""
    return (now - before) / before if before else 0.0


def limit(now: Value, before: Value) -> float:
    """The relative loss that noise explains."""
    pooled = math.sqrt(((now.cv or 0.0) ** 2 + (before.cv or 0.0) ** 2) / 2)
    return max(LEAST_LATENCY if now.lower_is_better else LEAST_BANDWIDTH, SPREADS * pooled)


def loss(now: Value, before: float, value: float | None = None) -> float:
    """Relative loss of a value; negative if it is better."""
    moved = change(now.median if value is None else value, before)
    return moved if now.lower_is_better else -moved


def worse(entry: Entry, history: History) -> tuple[str, ...]:
    """Names of the values that lost more than noise against the baseline; a confirming run measures them again."""
    return tuple(name for name, pair in _comparable(entry, history).items() if _is_worse(*pair))


def changes(entry: Entry, history: History) -> dict[str, float]:
    """Relative change of each value against the baseline; empty where nothing can be compared."""
    pairs = _comparable(entry, history)
    return {name: round(change(now.median, before.median), 4) for name, (now, before) in pairs.items()}


def confirmed(entry: Entry, history: History) -> tuple[str, ...]:
    """Names of the values that were worse in the confirming run too."""
    pairs = _comparable(entry, history)
    return tuple(name for name, pair in pairs.items() if _is_worse(*pair) and _again_worse(*pair))


def compare(entry: Entry, history: History) -> Regression | None:
    """The comparison; None for the first run of a lab and in the simulator."""
    baseline = history.baseline_for(entry.config)
    if baseline is None or entry.simulated or baseline.simulated:
        return None
    if baseline.config != entry.config:
        reasons = (*_other_config(entry, baseline), *_moved(entry, baseline))
        return Regression(baseline_run=baseline.run_id, verdict="not comparable", reasons=reasons[:MOST_REASONS])
    pairs, found, creeping = _shared(entry, baseline), worse(entry, history), tuple(_creep(entry, history))
    if not found and not creeping:
        better = any(_is_better(*pair) for pair in pairs.values())
        return Regression(baseline_run=baseline.run_id, verdict="better" if better else "same")
    reasons = (*(_line(name, *pairs[name]) for name in found), *creeping)
    return Regression(
        baseline_run=baseline.run_id,
        verdict="unconfirmed" if found and not confirmed(entry, history) else "worse",
        reasons=reasons[:MOST_REASONS],
    )


def _comparable(entry: Entry, history: History) -> dict[str, tuple[Value, Value]]:
    """The values that run and baseline share; none where the configurations differ, or in the simulator."""
    baseline = history.baseline_for(entry.config)
    if baseline is None or baseline.config != entry.config or entry.simulated or baseline.simulated:
        return {}
    return _shared(entry, baseline)


def _shared(entry: Entry, baseline: Entry) -> dict[str, tuple[Value, Value]]:
    """The values that both have, now and before, by name."""
    return {name: (now, baseline.values[name]) for name, now in entry.values.items() if name in baseline.values}


def _is_worse(now: Value, before: Value) -> bool:
    return loss(now, before.median) > limit(now, before)


def _is_better(now: Value, before: Value) -> bool:
    return -loss(now, before.median) > limit(now, before)


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
        if loss(now, best) > max(CREEP, SPREADS * spread, LEAST_LATENCY if now.lower_is_better else 0.0):
            yield (
                f"{name}: {now.median:.4g} {now.unit} is {loss(now, best):.1%} worse than the best of the last "
                f"{len(known)} runs ({best:.4g}), in small steps"
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
    return f"{name}: {now.median:.4g} {now.unit} is {lost:.1%} {more} than {before.median:.4g}; {again}"


def _other_config(entry: Entry, baseline: Entry) -> Iterator[str]:
    for key in sorted({*entry.config, *baseline.config}):
        now, before = entry.config.get(key, ""), baseline.config.get(key, "")
        if now != before:
            yield f"{key} was {before or 'unknown'}, is {now or 'unknown'}"


def _moved(entry: Entry, baseline: Entry) -> Iterator[str]:
    """Values that changed together with the configuration: shown, not judged."""
    for name, (now, before) in _shared(entry, baseline).items():
        if abs(change(now.median, before.median)) > limit(now, before):
            yield f"{name} was {before.median:.4g} {now.unit}, is {now.median:.4g}: seen, not judged"

"""What changed since a verdict was measured: with any of it the verdict is old, and not green. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import cast

from components.validation.judging.states import few
from components.validation.summary import Summary

WORDS = {"machine_id": "machine", "boot_id": "boot", "repairs": "repairs"}
"""Facts whose values say nothing to a reader, by the word for them."""
STALE = "stale"
AGAIN = {True: "make validate", False: "ROCELAB_VALIDATE=again pulumi up --refresh --run-program"}
"""How a human asks for a measurement, by simulated or not; the refresh lets it know the hosts as they are now."""

State = Mapping[str, tuple[Mapping[str, object] | None, Mapping[str, object] | None]]


def changed_since(measured: str, now: str, *, plan_changed: bool = False) -> tuple[str, ...]:
    """What differs between the hosts as they were measured and as they are, by node, in a few lines.

    Args:
        measured: `fingerprint.host_state` of the measurement.
        now: that of this run.
        plan_changed: whether the lab asks for another plan now.
    """
    plan = ["the plan: the lab asks for other measurements"] if plan_changed else []
    if measured == now:
        return tuple(plan)
    before, after = _parsed(measured), _parsed(now)
    texts = [*plan, *(_node(name, before, after) for name in sorted({*before, *after}))]
    return few((text for text in texts if text), most=6)


def made_stale(judged: Summary, changes: tuple[str, ...]) -> Summary:
    """The same judgement when it is old: what passed then is not known to pass now; what failed stays failed."""
    if not changes:
        return judged
    return judged.model_copy(
        update={
            "stale": changes,
            "function": "skip" if judged.function == "pass" else judged.function,
            "performance": judged.performance if judged.performance == "fail" else "not rated",
            "performance_because": "" if judged.performance == "fail" else STALE,
            "reasons": few([f"stale: {text}" for text in changes] + list(judged.reasons)),
            "hints": few([f"measure again: {AGAIN[judged.simulated]}", *judged.hints]),
        }
    )


def _parsed(text: str) -> State:
    return cast(State, json.loads(text))


def _node(name: str, before: State, after: State) -> str:
    if name not in before:
        return f"{name} was not there when it was measured"
    if name not in after:
        return f"{name} is gone"
    parts = [
        *_parts(before[name][0] or {}, after[name][0] or {}),
        *_parts(before[name][1] or {}, after[name][1] or {}),
    ]
    return f"{name}: {', '.join(parts)}" if parts else ""


def _parts(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if key in WORDS:
            yield f"{WORDS[key]} changed"
        elif isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from (f"{key} {text}" for text in _parts(old, new))
        else:
            yield f"{key} {_shown(old)} is now {_shown(new)}"


def _shown(value: object) -> str:
    if value is None:
        return "untold"
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else f"{text[:57]}..."

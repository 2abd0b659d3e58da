"""Decides when a verdict is stale: the hosts' facts that results depend on, and what changed in
them. Pure.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping

from components.validation.benchmarks.plan import Plan
from components.validation.summary import Summary, closed, few

FACTS = (
    "machine_id",
    "boot_id",
    "repairs",
    "kernel",
    "driver",
    "nics",
    "gpu",
    "gpudirect",
    "roce_qos",
)
"""Facts whose change can change a result; other facts may differ from run to run."""

WORDS = {"machine_id": "machine", "boot_id": "boot", "repairs": "repairs"}
"""Facts whose values mean nothing to a reader, by the word to show instead."""
STALE = "stale"
AGAIN = {True: "make validate", False: "ROCELAB_VALIDATE=again pulumi up --refresh"}
"""The command that measures again, by simulated or not; the refresh reads the hosts as they are
now."""

HostStates = Mapping[str, Mapping[str, object]]


def host_states(
    results: Mapping[str, object], facts: Mapping[str, object]
) -> dict[str, dict[str, object]]:
    """The relevant facts of each host, by its name."""
    names = sorted({*results, *facts})
    states = {}
    for name in names:
        states[name] = _part(results.get(name), ("status",)) | _part(facts.get(name), FACTS)
    return states


def fingerprint_of(plan: Plan, states: HostStates) -> str:
    """Digest of everything whose change requires a new measurement."""
    return hashlib.sha256(
        f"{plan.digest}\n{json.dumps(states, sort_keys=True)}".encode()
    ).hexdigest()


def changed_since(
    measured: HostStates, now: HostStates, *, plan_changed: bool = False
) -> tuple[str, ...]:
    """What changed on the hosts since the measurement: a few lines, one per node.

    Args:
        measured: `host_states` of the measurement.
        now: `host_states` of this run.
        plan_changed: whether the lab file has another plan now.
    """
    plan = []
    if plan_changed:
        plan = ["the plan: the lab file sets other measurements"]
    texts = [*plan, *(_node(name, measured, now) for name in sorted({*measured, *now}))]
    return few((text for text in texts if text), most=6)


def made_stale(judged: Summary, changes: tuple[str, ...]) -> Summary:
    """The verdict of a stale measurement: a pass becomes unknown, a failure stays."""
    if not changes:
        return judged
    function, performance, because = judged.function, "not rated", STALE
    if function == "pass":
        function = "skip"
    if judged.performance == "fail":
        performance, because = "fail", ""
    return judged.replace(
        stale=changes,
        function=function,
        performance=performance,
        performance_because=because,
        reasons=few([f"stale: {text}" for text in changes] + list(judged.reasons)),
        hints=few([f"measure again: {AGAIN[judged.simulated]}", *judged.hints]),
    )


def after_up(summary: Summary, begun: str, *, failed: bool) -> Summary:
    """The verdict after `pulumi up`: stale if the up failed and the verdict is of an earlier one.

    Args:
        summary: the verdict in the state.
        begun: when `pulumi up` started, in the format of `Summary.started_at`.
        failed: whether it failed.
    """
    # the gate fails every up with such a verdict, without measuring: the lab is as it was
    gate_closed = closed(summary.mode, summary.function, summary.performance)
    if not failed or summary.started_at >= begun or gate_closed:
        return summary
    why = f"pulumi up failed before measuring: this is the verdict of run {summary.run_id}"
    return made_stale(summary, (why,))


def _part(value: object, keys: tuple[str, ...]) -> dict[str, object]:
    if isinstance(value, Mapping):
        return {key: value[key] for key in keys if key in value}
    return {}


def _node(name: str, before: HostStates, after: HostStates) -> str:
    if name not in before:
        return f"{name} was not in the last measurement"
    if name not in after:
        return f"{name} is gone"
    parts = list(_parts(before[name], after[name]))
    return f"{name}: {', '.join(parts)}" if parts else ""


def _parts(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if key in WORDS:
            yield f"{WORDS[key]} changed"
        elif isinstance(old, Mapping) and isinstance(new, Mapping):
            for text in _parts(old, new):
                yield f"{key} {text}"
        else:
            yield f"{key} {_shown(old)} is now {_shown(new)}"


def _shown(value: object) -> str:
    if value is None:
        return "untold"
    if isinstance(value, float):
        return f"{value:g}"  # the engine knows no whole numbers
    if isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else f"{text[:57]}..."

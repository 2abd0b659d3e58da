"""What a run's transfers are compared with before a fault is looked for: their own ceilings, where they have any."""

from collections.abc import Iterable, Mapping
from statistics import median

from components.validation.benchmarks.verbs.judge import ceiling_of
from components.validation.benchmarks.verbs.stages import Stage
from components.validation.judging.evidence import USUAL, Fabric, Value, Way
from components.validation.planning.plan import Plan
from components.validation.records import TransferResult

BEST_SHARE = 0.9
"""Quantile of a rail's own values that stands for a sound path where nobody can compute one."""


def main_stage(plan: Plan) -> Stage | None:
    """The bandwidth test by which rails and nodes are compared."""
    return next((stage for stage in plan.stages if stage.bandwidth and stage.shape == "one_way"), None)


def compared_stage(plan: Plan) -> Stage | None:
    """The test whose transfers say where a fault lies: the main one, else the first, whose failures still tell."""
    return main_stage(plan) or next(iter(plan.stages), None)


def fabric_of(
    plan: Plan,
    stage: Stage,
    transfers: Iterable[TransferResult],
    topology: Mapping[tuple[str, str], str] | None = None,
) -> Fabric:
    """The values of a stage with the ceiling of each transfer: on a rail, NICs of two line rates accuse nobody.

    Args:
        plan: the rails.
        stage: the test that all the transfers are of.
        transfers: its results; those that were skipped, on purpose, say nothing.
        topology: leaf switch by (node, rail), where it is known.
    """
    found = [t for t in transfers if t.outcome != "skipped"]
    values = {Way(t.rail, t.client, t.server): first_value(t) for t in found}
    ceilings: dict[Way, float] = {}
    expected: dict[str, float] = {}
    for rail in plan.rails if stage.bandwidth else ():
        known = {
            Way(t.rail, t.client, t.server): ceiling.value
            for t in found
            if t.rail == rail.name and (ceiling := ceiling_of(rail, stage, t))
        }
        if not known:
            continue
        share = _share(known, values) if rail.pvrdma else 1.0
        middle = median(known.values())
        expected[rail.name] = share * middle
        ceilings |= {way: share * value for way, value in known.items() if value != middle}
    rated = stage.bandwidth and not plan.simulated
    return Fabric(values=values, expected=expected, ceiling_of=ceilings, leaf_of=topology or {}, rated=rated)


def first_value(transfer: TransferResult) -> float | None:
    """The value of the run itself; None where it failed, whatever a second try told."""
    measured = transfer.outcome == "measured" and not transfer.second_try
    return transfer.value if measured and transfer.samples else None


def _share(ceilings: Mapping[Way, float], values: Mapping[Way, Value]) -> float:
    """What a paravirtual rail makes of its line: nobody can compute that, so its own best paths are the measure."""
    ratios = sorted(value / ceiling for way, ceiling in ceilings.items() if (value := values[way]))
    return min(1.0, ratios[int(BEST_SHARE * (len(ratios) - 1))] / USUAL) if ratios else 1.0

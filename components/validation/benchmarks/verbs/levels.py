"""Locates faults by the transfers of one test, each held against its own ceiling."""

from collections.abc import Iterable, Mapping
from statistics import median

from components.validation.benchmarks.verbs.judge import ceiling_of
from components.validation.judging.evidence import USUAL, MeasuredFabric, Value
from components.validation.judging.findings import Located
from components.validation.judging.localise import Localiser
from components.validation.planning.plan import Plan
from components.validation.planning.stages import Stage
from components.validation.records import Flow, RunRecord, TransferResult

BEST_SHARE = 0.9
"""Quantile of a rail's own values that counts as a sound path where no ceiling can be computed."""

Topology = Mapping[tuple[str, str], str]
"""Leaf switch by (node, rail)."""


def compared_stage(plan: Plan) -> Stage | None:
    """The test that locates faults: the main one, else the first, of which only failures count."""
    return plan.main_stage or next(iter(plan.stages), None)


def located(plan: Plan, record: RunRecord, topology: Topology) -> Located | None:
    """Where faults lie; None where nothing was tested. In the simulator only failures count."""
    stage = compared_stage(plan)
    if stage is None:
        return None
    tried = [t for t in record.transfers if (t.test, t.shape) == (stage.test, stage.shape) and t.outcome != "skipped"]
    if not tried:
        return None
    # 0 is a repetition that failed
    again = {
        t.flow: tuple(value or None for value in (t.samples if t.second_try else t.retest))
        for t in tried
        if t.second_try or t.retest
    }
    return Localiser(fabric_of(plan, stage, tried, topology)).localise(again)


def fabric_of(
    plan: Plan,
    stage: Stage,
    transfers: Iterable[TransferResult],
    topology: Topology | None = None,
) -> MeasuredFabric:
    """The values of a stage, each with its own ceiling, since NICs of one rail may have different line rates.

    Args:
        plan: the rails.
        stage: the test that produced the transfers.
        transfers: its results; skipped ones are left out.
        topology: leaf switch by (node, rail), where it is known.
    """
    tried = [t for t in transfers if t.outcome != "skipped"]
    values = {t.flow: first_value(t) for t in tried}
    ceilings: dict[Flow, float] = {}
    expected: dict[str, float] = {}
    for rail in plan.rails if stage.bandwidth else ():
        known = {
            t.flow: ceiling.value for t in tried if t.rail == rail.name and (ceiling := ceiling_of(rail, stage, t))
        }
        if not known:
            continue
        share = _share(known, values) if rail.pvrdma else 1.0
        middle = median(known.values())
        expected[rail.name] = share * middle
        ceilings |= {flow: share * value for flow, value in known.items() if value != middle}
    rated = stage.bandwidth and not plan.simulated
    return MeasuredFabric(values=values, expected=expected, ceiling_of=ceilings, leaf_of=topology or {}, rated=rated)


def first_value(transfer: TransferResult) -> float | None:
    """The value of the run itself; None where it failed, even if a second try succeeded."""
    measured = transfer.outcome == "measured" and not transfer.second_try
    return transfer.value if measured and transfer.samples else None


def _share(ceilings: Mapping[Flow, float], values: Mapping[Flow, Value]) -> float:
    """The share of its line rate that a paravirtual rail reaches on its best paths; it cannot be computed."""
    ratios = sorted(value / ceiling for flow, ceiling in ceilings.items() if (value := values[flow]))
    return min(1.0, ratios[int(BEST_SHARE * (len(ratios) - 1))] / USUAL) if ratios else 1.0

"""The verdict on perftest: bandwidths against ceilings and the median of their rail, latencies
against bounds. Pure.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import median

from components.finding import Finding
from components.physics.ceilings import Ceiling, Path, bandwidth_ceiling
from components.validation.benchmarks.plan import Plan, PlannedRail
from components.validation.benchmarks.verbs.plan import Stage
from components.validation.records import (
    Flow,
    RunRecord,
    TransferResult,
    median_of,
    outcome_counts,
    unit_of,
)
from components.validation.repeats import cv, repeats
from components.validation.search.localise import Localiser
from components.validation.search.located import Located
from components.validation.search.measured_fabric import USUAL, MeasuredFabric, Topology, Value
from components.validation.summary import (
    NOTHING,
    SHOWN_ONLY,
    SIMULATED,
    JudgedTest,
    Pair,
    Performance,
    function_of_counts,
    rate,
    too_many,
    unrated,
    where_of,
    worse_of,
)
from stacks.benchmarks import Benchmarks, Threshold
from stacks.sets import folded
from stacks.words import plural

NO_LINE_RATE = "the ports do not report their line rate"
NOISY_CV = 0.03
REPEATED_SIGMAS = 7
"""Standard deviations below the rail's median that noise does not reach among the transfers of 256
nodes on eight rails in a thousand runs; from three repeats they are estimated a tenth too low."""
MEDIAN_TO_MEAN = 1.2533
"""Standard deviation of a median over that of a mean of normal values: the root of half of pi."""
LEAST_REPEATS = 3
"""Repeats from which a transfer is proven without another measurement."""


def settled(transfer: TransferResult) -> float:
    """The value that is judged: of the repetition with fewer transfers at once, if there
    was one.
    """
    if transfer.retest:
        return median(transfer.retest)
    if transfer.samples:
        return repeats(transfer.samples).median
    return 0.0


def _pair(transfer: TransferResult) -> Pair:
    value = round(settled(transfer), 4)
    return Pair(client=transfer.client, server=transfer.server, value=value)


def path_of(rail: PlannedRail, stage: Stage, transfer: TransferResult) -> Path | None:
    """The path of a bandwidth between two ports; None where they do not report their line rate."""
    operation = stage.program.operation
    if not transfer.line_rate_gbit_s or operation is None:
        return None
    return Path(
        line_rate_gbit_s=transfer.line_rate_gbit_s,
        path_mtu_bytes=rail.path_mtu_bytes,
        message_bytes=stage.message_bytes,
        operation=operation,
        pcie_gbit_s=transfer.pcie_gbit_s,
        ports_on_slot=transfer.ports_on_slot,
        both_ways=stage.shape == "both_ways",
    )


def ceiling_of(rail: PlannedRail, stage: Stage, transfer: TransferResult) -> Ceiling | None:
    """The highest bandwidth between the two ports; None where they do not report their line
    rate.
    """
    path = path_of(rail, stage, transfer)
    return _ceiling(path) if path else None


@lru_cache(maxsize=256)  # a lab has a handful of kinds of ports, and thousands of transfers
def _ceiling(path: Path) -> Ceiling:
    return bandwidth_ceiling(path)


def judge_stage(
    plan: Plan, benchmarks: Benchmarks, stage: Stage, rail: PlannedRail, record: RunRecord
) -> JudgedTest:
    """One test on one rail."""
    transfers = record.transfers_of(stage.test, stage.shape, rail.name)
    measured = [t for t in transfers if t.outcome == "measured"]
    counts = outcome_counts(t.outcome for t in transfers)
    # transfers between two machines on one ESXi host do not use the fabric; if all do, nothing was
    # measured
    inside = sum(bool(t.same_host) for t in transfers)
    of_fabric = {
        "failed": counts["failed"] + crowded(measured),
        "skipped": counts["skipped"] - inside,
    }
    because = SIMULATED if record.simulated else NOTHING
    latency = not stage.bandwidth
    chosen = (max if latency else min)(
        (t for t in measured if t.samples), key=settled, default=None
    )
    if stage.shape not in ("one_way", "both_ways"):
        because = SHOWN_ONLY
    worst = _pair(chosen) if chosen else None
    planned = plan.planned(stage, rail.name) - inside
    shown = unrated(
        stage.test,
        function_of_counts(planned, **(counts | of_fabric)),
        because,
        shape=stage.shape,
        rail=rail.name,
        median=median_of(measured),
        unit=unit_of(stage.test),
        worst=worst,
        failed_once=sum(bool(t.failed_once) for t in measured),
        **counts,
    )
    if record.simulated or chosen is None or shown.because == SHOWN_ONLY:
        return shown
    if latency:
        return _latency(benchmarks, stage, rail, shown, measured)
    return _bandwidth(benchmarks, stage, rail, shown, measured)


def _bandwidth(
    benchmarks: Benchmarks,
    stage: Stage,
    rail: PlannedRail,
    shown: JudgedTest,
    measured: list[TransferResult],
) -> JudgedTest:
    ceilings = [(t, ceiling_of(rail, stage, t)) for t in measured]
    rated = [(settled(t) / ceiling.value, ceiling, t) for t, ceiling in ceilings if ceiling]
    if not rated:
        return shown.replace(because=NO_LINE_RATE)
    threshold = benchmarks.verbs.threshold_of(stage.test, stage.shape, pvrdma=rail.pvrdma)
    ratio, ceiling, worst = min(rated, key=lambda row: row[0])
    level = median([value for value, _, _ in rated])
    rated_ratio = ratio
    if ratio > lowest_by_noise(level, measured):
        rated_ratio = level
    own = rate(rated_ratio, threshold)
    among = against_the_others(
        [(value, t) for value, _, t in rated], benchmarks.verbs.threshold_pair
    )
    state = worse_of(own, among, spread(measured), state_of_failed_tries(measured))
    basis = ceiling.basis
    if own != rate(ratio, threshold):
        basis += f"; the slowest is within noise of the rail's {level:.1%}, which is rated"
    silent = len(measured) - len(rated)
    rated_test = shown.rated(state, ceiling.value, basis, ratio, worst=_pair(worst))
    if not silent or state != "pass":
        return rated_test
    # a transfer without a ceiling may be the slowest
    because = f"{silent} of {len(measured)}: {NO_LINE_RATE}"
    return rated_test.replace(performance="not rated", because=because)


def lowest_by_noise(level: float, measured: Sequence[TransferResult]) -> float:
    """The lowest value that noise explains at this level, from the spread of repeats; the level
    itself without repeats.
    """
    repeated = [t.samples for t in measured if len(t.samples) > 1]
    if not repeated:
        return level
    # a median of n values varies by 1.25 / sqrt(n) of what each of them does
    noise = median([cv(samples) * MEDIAN_TO_MEAN / math.sqrt(len(samples)) for samples in repeated])
    return level * (1 - REPEATED_SIGMAS * noise)


def against_the_others(
    ratios: list[tuple[float, TransferResult]], threshold: Threshold
) -> Performance:
    """Each pair against the median of its rail. Only repeated measurements count.

    Args:
        ratios: each transfer over its own ceiling, so that NICs of several line rates can share a
            rail.
        threshold: of a pair to the median.
    """
    level = median([ratio for ratio, _ in ratios])
    proven = []
    if level > 0:
        proven = [
            ratio / level for ratio, t in ratios if t.retest or len(t.samples) >= LEAST_REPEATS
        ]
    return rate(min(proven), threshold) if proven else "pass"


def spread(measured: list[TransferResult]) -> Performance:
    """Whether the repeats of a test agree."""
    repeated = []
    for t in measured:
        if len(t.samples) > 1:
            repeated.append(repeats(t.samples))
    if not repeated:
        return "pass"
    torn = sum(several.unstable for several in repeated)
    if too_many(torn, len(repeated)):
        return "unstable"
    if median([several.cv for several in repeated]) > NOISY_CV:
        return "warn"
    return "pass"


def _latency(
    benchmarks: Benchmarks,
    stage: Stage,
    rail: PlannedRail,
    shown: JudgedTest,
    measured: list[TransferResult],
) -> JudgedTest:
    bounds = benchmarks.verbs.latency_of(pvrdma=rail.pvrdma)
    ways = 2 if stage.program.round_trip else 1
    value = max(settled(t) for t in measured if t.samples) / ways
    state: Performance = "pass"
    if value > bounds.warn_above_us:
        state = "fail" if value > bounds.fail_above_us else "warn"
    basis = USUAL_PVRDMA if rail.pvrdma else USUAL_HARDWARE
    return shown.replace(
        performance=worse_of(state, state_of_failed_tries(measured)),
        because="",
        ceiling=bounds.warn_above_us * ways,
        basis=f"bound {'one way' if ways == 1 else 'there and back'}, a value and no "
        f"ceiling: {basis}",
    )


CODE = "FAILED_ONCE"
CROWDED_SHARE = 0.2
"""Share of a test's transfers on a rail: if more, and more than one, work only with fewer at once,
the fabric does not carry the load of the plan."""


def state_of_failed_tries(measured: Sequence[TransferResult]) -> Performance:
    """One failed try is a warning; with many, the numbers cannot be trusted."""
    count = sum(bool(t.failed_once) for t in measured)
    if not count:
        return "pass"
    if too_many(count, len(measured)):
        return "unstable"
    return "warn"


def only_with_fewer(transfer: TransferResult) -> bool:
    """Whether it failed under the load of the plan, and was measured under a smaller one."""
    return transfer.second_try and transfer.at_once < transfer.failed_at_once


def crowded(measured: Sequence[TransferResult]) -> int:
    """How many transfers work only with fewer at once; 0 where chance explains them."""
    count = sum(map(only_with_fewer, measured))
    if count > max(1, CROWDED_SHARE * len(measured)):
        return count
    return 0


def transfer_reasons(record: RunRecord) -> Iterator[str]:
    """Why transfers are no pass; those with the same reason share a line."""
    texts: dict[str, list[str]] = {}
    for t in record.transfers:
        twice = ""
        if 0 in t.retest and t.reasons:
            twice = f" (again with {t.retest_at_once} at once)"
        for reason in t.reasons:
            texts.setdefault(f"{t.outcome}: {reason}{twice}", []).append(str(t.flow))
    for text, where in texts.items():
        yield f"{where[0]}{f' and {len(where) - 1} more' if where[1:] else ''} {text}"


def crowded_reasons(plan: Plan, record: RunRecord) -> Iterator[str]:
    """Why a test failed in which no single transfer failed."""
    for stage in plan.stages:
        for rail in plan.rails:
            measured = record.measured_of(stage.test, stage.shape, rail.name)
            if count := crowded(measured):
                first = next(filter(only_with_fewer, measured))
                yield (
                    f"{rail.name} {stage.name} failed: {count} of "
                    f"{plural(len(measured), 'transfer')} work only "
                    "with fewer at once than the plan has, such as "
                    f"{first.client} to {first.server}: {first.failed_once}"
                )


def second_try_findings(record: RunRecord) -> Iterator[Finding]:
    """Transfers that failed at one try, grouped by test, with the reason of the first."""
    tests: dict[tuple[str, str], list[TransferResult]] = {}
    for t in record.transfers:
        if t.outcome == "measured" and t.failed_once:
            tests.setdefault((t.test, t.shape), []).append(t)
    for (test, shape), transfers in tests.items():
        first = transfers[0]
        name = test if shape == "one_way" else f"{test} {shape}"
        if first.second_try:
            tries = (
                f"{first.failed_once}; measured at another try, with "
                f"{_load(first.at_once, first.failed_at_once)}"
            )
        else:
            tries = (
                f"measured, then with {_load(first.failed_at_once, first.at_once)} "
                f"{first.failed_once}"
            )
        yield Finding(
            code=CODE,
            where=where_of(transfers),
            evidence=f"{name} {tries}",
            hint=f"run {test} between the two a few times, alone and with the others, and "
            "compare the error counters of both ports before and after",
        )


def _load(at_once: int, before: int) -> str:
    """How many transfers ran at once, compared with the other try."""
    if at_once != before:
        return f"{at_once} at once instead of {before}"
    return f"as many at once ({at_once})"


USUAL_HARDWARE = "1.2 to 2.5 us are usual through one switch"
"""Back to back 0.8 to 0.9 us, 0.25 to 0.6 us a hop; a VF is as fast as its PF."""
USUAL_PVRDMA = "PVRDMA's hardware path needs less than 10 us"
"""Its bound of 50 us is what Bitfusion still works with (VMware's guide)."""

MOST_TAIL_TO_MEDIAN = 10.0
"""99th percentile over median above which a host's sleep states or interrupts are the likely
cause."""


def jitters(median_us: float, tail_us: float) -> bool:
    """Whether the tail is so far above the median that the host is the likely cause."""
    return median_us > 0 and tail_us / median_us > MOST_TAIL_TO_MEDIAN


BEST_SHARE = 0.9
"""Quantile of a rail's own values that counts as a sound path where no ceiling can be computed."""


def compared_stage(plan: Plan) -> Stage | None:
    """The test that locates faults: the main one, else the first, of which only failures count."""
    return plan.main_stage or next(iter(plan.stages), None)


def located(plan: Plan, record: RunRecord, topology: Topology) -> Located | None:
    """Where faults lie; None where nothing was tested. In the simulator only failures count."""
    stage = compared_stage(plan)
    if stage is None:
        return None
    tried = []
    for t in record.transfers:
        of_stage = (t.test, t.shape) == (stage.test, stage.shape)
        if of_stage and t.outcome != "skipped" and not t.ends_at(record.unmeasured):
            tried.append(t)
    if not tried:
        return None
    again: dict[Flow, list[float | None]] = {}
    for t in tried:
        values = t.samples if t.second_try else t.retest
        if values:
            again[t.flow] = [value or None for value in values]  # 0 is a repetition that failed
    return Localiser(fabric_of(plan, stage, tried, topology)).localise(again)


def unmeasured_findings(record: RunRecord) -> list[Finding]:
    """The nodes that took no part: one finding for all, so that it hides no other."""
    nodes = sorted(record.unmeasured)
    if not nodes:
        return []
    why = record.unmeasured[nodes[0]]
    if nodes[1:]:
        why += f"; and {len(nodes) - 1} more"
    return [
        Finding(
            code="NODE_UNMEASURED",
            where=", ".join(folded(nodes)),
            evidence=why,
            hint="no link of these nodes was tested: fix the cause, then measure again",
        )
    ]


def fabric_of(
    plan: Plan,
    stage: Stage,
    transfers: Iterable[TransferResult],
    topology: Topology | None = None,
) -> MeasuredFabric:
    """The values of a stage, each with its own ceiling: NICs of a rail may have other line rates.

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
        of_rail = {t.flow: ceiling_of(rail, stage, t) for t in tried if t.rail == rail.name}
        known = {flow: ceiling.value for flow, ceiling in of_rail.items() if ceiling}
        if not known:
            continue
        share = _share(known, values) if rail.pvrdma else 1.0
        middle = median(known.values())
        expected[rail.name] = share * middle
        ceilings |= {flow: share * value for flow, value in known.items() if value != middle}
    rated = stage.bandwidth and not plan.simulated
    return MeasuredFabric(
        values=values, expected=expected, ceiling_of=ceilings, leaf_of=topology or {}, rated=rated
    )


def first_value(transfer: TransferResult) -> float | None:
    """The value of the run itself; None where it failed, even if a second try succeeded."""
    measured = transfer.outcome == "measured" and not transfer.second_try
    if measured and transfer.samples:
        return transfer.value
    return None


def _share(ceilings: Mapping[Flow, float], values: Mapping[Flow, Value]) -> float:
    """The share of its line rate that a paravirtual rail reaches on its best paths; it cannot be
    computed.
    """
    pairs = [(values[flow], ceiling) for flow, ceiling in ceilings.items()]
    ratios = sorted(value / ceiling for value, ceiling in pairs if value)
    if ratios:
        return min(1.0, ratios[int(BEST_SHARE * (len(ratios) - 1))] / USUAL)
    return 1.0

"""The verdict on perftest: bandwidths against ceilings and the median of their rail, latencies against bounds. Pure."""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from statistics import median

from components.validation.benchmarks.verbs.stages import Stage
from components.validation.judging.states import (
    NOTHING,
    SHOWN_ONLY,
    SIMULATED,
    Overall,
    function_of_counts,
    rate,
    too_many,
    where_of,
    worse_of,
)
from components.validation.judging.statistics import cv, repeats
from components.validation.physics.ceilings import Ceiling, Operation, Path, bandwidth_ceiling
from components.validation.planning.plan import Plan, PlannedRail
from components.validation.records import UNIT_OF, RunRecord, Series, TransferResult
from components.validation.summary import Finding, JudgedTest, Pair, Performance
from stacks.benchmarks import Benchmarks, Threshold

NO_LINE_RATE = "the ports do not report their line rate"
NOISY_CV = 0.03
"""Spread of repeats from which verbs are worth a look."""
LEAST_REPEATS = 3
"""From which on a transfer stands for itself without another measurement."""

OPERATIONS: dict[str, Operation] = {"ib_write_bw": "write", "ib_send_bw": "send", "ib_read_bw": "read"}


def transfers_of(record: RunRecord, stage: Stage, rail: str, outcome: str = "measured") -> list[TransferResult]:
    """The transfers of one test on one rail that the record still has one by one."""
    key = (stage.test, stage.shape, rail, outcome)
    return [t for t in record.transfers if (t.test, t.shape, t.rail, t.outcome) == key]


def settled(transfer: TransferResult) -> float:
    """The value that is judged: that of the repetition with less beside it, where there was one."""
    if transfer.retest:
        return median(transfer.retest)
    return repeats(transfer.samples).median if transfer.samples else 0.0


def path_of(rail: PlannedRail, stage: Stage, transfer: TransferResult) -> Path | None:
    """The way of a bandwidth between two ports; None where they do not report their line rate."""
    if not transfer.line_rate_gbit_s:
        return None
    return Path(
        line_rate_gbit_s=transfer.line_rate_gbit_s,
        path_mtu_bytes=rail.path_mtu_bytes,
        message_bytes=stage.message_bytes,
        operation=OPERATIONS[stage.test],
        pcie_gbit_s=transfer.pcie_gbit_s,
        ports_on_slot=transfer.ports_on_slot,
        both_ways=stage.shape == "both_ways",
    )


def ceiling_of(rail: PlannedRail, stage: Stage, transfer: TransferResult) -> Ceiling | None:
    """What a bandwidth can be at best between the two ports; None where they do not report their line rate."""
    path = path_of(rail, stage, transfer)
    return _ceiling(path) if path else None


@lru_cache(maxsize=256)  # a lab has a handful of kinds of ports, and thousands of transfers
def _ceiling(path: Path) -> Ceiling:
    return bandwidth_ceiling(path)


def function_of_stage(plan: Plan, stage: Stage, rail: str, record: RunRecord) -> Overall:
    """Whether a test ran on a rail as planned; thresholds have no part in it."""
    found = record.series_of(stage.test, stage.shape, rail)
    planned = plan.planned(stage, rail)
    if found is None:
        return "fail"
    # two machines on one host are no part of the fabric; where all are, nothing of it was measured
    inside = sum(bool(t.same_host) for t in transfers_of(record, stage, rail, "skipped"))
    return function_of_counts(
        planned - inside,
        measured=found.measured,
        failed=found.failed + crowded(transfers_of(record, stage, rail), found.measured),
        skipped=found.skipped - inside,
        errors=found.errors,
    )


def judge_stage(plan: Plan, benchmarks: Benchmarks, stage: Stage, rail: PlannedRail, record: RunRecord) -> JudgedTest:
    """One test on one rail."""
    found = record.series_of(stage.test, stage.shape, rail.name) or Series()
    measured = transfers_of(record, stage, rail.name)
    because = SIMULATED if record.simulated else NOTHING
    latency = not stage.bandwidth
    chosen = (max if latency else min)((t for t in measured if t.samples), key=settled, default=None)
    shown = JudgedTest(
        test=stage.test,
        shape=stage.shape,
        rail=rail.name,
        function=function_of_stage(plan, stage, rail.name, record),
        performance="not rated",
        because=because if stage.shape in ("one_way", "both_ways") else SHOWN_ONLY,
        median=found.median,
        unit=UNIT_OF[stage.test],
        worst=Pair(client=chosen.client, server=chosen.server, value=round(settled(chosen), 4)) if chosen else None,
        measured=found.measured,
        failed=found.failed,
        skipped=found.skipped,
        errors=found.errors,
        failed_once=sum(bool(t.failed_once) for t in measured),
    )
    if record.simulated or chosen is None or shown.because == SHOWN_ONLY:
        return shown
    if latency:
        return _latency(benchmarks, stage, rail, shown, measured)
    return _bandwidth(benchmarks, stage, rail, shown, measured)


def _bandwidth(
    benchmarks: Benchmarks, stage: Stage, rail: PlannedRail, shown: JudgedTest, measured: list[TransferResult]
) -> JudgedTest:
    rated = [(settled(t) / ceiling.value, ceiling, t) for t in measured if (ceiling := ceiling_of(rail, stage, t))]
    if not rated:
        return shown.model_copy(update={"because": NO_LINE_RATE})
    threshold = benchmarks.verbs.threshold_of(stage.test, stage.shape, pvrdma=rail.pvrdma)
    ratio, ceiling, worst = min(rated, key=lambda one: one[0])
    once = state_of_failed_tries(measured, shown.measured)
    among = against_the_others([(value, t) for value, _, t in rated], benchmarks.verbs.threshold_pair)
    state = worse_of(rate(ratio, threshold), among, spread(measured), once)
    silent = len(measured) - len(rated)
    return shown.model_copy(
        update={
            # what nothing is known of may be the slowest
            "performance": "not rated" if silent and state == "pass" else state,
            "because": f"{silent} of {len(measured)}: {NO_LINE_RATE}" if silent and state == "pass" else "",
            "ceiling": round(ceiling.value, 3),
            "basis": ceiling.basis,
            "ratio": round(ratio, 4),
            "worst": Pair(client=worst.client, server=worst.server, value=round(settled(worst), 4)),
        }
    )


def against_the_others(ratios: list[tuple[float, TransferResult]], threshold: Threshold) -> Performance:
    """Each pair against the median of its rail. One reading condemns nobody: only repeated ones count.

    Args:
        ratios: of each transfer to its own ceiling, so that NICs of several line rates can share a rail.
        threshold: of a pair to the median.
    """
    level = median([ratio for ratio, _ in ratios])
    proven = [ratio / level for ratio, t in ratios if t.retest or len(t.samples) >= LEAST_REPEATS] if level > 0 else []
    return rate(min(proven), threshold) if proven else "pass"


def spread(measured: list[TransferResult]) -> Performance:
    """Whether repeats agree well enough that a number stands for them."""
    repeated = [repeats(t.samples) for t in measured if len(t.samples) > 1]
    if not repeated:
        return "pass"
    torn = sum(one.unstable for one in repeated)
    if too_many(torn, len(repeated)):
        return "unstable"
    return "warn" if median([one.cv for one in repeated]) > NOISY_CV else "pass"


def _latency(
    benchmarks: Benchmarks, stage: Stage, rail: PlannedRail, shown: JudgedTest, measured: list[TransferResult]
) -> JudgedTest:
    bounds = benchmarks.verbs.latency_of(pvrdma=rail.pvrdma)
    ways = ways_of(stage.test)
    value = max(settled(t) for t in measured if t.samples) / ways
    state: Performance = "pass"
    if value > bounds.warn_above_us:
        state = "fail" if value > bounds.fail_above_us else "warn"
    basis = USUAL_PVRDMA if rail.pvrdma else USUAL_HARDWARE
    return shown.model_copy(
        update={
            "performance": worse_of(state, state_of_failed_tries(measured, shown.measured)),
            "because": "",
            "ceiling": bounds.warn_above_us * ways,
            "basis": f"bound {'one way' if ways == 1 else 'there and back'}, a value and no ceiling: {basis}",
        }
    )


def pooled_cv(measured: list[TransferResult]) -> float | None:
    """Spread over the repeats of all transfers together; None where nothing was repeated."""
    found = [cv(t.samples) for t in measured if len(t.samples) > 1]
    return round(math.sqrt(math.fsum(one * one for one in found) / len(found)), 4) if found else None


CODE = "FAILED_ONCE"
CROWDED_SHARE = 0.2
"""Of a test's transfers on a rail: where more, and more than one, work only with fewer beside them, the fabric does not
carry what the plan asks of it."""


def state_of_failed_tries(measured: Sequence[TransferResult], among: int) -> Performance:
    """What failed tries make of a test: a single one is to be looked at; where there are many, no number stands.

    Args:
        measured: the transfers that the record still has one by one; what failed once stays in it the longest.
        among: how many were measured, of which a record that must be small only counts the smooth ones.
    """
    count = sum(bool(t.failed_once) for t in measured)
    if not count:
        return "pass"
    return "unstable" if too_many(count, among) else "warn"


def only_with_fewer(transfer: TransferResult) -> bool:
    """Whether it failed under the load of the plan, and was measured under a smaller one."""
    return transfer.second_try and transfer.at_once < transfer.failed_at_once


def crowded(measured: Sequence[TransferResult], among: int) -> int:
    """How many transfers work only beside fewer others, where they are too many for chance among so many; else 0."""
    count = sum(map(only_with_fewer, measured))
    return count if count > max(1, CROWDED_SHARE * among) else 0


def second_try_findings(record: RunRecord) -> Iterator[Finding]:
    """Which transfers they are, those of a test together, with the reason of the first."""
    tests: dict[tuple[str, str], list[TransferResult]] = {}
    for t in record.transfers:
        if t.outcome == "measured" and t.failed_once:
            tests.setdefault((t.test, t.shape), []).append(t)
    for (test, shape), found in tests.items():
        first = found[0]
        name = test if shape == "one_way" else f"{test} {shape}"
        if first.second_try:
            told = f"{first.failed_once}; measured at another try, with {_beside(first.at_once, first.failed_at_once)}"
        else:
            told = f"measured, then with {_beside(first.failed_at_once, first.at_once)} {first.failed_once}"
        yield Finding(
            code=CODE,
            where=where_of(found),
            evidence=f"{name} {told}",
            hint=f"run {test} between the two a few times, alone and beside the others, and compare the error counters "
            "of both ports before and after",
        )


def _beside(at_once: int, before: int) -> str:
    """A load, and the one that it is to be compared with."""
    return f"{at_once} at once instead of {before}" if at_once != before else f"as many at once ({at_once})"


USUAL_HARDWARE = "1.2 to 2.5 us are usual through one switch"
"""Back to back 0.8 to 0.9 us, 0.25 to 0.6 us a hop; a VF is as fast as its PF."""
USUAL_PVRDMA = "PVRDMA's hardware path needs less than 10 us"
"""Its bound of 50 us is what Bitfusion still works with (VMware's guide)."""

ROUND_TRIPS = ("ib_read_lat", "ib_atomic_lat")
"""Tests whose numbers are whole round trips: the other ones print half of them."""
JITTER = 10.0
"""99th percentile over median, as records keep it, from which on a host's sleep states or interrupts are likely."""


def ways_of(test: str) -> int:
    """How many directions the number has that perftest prints: a read's or an atomic's is a whole round trip."""
    return 2 if test in ROUND_TRIPS else 1


def jitters(median_us: float, tail_us: float) -> bool:
    """Whether the 99th percentile is so far from the median that the host, not the fabric, is the likely reason."""
    return median_us > 0 and tail_us / median_us > JITTER

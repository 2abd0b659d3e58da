"""Measures suspect transfers again with half as many at once: a transfer that is good then was
crowded, not broken.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from components.validation.benchmarks.verbs.judge import fabric_of, first_value
from components.validation.benchmarks.verbs.plan import Stage, Transfer
from components.validation.benchmarks.verbs.run import Bench
from components.validation.records import Flow, TransferResult
from components.validation.search.localise import Localiser
from components.validation.search.measured_fabric import Value
from stacks.words import plural

LEAST_S, SHARE = 60.0, 0.25
"""Time limit: this, or a share of the plan's estimate if that is more."""
FAILED = 0.0

Results = Mapping[Flow, TransferResult]


@dataclass(kw_only=True)
class Tries:
    """Further tries of single transfers of a stage, within a time limit."""

    bench: Bench
    stage: Stage
    limit_s: float
    began: float = field(default_factory=time.monotonic)
    made: dict[Flow, list[TransferResult]] = field(default_factory=dict)
    hopeless: set[Flow] = field(default_factory=set)
    """Transfers for which another try would show nothing new."""

    @property
    def over(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() - self.began > self.limit_s

    @cached_property
    def rounds(self) -> list[list[Transfer]]:
        """The planned rounds of the stage."""
        return self.bench.plan.rounds_of(self.stage)

    @property
    def most(self) -> int:
        """Transfers at once: half of what the stage had."""
        return max(1, max(map(len, self.rounds), default=1) // 2)

    @property
    def values(self) -> dict[Flow, list[Value]]:
        """What the tries measured."""
        return {flow: list(map(first_value, tries)) for flow, tries in self.made.items()}

    async def run(self, flows: Iterable[Flow], stage: Stage) -> None:
        """Runs each of these transfers once more, within the time limit."""
        transfer_of = {t.flow: t for transfers in self.rounds for t in transfers}
        for transfers in apart((transfer_of[flow] for flow in flows), self.most):
            if self.over:
                break
            tag = f"retest-{sum(map(len, self.made.values()))}/"
            for done in await self.bench.round(stage, transfers, tag):
                flow = done.flow
                if (
                    done.outcome != "skipped"
                ):  # busy, or both ends on one host by now: nothing is known of the path
                    self.made.setdefault(flow, []).append(done)
                if done.outcome != "measured":
                    self.hopeless.add(flow)


async def retest(
    bench: Bench, stage: Stage, results: list[TransferResult], *, locates: bool
) -> tuple[dict[Flow, list[TransferResult]], str]:
    """Further tries of those that failed, by transfer, and a note about them.

    Nothing is judged here.

    Args:
        bench: the hosts.
        stage: the test.
        results: its results.
        locates: whether faults are located by this test; then what looks bad is tried until it is
            cleared or proven.
    """
    by_flow = {result.flow: result for result in results}
    limit_s = max(LEAST_S, SHARE * bench.plan.verbs_estimate_s)
    tries = Tries(bench=bench, stage=stage, limit_s=limit_s, hopeless=_hopeless(bench, by_flow))
    again = stage
    if locates:
        again = stage.replace(repeats=1)
    left: list[Flow] = []
    if locates:
        reached = [result for result in results if not result.ends_at(bench.unreachable)]
        search = Localiser(fabric_of(bench.plan, stage, reached))
        while flows := [
            flow for flow in search.suspects(tries.values) if flow not in tries.hopeless
        ]:
            if tries.over:
                left = flows
                break
            await tries.run(flows, again)
    # the search takes some of many suspects, but everything that failed gets a second try
    failed = [flow for flow, result in by_flow.items() if result.outcome in ("failed", "error")]
    if untried := [
        flow for flow in failed if flow not in tries.made and flow not in tries.hopeless
    ]:
        await tries.run(untried, again)
    note = ""
    if tries.made:
        what = "suspect transfer" if locates else "failed transfer"
        note = f"{plural(len(tries.made), what)} measured again with at most {tries.most} at once"
    if left:
        note += f"; {len(left)} not often enough to be sure within {tries.limit_s:.0f} s"
    return tries.made, note


def joined(first: TransferResult, tries: Sequence[TransferResult]) -> TransferResult:
    """Joins a transfer with its further tries, of which there is at least one.

    If it failed first and all further tries were measured, it has their values and their load, and
    keeps the reason of the first failure. If it failed twice, it has failed.
    """
    at_once = max(result.at_once for result in tries)
    good = [result for result in tries if result.outcome == "measured"]
    bad = [result for result in tries if result.outcome != "measured"]
    if first.outcome != "measured" and not bad:
        counters: Counter[str] = Counter()
        for result in good:
            counters.update(result.counters)
        return good[0].replace(
            samples=tuple(value for result in good for value in result.samples),
            tail_us=tuple(value for result in good for value in result.tail_us),
            raw=tuple(name for result in good for name in result.raw),
            hcas=tuple(count for result in good for count in result.hcas),
            counters=dict(counters),
            at_once=at_once,
            failed_once=_why(first),
            failed_at_once=first.at_once,
        )
    values = tuple(first_value(result) or FAILED for result in tries)
    names = tuple(name for result in tries for name in result.raw)
    kept: dict[str, object] = {"retest": values, "retest_raw": names, "retest_at_once": at_once}
    if first.outcome == "measured" and bad:
        kept |= {"failed_once": _why(bad[0]), "failed_at_once": bad[0].at_once}
    return first.replace(**kept)


def apart(transfers: Iterable[Transfer], most: int) -> list[list[Transfer]]:
    """Rounds of at most `most` transfers of which no two share a NIC."""
    rounds: list[tuple[list[Transfer], set[tuple[str, str]]]] = []
    for transfer in transfers:
        nics = {(transfer.rail, transfer.client), (transfer.rail, transfer.server)}
        for taken, used in rounds:
            if len(taken) < most and not nics & used:
                taken.append(transfer)
                used.update(nics)
                break
        else:
            rounds.append(([transfer], set(nics)))
    return [taken for taken, _ in rounds]


def _hopeless(bench: Bench, results: Results) -> set[Flow]:
    """Transfers that no further try can change, such as one that ran and contradicts the plan."""
    failed = {flow: result for flow, result in results.items() if result.outcome == "failed"}
    contradicts = {flow for flow, result in failed.items() if result.samples or result.curve}
    gone = {flow for flow in results if {flow.client, flow.server} & set(bench.unreachable)}
    return contradicts | gone | {flow for flow in results if flow in bench.cut_off}


def _why(failed: TransferResult) -> str:
    return f"{failed.outcome}: {'; '.join(failed.reasons)}"

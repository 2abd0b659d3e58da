"""Runs the stages of a plan in order: pings, warm-up, rounds, retries, and progress."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

from components.ssh.session import run
from components.validation import Say
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.commands import reach
from components.validation.benchmarks.verbs.plan import (
    MOST_QUEUE_PAIRS,
    Stage,
    Transfer,
    stage_s,
    warm_up_s,
)
from components.validation.benchmarks.verbs.retest import joined, retest
from components.validation.benchmarks.verbs.run import Bench, run_round
from components.validation.records import Flow, TransferResult
from stacks.base import LabError
from stacks.words import plural

REACH_S = 60
AS_GOOD = 0.99
"""Share of the best bandwidth from which fewer queue pairs are as good: the rest is noise."""
WARM_UP, WARM_UP_S = "warm-up/", 15

Progress = Callable[[float, float, str], None]
"""Share that is done, seconds left, and what is being measured."""


@dataclass(kw_only=True)
class Course:
    """The verbs tests of one run."""

    bench: Bench
    say: Say
    progress: Progress | None = None
    notes: list[str] = field(default_factory=list)
    _why: dict[tuple[str, frozenset[str]], str] = field(default_factory=dict)
    _worked_s: float = 0.0
    _estimated_s: float = 0.0

    async def measured(self) -> list[TransferResult]:
        """Measures everything that was planned; each transfer has a result."""
        plan, results = self.bench.plan, []
        if not plan.stages:
            return []
        await self._reach(plan)
        await self._warm_up(plan.stages[0])
        for number, stage in enumerate(plan.stages):
            done = await self._stage(stage)
            if stage.shape != "incast":  # a second try would come from fewer, and be another test
                locates = number == 0 and stage.bandwidth
                tries, note = await retest(self.bench, stage, done, locates=locates)
                done = [joined(t, tries[t.flow]) if t.flow in tries else t for t in done]
                if note:
                    self.say(f"{stage.name}: {note}")
                    self.notes.append(f"{stage.name}: {note}")
            results += done
            self._leave_out(stage, done)
        return results

    async def _stage(self, stage: Stage) -> list[TransferResult]:
        rounds = self.bench.plan.rounds_of(stage)
        results: list[TransferResult] = []
        each_s = stage_s(
            self.bench.plan.verbs, stage, len(rounds), simulated=self.bench.plan.simulated
        ) / len(rounds)
        for number, transfers in enumerate(rounds, 1):
            began = time.monotonic()
            done = await self._round(stage, transfers)
            results += done
            left_s = self._left_s(time.monotonic() - began, each_s)
            self.say(f"{stage.name} round {number}/{len(rounds)}: {in_short(done)}{_about(left_s)}")
        return results

    async def _round(self, stage: Stage, transfers: list[Transfer]) -> list[TransferResult]:
        settled: dict[Flow, TransferResult] = {}
        todo: list[Transfer] = []
        for transfer in transfers:
            result = self._not_run(stage, transfer)
            if result is None:
                todo.append(transfer)
            else:
                settled[transfer.flow] = result
        for result in await self.bench.round(stage, todo):
            settled[result.flow] = result
        return [settled[transfer.flow] for transfer in transfers]

    def _not_run(self, stage: Stage, transfer: Transfer) -> TransferResult | None:
        """The result of a transfer that is not tried."""
        pair = (transfer.rail, frozenset((transfer.client, transfer.server)))
        if pair in self._why:
            return stage.result(transfer.flow, "skipped", self._why[pair])
        if transfer.flow in self.bench.cut_off:
            return stage.result(transfer.flow, "failed", self.bench.cut_off[transfer.flow])
        return None

    def _leave_out(self, stage: Stage, done: list[TransferResult]) -> None:
        """Leaves a pair out of later stages if a plain test failed between them: it would only
        wait.
        """
        for result in done if stage.shape == "one_way" else ():
            if result.outcome in ("failed", "error"):
                pair = (result.rail, frozenset((result.client, result.server)))
                self._why.setdefault(pair, f"{stage.name} failed between them")

    async def _reach(self, plan: Plan) -> None:
        """Pings every peer on every rail within a minute: a timeout per test would take longer."""
        peers_of: dict[str, list[tuple[str, str]]] = {}
        for transfers in plan.rounds_of(plan.stages[0]):
            for transfer in transfers:
                if not {transfer.client, transfer.server} & set(self.bench.unreachable):
                    peers_of.setdefault(transfer.client, []).append(
                        (transfer.rail, transfer.server)
                    )
        answers = await asyncio.gather(
            *(self._pinged(plan, node, peers) for node, peers in peers_of.items())
        )
        for node, answer_of in zip(peers_of, answers, strict=True):
            for (rail, peer), answer in answer_of.items():
                if answer == "none":
                    end = plan.rail(rail).end(node)
                    reason = (
                        f"{node}: no answer from {plan.rail(rail).end(peer).address} over "
                        f"{end.interface} to pings"
                    )
                    self.bench.cut_off[rail, node, peer] = reason
                elif answer == "small":
                    self.bench.cut[rail, node, peer] = (
                        f"frames of {plan.rail(rail).mtu_bytes} bytes do not pass"
                    )
        cut_off = len(self.bench.cut_off)
        ways = plural(sum(map(len, answers)), "way")
        self.say(f"reach: {ways}, {f'{cut_off} without an answer' if cut_off else 'all answer'}")

    async def _pinged(
        self, plan: Plan, node: str, peers: list[tuple[str, str]]
    ) -> dict[tuple[str, str], str]:
        targets = []
        for rail_name, peer in peers:
            rail = plan.rail(rail_name)
            targets.append((rail.end(node).interface, rail.end(peer).address, rail.mtu_bytes))
        try:
            done = await run(self.bench.connections[node], reach(targets), REACH_S)
        except LabError as error:
            self.bench.unreachable[node] = f"{node}: {error}"
            return {}
        answer_of = {}
        for line in done.out.splitlines():
            words = line.split()
            if len(words) == 4 and words[0] == "reached":
                answer_of[words[1], words[2]] = words[3]
        answers = {}
        for flow, (interface, address, _) in zip(peers, targets, strict=True):
            answers[flow] = answer_of.get((interface, str(address)), "unknown")
        return answers

    async def _warm_up(self, stage: Stage) -> None:
        """Runs the first round and drops it: address resolution and rising CPU clocks would distort
        it.
        """
        plan = self.bench.plan
        first = []
        for t in plan.rounds_of(stage)[0]:
            if self._not_run(stage, t) is None:
                first.append(t)
        if not first:
            return
        began, once = time.monotonic(), stage.replace(repeats=1)
        with contextlib.suppress(TimeoutError):
            # a transfer that hangs here hangs again where it counts; both ends are stopped
            async with asyncio.timeout(WARM_UP_S + (plan.verbs.duration_of(stage) or 0)):
                await run_round(self.bench, once, first, tag=WARM_UP)
        for name in [name for name in self.bench.raw if name.startswith(WARM_UP)]:
            del self.bench.raw[name]
        if stage.bandwidth and plan.verbs.queue_pairs == "auto":
            await self._saturate(once, first)
        self._left_s(time.monotonic() - began, warm_up_s(plan.verbs, simulated=plan.simulated))

    async def _saturate(self, stage: Stage, transfers: list[Transfer]) -> None:
        """Doubles the queue pairs of each rail until its typical transfer no longer gains."""
        reached: dict[str, dict[int, float]] = {transfer.rail: {} for transfer in transfers}
        rising = set(reached)
        count = 1
        while rising and count <= MOST_QUEUE_PAIRS:
            self.bench.queue_pairs.update(dict.fromkeys(rising, count))
            some = [transfer for transfer in transfers if transfer.rail in rising]
            tag = f"queue-pairs-{count}/"
            done = await run_round(self.bench, stage, some, len(transfers), tag)
            for rail in sorted(rising):
                values = []
                for result in done:
                    if result.rail == rail and result.samples:
                        values.append(result.value)
                if values:
                    reached[rail][count] = median(values)
                if not values or no_longer_gains(reached[rail]):
                    rising.discard(rail)
            count *= 2
        self.bench.queue_pairs = {rail: fewest(known) for rail, known in reached.items() if known}
        chosen = [f"{rail} {pairs}" for rail, pairs in self.bench.queue_pairs.items()]
        self.say(f"queue pairs: {', '.join(chosen) or 'none worked'}")

    @cached_property
    def _total_s(self) -> float:
        """The estimate of the whole run, cached because it walks through every round."""
        return self.bench.plan.verbs_estimate_s

    def _left_s(self, took_s: float, estimated_s: float) -> float:
        """Seconds left: the estimate, corrected by how well it has matched so far."""
        total_s = self._total_s
        self._worked_s += took_s
        self._estimated_s = min(self._estimated_s + estimated_s, total_s)
        left_s = (
            self._worked_s * max(total_s - self._estimated_s, 0.0) / max(self._estimated_s, 0.1)
        )
        if self.progress:
            self.progress(self._estimated_s / total_s, left_s, "")
        return left_s


def fewest(reached: Mapping[int, float]) -> int:
    """The fewest queue pairs that carry as much as the best number of them."""
    best = max(reached.values())
    return min(count for count, value in reached.items() if value >= AS_GOOD * best)


def no_longer_gains(reached: Mapping[int, float]) -> bool:
    """Whether two doublings in a row brought nothing: after a single one, the next may
    still help.
    """
    values = list(reached.values())
    return len(values) > 2 and max(values[-2:]) * AS_GOOD <= max(values[:-2])


def in_short(results: list[TransferResult]) -> str:
    """A round in one line: values while they are few, else counts and the worst."""
    good = [t for t in results if t.outcome == "measured"]
    bad = [f"{t.flow} {t.outcome}: {t.reasons[0]}" for t in results if t.outcome != "measured"]
    texts = [f"{t.flow} {_reached(t)}" for t in good]
    if len(results) > 4:
        texts = [f"{len(good)} of {len(results)} measured"]
        with_value = [t for t in good if t.samples]
        if with_value and good[0].unit == "us":
            worst = max(with_value, key=lambda t: t.value)
            texts.append(f"longest {_shown(worst.value, worst)}")
        elif with_value:
            worst = min(with_value, key=lambda t: t.value)
            texts.append(f"slowest {_shown(worst.value, worst)}")
    more = [f"and {len(bad) - 3} more"] if len(bad) > 3 else []
    return ", ".join([*texts, *bad[:3], *more])


def _reached(result: TransferResult) -> str:
    if result.curve:
        return (
            f"{plural(len(result.curve), 'size')} up to "
            f"{_shown(max(point.value for point in result.curve), result)}"
        )
    return _shown(result.value, result)


def _shown(value: float, result: TransferResult) -> str:
    return f"{value:.3g} {result.unit}"


def _about(left_s: float) -> str:
    if left_s < 5:
        return ""
    if left_s > 90:
        return f", about {left_s / 60:.0f} min left"
    return f", about {left_s:.0f} s left"

"""Locates the fault of a slow or broken fabric: node, NIC, rail, direction, path, or congestion."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from components.validation.records import Flow
from components.validation.search.located import (
    Located,
    LocatedFault,
    congestion,
    evidence_of,
    merged,
)
from components.validation.search.measured_fabric import (
    GOOD_FROM,
    Cause,
    FabricParts,
    Group,
    MeasuredFabric,
    Repeated,
    Retests,
)

MOST_STARTS = 5
MOST_CAUSES = 64


class Sums:
    """The weights of all unexplained transfers, summed by group."""

    def __init__(self, parts: FabricParts, weights: Sequence[float]) -> None:
        self._parts, self._weights = parts, weights
        self._sums: dict[Group, float] = {}
        for group, through in parts.groups.items():
            self._sums[group] = math.fsum([weights[number] for number in through])
        least = min(parts.cost["pair"] / 2, parts.cost["one_way"])
        self._single = [number for number, weight in enumerate(weights) if weight > least]
        self.covered: set[int] = set()

    def copy(self) -> Self:
        """A copy that can explain more without changing this one."""
        other = copy(self)
        other._sums, other.covered = dict(self._sums), set(self.covered)
        return other

    def explain(self, cause: Cause) -> None:
        """Takes the transfers through a part out of the sums."""
        for number in self._parts.through(cause):
            if number not in self.covered:
                self.covered.add(number)
                for group in self._parts.groups_of(self._parts.fabric.flows[number]):
                    if group in self._sums:
                        self._sums[group] -= self._weights[number]

    def gains(self) -> Iterator[tuple[float, Cause]]:
        """What each further part would add to the explanation, after its cost; only parts that add
        something.
        """
        cost = self._parts.cost
        for cause, groups in self._parts.structure.items():
            gain = math.fsum([self._sums[group] for group in groups]) - cost[cause.part]
            if gain > 0:
                yield gain, cause
        yield from self._paths()

    def _paths(self) -> Iterator[tuple[float, Cause]]:
        fabric, cost, weights = self._parts.fabric, self._parts.cost, self._weights
        for number in self._single:
            if number in self.covered:
                continue
            rail, client, server = fabric.flows[number]
            if weights[number] > cost["one_way"]:
                yield weights[number] - cost["one_way"], Cause("one_way", rail, (client, server))
            back = fabric.number_of.get(Flow(rail, server, client))
            if back is None or back in self.covered or weights[back] <= 0:
                continue
            if (both := weights[number] + weights[back]) > cost["pair"]:
                yield (
                    both - cost["pair"],
                    Cause("pair", rail, (min(client, server), max(client, server))),
                )


def explain(parts: FabricParts, weights: Sequence[float]) -> tuple[tuple[Cause, float], ...]:
    """The best explanation found: each cause with what it adds to the score.

    The part with the largest gain need not belong to the best explanation, so the search starts
    from several parts.
    """
    sums = Sums(parts, weights)
    starts = sorted(sums.gains(), key=_by_gain)
    best: list[Cause] = []
    most = 0.0
    for gain, start in starts[:MOST_STARTS]:
        if gain < 0.25 * starts[0][0]:
            break
        causes = _pruned(parts, weights, _completed(sums.copy(), start))
        score = _score(parts, weights, causes)
        if score > most:
            best, most = causes, score
    explained = []
    for cause in best:
        others = [other for other in best if other != cause]
        explained.append((cause, most - _score(parts, weights, others)))
    return tuple(explained)


def _completed(sums: Sums, start: Cause) -> list[Cause]:
    causes = [start]
    while len(causes) < MOST_CAUSES:
        sums.explain(causes[-1])
        following = min(sums.gains(), key=_by_gain, default=None)
        if following is None or following[1] in causes:
            break
        causes.append(following[1])
    return causes


def _pruned(parts: FabricParts, weights: Sequence[float], causes: list[Cause]) -> list[Cause]:
    """Drops causes that later ones made redundant."""
    score = _score(parts, weights, causes)
    for cause in list(causes) if len(causes) > 1 else []:
        without = [other for other in causes if other != cause]
        if (better := _score(parts, weights, without)) > score:
            causes, score = without, better
    return causes


def _score(parts: FabricParts, weights: Sequence[float], causes: Sequence[Cause]) -> float:
    covered = {number for cause in causes for number in parts.through(cause)}
    return math.fsum([weights[number] for number in covered]) - math.fsum(
        [parts.cost[c.part] for c in causes]
    )


def _by_gain(pair: tuple[float, Cause]) -> tuple[float, str, str, tuple[str, ...]]:
    """Largest gain first; names break ties, so that the result is reproducible."""
    gain, cause = pair
    return -gain, cause.part, cause.rail or "", cause.names


ENOUGH = 3.0
"""Logarithm of the odds, after costs, from which a part is accused: 20 to 1."""
CLEAR = -3.0
"""Weight below which a transfer is clear whose other direction is suspect."""
MOST_AGAIN = 8
SAMPLE = 16
"""Transfers of an accused part that are measured again."""
EACH_END = 2
"""Transfers per sender and per receiver that are measured again on a rail with very many
suspects."""
MANY, MANY_SHARE = 48, 0.2
"""Number and share of suspects on a rail above which only a sample is measured again."""


@dataclass(frozen=True)
class Localiser:
    """The search over one run. The same values and retests always give the same answer."""

    fabric: MeasuredFabric

    @cached_property
    def _parts(self) -> FabricParts:
        return FabricParts(self.fabric)

    @cached_property
    def _at_first(self) -> tuple[tuple[Cause, frozenset[int]], ...]:
        """The parts that best explain the run itself, with their transfers."""
        causes = [cause for cause, _ in self._explained(self.fabric.first)]
        return tuple((cause, frozenset(self._parts.through(cause))) for cause in causes)

    @cached_property
    def _suspect(self) -> dict[str, list[int]]:
        """Transfers of each rail that look bad in the run itself."""
        suspect: dict[str, list[int]] = {rail: [] for rail in self.fabric.rails}
        for number, weight in enumerate(self.fabric.first):
            if weight > 0:
                suspect[self.fabric.flows[number].rail].append(number)
        return suspect

    @cached_property
    def _count(self) -> Counter[str]:
        return Counter(flow.rail for flow in self.fabric.flows)

    def _explained(self, weights: Iterable[float]) -> tuple[tuple[Cause, float], ...]:
        return explain(self._parts, list(weights))

    def suspects(self, retests: Retests) -> tuple[Flow, ...]:
        """Transfers to measure again with half as many at once; empty when nothing is in doubt.

        Args:
            retests: the values of all repetitions so far.
        """
        repeated = Repeated(self.fabric, retests)
        flows, weights = self.fabric.flows, self._weights(repeated)
        chosen: dict[int, None] = {}
        covered: set[int] = set()
        for cause, gain in self._explained(weights):
            if cause.part not in ("pair", "one_way"):
                numbers = self._parts.through(cause)
                covered.update(numbers)
                chosen.update(
                    dict.fromkeys(self._sampled(numbers, retests, settled=gain >= ENOUGH))
                )
        for _, through in self._at_first:
            chosen.update(dict.fromkeys(self._sampled(through, retests, settled=True)))
            if (self._recovered(through, repeated) or 0) <= 0.5:
                covered.update(through)
        chosen.update(dict.fromkeys(self._single(repeated, covered)))
        again = [flows[number] for number in sorted(chosen)]
        return tuple(flow for flow in again if len(retests.get(flow, ())) < MOST_AGAIN)

    def _sampled(
        self, through: Collection[int], retests: Retests, *, settled: bool
    ) -> Iterator[int]:
        """An even sample of the suspect transfers through a part; of a small part, all
        transfers.
        """
        flows, first = self.fabric.flows, self.fabric.first
        few = len(through) <= SAMPLE
        candidates = [number for number in sorted(through) if few or first[number] > 0]
        again = [number for number in candidates if flows[number] in retests]
        if len(again) < min(SAMPLE, len(candidates)):
            step = max(1, len(candidates) // SAMPLE)
            if few:
                step = 1
            left = [number for number in candidates[::step] if flows[number] not in retests]
            yield from left[: SAMPLE - len(again)]
        elif not settled:
            yield from again

    def _single(self, repeated: Repeated, covered: set[int]) -> Iterator[int]:
        """Suspects that no larger part explains, and their way back, until cleared or proven."""
        flows, number_of = self.fabric.flows, self.fabric.number_of
        proven = max(self._parts.cost["one_way"], self._parts.cost["pair"]) + ENOUGH
        for rail in self.fabric.rails:
            bad = [number for number in self._suspect[rail] if number not in covered]
            if len(bad) > MANY and len(bad) > MANY_SHARE * self._count[rail]:
                bad = list(self._of_each_end(bad))
            yield from (number for number in bad if flows[number] not in repeated.values)
        for flow, total in repeated.together.items():
            number = number_of[flow]
            if number in covered:
                continue
            back = number_of.get(Flow(flow.rail, flow.server, flow.client))
            other = 0.0
            if back is not None:
                other = repeated.together.get(flows[back], 0.0)
            # the other direction of a bad transfer must be clear: that is the difference between
            # "one_way" and "pair"
            if (CLEAR if other > 0 else 0) < total < proven:
                yield number
            if total > 0 and back is not None and flows[back] not in repeated.values:
                yield back

    def _of_each_end(self, numbers: list[int]) -> Iterator[int]:
        taken: dict[tuple[str, str], int] = {}
        for number in numbers:
            flow = self.fabric.flows[number]
            ends = (("from", flow.client), ("to", flow.server))
            if any(taken.get(end, 0) < EACH_END for end in ends):
                taken.update({end: taken.get(end, 0) + 1 for end in ends})
                yield number

    def _weights(self, repeated: Repeated) -> list[float]:
        """Weight of each transfer over all its measurements.

        Suspects outside the sample lose weight by the share of the sample that recovered.
        """
        flows = self.fabric.flows
        weights = list(self.fabric.first)
        for flow, weight in repeated.together.items():
            weights[self.fabric.number_of[flow]] = weight
        groups = [through for _, through in self._at_first]
        known = frozenset().union(*groups)
        for numbers in self._suspect.values():
            groups.append(frozenset(numbers) - known)
        for group in groups:
            recovered = self._recovered(group, repeated)
            if recovered:
                for number in group:
                    if weights[number] > 0 and flows[number] not in repeated.values:
                        weights[number] *= max(0.0, 1 - 2 * recovered)
        return weights

    def _recovered(self, through: Iterable[int], repeated: Repeated) -> float | None:
        """Share of suspect transfers that were good when measured again; None if none was measured
        again.
        """
        flows, first = self.fabric.flows, self.fabric.first
        again = []
        for number in through:
            if first[number] > 0 and flows[number] in repeated.values:
                again.append(number)
        if again:
            return sum(map(repeated.cleared, again)) / len(again)
        return None

    def localise(self, retests: Retests) -> Located:
        """The faults, the most certain first."""
        repeated = Repeated(self.fabric, retests)
        weights = self._weights(repeated)
        faults: list[LocatedFault] = []
        covered: set[int] = set()
        for cause, gain in self._explained(weights):
            through = self._parts.through(cause)
            again = sum(repeated.again.get(self.fabric.flows[number], 0.0) for number in through)
            evidence = evidence_of(through, repeated)
            slow = (
                2 * evidence.failed > evidence.tested or (evidence.median_ratio or 1.0) < GOOD_FROM
            )
            if gain >= ENOUGH and again >= 0 and slow:
                covered.update(through)
                faults.append(LocatedFault.of(cause, evidence, log_odds=round(gain, 1)))
        rest = [number for number in range(len(weights)) if number not in covered]
        crowded = list(congestion(repeated, rest))
        cleared = 0
        if not crowded:
            cleared = sum(map(repeated.cleared, rest))
        return Located(
            faults=merged((*faults, *crowded), self.fabric.rails),
            cleared=cleared,
            measured_again=sum(len(values) for values in retests.values()),
        )

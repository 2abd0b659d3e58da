"""Finds the few faulty parts that best explain the weights of all transfers.

A set of parts scores the sum of the weights of all transfers through any of them, minus the prior cost of each part.
Good transfers through a part count against it, and a transfer counts once however many of the parts it goes through.
So a bad rail is not mistaken for 64 bad nodes, nor two bad nodes of four for a bad rail.
"""

import math
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Self

from components.validation.judging.parts import Cause, FabricParts
from components.validation.records import Flow

MOST_STARTS = 5
MOST_CAUSES = 64
"""A longer list of faults does not help."""


class Sums:
    """The weights of all unexplained transfers, summed by group."""

    def __init__(self, parts: FabricParts, weights: Sequence[float]) -> None:
        self._parts, self._weights = parts, weights
        self._sums = {group: math.fsum([weights[n] for n in through]) for group, through in parts.groups.items()}
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
        """What each further part would add to the explanation, after its cost; only parts that add something."""
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
                yield both - cost["pair"], Cause("pair", rail, (min(client, server), max(client, server)))


def explain(parts: FabricParts, weights: Sequence[float]) -> tuple[tuple[Cause, float], ...]:
    """The best explanation found: each cause with what it adds to the score.

    The part with the largest gain need not belong to the best explanation, so the search starts from several parts.
    """
    sums = Sums(parts, weights)
    starts = sorted(sums.gains(), key=_by_gain)
    best: list[Cause] = []
    most = 0.0
    for gain, start in starts[:MOST_STARTS]:
        if gain < 0.25 * starts[0][0]:
            break
        found = _pruned(parts, weights, _completed(sums.copy(), start))
        score = _score(parts, weights, found)
        if score > most:
            best, most = found, score
    return tuple((cause, most - _score(parts, weights, [other for other in best if other != cause])) for cause in best)


def _completed(sums: Sums, start: Cause) -> list[Cause]:
    found = [start]
    while len(found) < MOST_CAUSES:
        sums.explain(found[-1])
        following = min(sums.gains(), key=_by_gain, default=None)
        if following is None or following[1] in found:
            break
        found.append(following[1])
    return found


def _pruned(parts: FabricParts, weights: Sequence[float], found: list[Cause]) -> list[Cause]:
    """Drops causes that later ones made redundant."""
    score = _score(parts, weights, found)
    for cause in list(found) if len(found) > 1 else []:
        without = [other for other in found if other != cause]
        if (better := _score(parts, weights, without)) > score:
            found, score = without, better
    return found


def _score(parts: FabricParts, weights: Sequence[float], causes: Sequence[Cause]) -> float:
    covered = {number for cause in causes for number in parts.through(cause)}
    return math.fsum([weights[number] for number in covered]) - math.fsum([parts.cost[c.part] for c in causes])


def _by_gain(pair: tuple[float, Cause]) -> tuple[float, str, str, tuple[str, ...]]:
    """Largest gain first; names break ties, so that the result is reproducible."""
    gain, cause = pair
    return -gain, cause.part, cause.rail or "", cause.names

"""Where a slow or broken fabric is at fault: node, NIC, rail, direction, path, or too many at once.

    search = Localiser(Fabric(values=..., expected=...))
    while ways := search.suspects(retests):
        ...measure each of them again, half as many at once as before, and add the values to retests
    located = search.localise(retests)

Nothing is accused on one measurement: what looks bad is measured again until it is cleared or proven. What is bad
beside all others and good with half as many is congestion, and no part is named for it. Without a topology no link is
named either: a pair is a path.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from components.validation.judging.evidence import GOOD_FROM, Fabric, Repeated, Retests, Way
from components.validation.judging.explain import explain
from components.validation.judging.findings import Fault, Located, congestion, evidence_of, merged
from components.validation.judging.parts import Cause, Parts

ENOUGH = 3.0
"""Logarithm of the odds, costs deducted, from which a part is accused: 20 to 1."""
CLEAR = -3.0
"""Below this a way is clear whose other direction is suspect."""
MOST_AGAIN = 8
"""Repetitions of one transfer."""
SAMPLE = 16
"""Transfers of an accused part that are measured again."""
EACH_END = 2
"""Of a rail where very many are suspect: so many of each sender and of each receiver are measured again."""
MANY, MANY_SHARE = 48, 0.2
"""Number and share of a rail's transfers from which a sample of the suspect ones has to do."""


@dataclass(frozen=True)
class Localiser:
    """The search over one run. Pure: the same values and retests always give the same answer."""

    fabric: Fabric

    @cached_property
    def _parts(self) -> Parts:
        return Parts(self.fabric)

    @cached_property
    def _at_first(self) -> tuple[tuple[Cause, frozenset[int]], ...]:
        """What explains the run itself best, with the transfers through it."""
        return tuple((cause, frozenset(self._parts.through(cause))) for cause, _ in self._explained(self.fabric.first))

    @cached_property
    def _suspect(self) -> dict[str, list[int]]:
        """Transfers of each rail that look bad in the run itself."""
        found: dict[str, list[int]] = {rail: [] for rail in self.fabric.rails}
        for number, weight in enumerate(self.fabric.first):
            if weight > 0:
                found[self.fabric.ways[number].rail].append(number)
        return found

    @cached_property
    def _count(self) -> Counter[str]:
        return Counter(way.rail for way in self.fabric.ways)

    def _explained(self, weights: Iterable[float]) -> tuple[tuple[Cause, float], ...]:
        return explain(self._parts, list(weights))

    def suspects(self, retests: Retests) -> tuple[Way, ...]:
        """Transfers to measure again with half as many at once; none when every suspicion is settled.

        Args:
            retests: the values of all repetitions so far.
        """
        repeated = Repeated(self.fabric, retests)
        ways, weights = self.fabric.ways, self._weights(repeated)
        chosen: dict[int, None] = {}
        covered: set[int] = set()
        for cause, gain in self._explained(weights):
            if cause.part not in ("pair", "one_way"):
                numbers = self._parts.through(cause)
                covered.update(numbers)
                chosen.update(dict.fromkeys(self._sampled(numbers, retests, settled=gain >= ENOUGH)))
        for _, through in self._at_first:
            chosen.update(dict.fromkeys(self._sampled(through, retests, settled=True)))
            if (self._recovered(through, repeated) or 0) <= 0.5:
                covered.update(through)
        chosen.update(dict.fromkeys(self._single(repeated, covered)))
        return tuple(ways[number] for number in sorted(chosen) if len(retests.get(ways[number], ())) < MOST_AGAIN)

    def _sampled(self, through: Collection[int], retests: Retests, *, settled: bool) -> Iterator[int]:
        """Evenly spread transfers through a part: the bad ones, or all of a few."""
        ways, first = self.fabric.ways, self.fabric.first
        few = len(through) <= SAMPLE
        wanted = [number for number in sorted(through) if few or first[number] > 0]
        again = [number for number in wanted if ways[number] in retests]
        if len(again) < min(SAMPLE, len(wanted)):
            step = max(1, len(wanted) // SAMPLE)
            left = [number for number in wanted[:: 1 if few else step] if ways[number] not in retests]
            yield from left[: SAMPLE - len(again)]
        elif not settled:
            yield from again

    def _single(self, repeated: Repeated, covered: set[int]) -> Iterator[int]:
        """Suspect transfers that no larger part explains: each until it is cleared or proven, with its way back."""
        ways, number_of = self.fabric.ways, self.fabric.number_of
        proven = max(self._parts.cost["one_way"], self._parts.cost["pair"]) + ENOUGH
        for rail in self.fabric.rails:
            bad = [number for number in self._suspect[rail] if number not in covered]
            if len(bad) > MANY and len(bad) > MANY_SHARE * self._count[rail]:
                bad = list(self._of_each_end(bad))
            yield from (number for number in bad if ways[number] not in repeated.values)
        for way, total in repeated.together.items():
            number = number_of[way]
            if number in covered:
                continue
            back = number_of.get(Way(way.rail, way.server, way.client))
            other = repeated.together.get(ways[back], 0.0) if back is not None else 0.0
            # beside a bad way the other direction must be clear: it tells a path from one direction of it
            if (CLEAR if other > 0 else 0) < total < proven:
                yield number
            if total > 0 and back is not None and ways[back] not in repeated.values:
                yield back

    def _of_each_end(self, numbers: list[int]) -> Iterator[int]:
        taken: dict[tuple[str, str], int] = {}
        for number in numbers:
            way = self.fabric.ways[number]
            ends = (("from", way.client), ("to", way.server))
            if any(taken.get(end, 0) < EACH_END for end in ends):
                taken.update({end: taken.get(end, 0) + 1 for end in ends})
                yield number

    def _weights(self, repeated: Repeated) -> list[float]:
        """Weight of each transfer by all its measurements.

        Of many suspects only a sample was measured again: as far as that recovered, the others count for nothing.
        """
        ways = self.fabric.ways
        found = list(self.fabric.first)
        for way, weight in repeated.together.items():
            found[self.fabric.number_of[way]] = weight
        groups = [through for _, through in self._at_first]
        known = frozenset().union(*groups)
        left = [[n for n in numbers if n not in known] if known else numbers for numbers in self._suspect.values()]
        for group in (*groups, *left):
            recovered = self._recovered(group, repeated)
            if recovered:
                for number in group:
                    if found[number] > 0 and ways[number] not in repeated.values:
                        found[number] *= max(0.0, 1 - 2 * recovered)
        return found

    def _recovered(self, through: Iterable[int], repeated: Repeated) -> float | None:
        """Share of the suspect transfers that were good when measured again; None when none was."""
        ways, first = self.fabric.ways, self.fabric.first
        again = [number for number in through if first[number] > 0 and ways[number] in repeated.values]
        return sum(map(repeated.cleared, again)) / len(again) if again else None

    def localise(self, retests: Retests) -> Located:
        """What is at fault, the most telling part first."""
        repeated = Repeated(self.fabric, retests)
        weights = self._weights(repeated)
        faults: list[Fault] = []
        covered: set[int] = set()
        all_bad = sum(weight > 0 for weight in weights)
        for cause, gain in self._explained(weights):
            through = self._parts.through(cause)
            again = sum(repeated.again.get(self.fabric.ways[number], 0.0) for number in through)
            evidence = evidence_of(through, repeated)
            slow = 2 * evidence.failed > evidence.tested or (evidence.median_ratio or 1.0) < GOOD_FROM
            if gain >= ENOUGH and again >= 0 and slow:
                covered.update(through)
                share = sum(weights[number] > 0 for number in through) / max(all_bad, 1)
                faults.append(Fault.of(cause, evidence, explained=round(share, 3), log_odds=round(gain, 1)))
        rest = [number for number in range(len(weights)) if number not in covered]
        crowded = list(congestion(repeated, rest))
        return Located(
            faults=merged((*faults, *crowded), self.fabric.rails),
            cleared=0 if crowded else sum(map(repeated.cleared, rest)),
            measured_again=sum(len(values) for values in retests.values()),
        )

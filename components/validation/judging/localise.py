"""Locates the fault of a slow or broken fabric: node, NIC, rail, direction, path, or congestion.

    search = Localiser(MeasuredFabric(values=..., expected=...))
    while flows := search.suspects(retests):
        ...measure each of them again, half as many at once as before, and add the values to retests
    located = search.localise(retests)

One measurement accuses no part: a suspect transfer is measured again until it is cleared or proven. Transfers that are
slow together and fast with half as many at once are congestion, which names no part. Without a topology no link is
named either, only the pair of nodes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from components.validation.judging.evidence import GOOD_FROM, MeasuredFabric, Repeated, Retests
from components.validation.judging.explain import explain
from components.validation.judging.findings import Located, LocatedFault, congestion, evidence_of, merged
from components.validation.judging.parts import Cause, FabricParts
from components.validation.records import Flow

ENOUGH = 3.0
"""Logarithm of the odds, after costs, from which a part is accused: 20 to 1."""
CLEAR = -3.0
"""Weight below which a transfer is clear whose other direction is suspect."""
MOST_AGAIN = 8
"""Repetitions of one transfer."""
SAMPLE = 16
"""Transfers of an accused part that are measured again."""
EACH_END = 2
"""Transfers per sender and per receiver that are measured again on a rail with very many suspects."""
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
        return tuple((cause, frozenset(self._parts.through(cause))) for cause, _ in self._explained(self.fabric.first))

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
                chosen.update(dict.fromkeys(self._sampled(numbers, retests, settled=gain >= ENOUGH)))
        for _, through in self._at_first:
            chosen.update(dict.fromkeys(self._sampled(through, retests, settled=True)))
            if (self._recovered(through, repeated) or 0) <= 0.5:
                covered.update(through)
        chosen.update(dict.fromkeys(self._single(repeated, covered)))
        return tuple(flows[number] for number in sorted(chosen) if len(retests.get(flows[number], ())) < MOST_AGAIN)

    def _sampled(self, through: Collection[int], retests: Retests, *, settled: bool) -> Iterator[int]:
        """An even sample of the suspect transfers through a part; of a small part, all transfers."""
        flows, first = self.fabric.flows, self.fabric.first
        few = len(through) <= SAMPLE
        candidates = [number for number in sorted(through) if few or first[number] > 0]
        again = [number for number in candidates if flows[number] in retests]
        if len(again) < min(SAMPLE, len(candidates)):
            step = max(1, len(candidates) // SAMPLE)
            left = [number for number in candidates[:: 1 if few else step] if flows[number] not in retests]
            yield from left[: SAMPLE - len(again)]
        elif not settled:
            yield from again

    def _single(self, repeated: Repeated, covered: set[int]) -> Iterator[int]:
        """Suspect transfers that no larger part explains, with their other direction, until cleared or proven."""
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
            other = repeated.together.get(flows[back], 0.0) if back is not None else 0.0
            # the other direction of a bad transfer must be clear: that is the difference between "one_way" and "pair"
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
        left = [[n for n in numbers if n not in known] if known else numbers for numbers in self._suspect.values()]
        for group in (*groups, *left):
            recovered = self._recovered(group, repeated)
            if recovered:
                for number in group:
                    if weights[number] > 0 and flows[number] not in repeated.values:
                        weights[number] *= max(0.0, 1 - 2 * recovered)
        return weights

    def _recovered(self, through: Iterable[int], repeated: Repeated) -> float | None:
        """Share of suspect transfers that were good when measured again; None if none was measured again."""
        flows, first = self.fabric.flows, self.fabric.first
        again = [number for number in through if first[number] > 0 and flows[number] in repeated.values]
        return sum(map(repeated.cleared, again)) / len(again) if again else None

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
            slow = 2 * evidence.failed > evidence.tested or (evidence.median_ratio or 1.0) < GOOD_FROM
            if gain >= ENOUGH and again >= 0 and slow:
                covered.update(through)
                faults.append(LocatedFault.of(cause, evidence, log_odds=round(gain, 1)))
        rest = [number for number in range(len(weights)) if number not in covered]
        crowded = list(congestion(repeated, rest))
        return Located(
            faults=merged((*faults, *crowded), self.fabric.rails),
            cleared=0 if crowded else sum(map(repeated.cleared, rest)),
            measured_again=sum(len(values) for values in retests.values()),
        )

"""The weight of each measured transfer for or against a fault on its path: the logarithm of a likelihood ratio.

The model: a transfer through a sound fabric reaches its rail's level within a few per cent, and now and then far less
for a reason of its own. A transfer through a faulty part reaches less than 92 % of the level, or fails.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from statistics import median

from components.validation.records import Flow

Value = float | None
"""Bandwidth in any unit, the same everywhere on a rail; None or 0: the transfer failed."""
Retests = Mapping[Flow, Sequence[Value]]
"""Values of transfers that were measured again with half as many at once."""

BAD_BELOW = 0.92
"""Share of the level below which a part is at fault: verdicts warn at 0.97 or 0.95 of it, and fail at 0.90."""
GOOD_FROM = 0.93
"""Share of a ceiling from which a value counts as that of a sound path when the level is estimated."""
USUAL = 0.985
"""Share of their ceiling that NICs usually reach; used where no path is sound."""
STRAYS, STRAYS_HALVED = 0.07, 0.03
"""Share of transfers that are slow in a sound fabric: other traffic, two flows hashed onto one link. At half the
concurrency there are fewer."""
MOST_WEIGHT = 5.0
"""Of one measurement, so that none decides alone."""
MOST_TOGETHER = 30.0
"""Of all measurements of one transfer."""
SOUND_AGAIN, FURTHEST = 0.90, 0.95
"""Share of the run's level from which a repetition counts as sound, and the lowest level of repetitions."""
STEPS = 400
"""Weights are tabulated in steps of 1/400 of the level."""


@dataclass(frozen=True, kw_only=True)
class MeasuredFabric:
    """The values of a run, and what is known about the fabric."""

    values: Mapping[Flow, Value]
    expected: Mapping[str, float] = field(default_factory=dict)
    """Ceiling of each rail in the unit of the values. A rail without one is compared only with itself, so a rail that
    is slow as a whole goes unnoticed."""
    ceiling_of: Mapping[Flow, float] = field(default_factory=dict)
    """Ceilings of transfers that differ from their rail's, as between NICs of different line rates."""
    leaf_of: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Leaf switch by (node, rail). Without a topology no link is ever named."""
    rated: bool = True
    """Whether speed counts; on simulated hardware only failures do."""

    @cached_property
    def flows(self) -> tuple[Flow, ...]:
        """All transfers, in the order of the values."""
        return tuple(Flow(*flow) for flow in self.values)

    @cached_property
    def number_of(self) -> Mapping[Flow, int]:
        """Index of each transfer in `flows`."""
        return {flow: number for number, flow in enumerate(self.flows)}

    @cached_property
    def rails(self) -> tuple[str, ...]:
        """All rails that were measured."""
        return tuple(dict.fromkeys(flow.rail for flow in self.flows))

    @cached_property
    def levels(self) -> Mapping[str, float]:
        """Bandwidth of a sound path on each rail."""
        by_rail: dict[str, list[float]] = {rail: [] for rail in self.rails}
        for flow, value in self.values.items():
            if value:
                by_rail[flow[0]].append(self.fair(flow, value))
        return {rail: _level(values, self.expected.get(rail)) for rail, values in by_rail.items()}

    @cached_property
    def spread(self) -> float:
        """Standard deviation of sound paths around their level, including drift over the run; 0.02 to 0.05."""
        levels, fair = self.levels, self.fair
        ratios = [fair(flow, value) / levels[flow[0]] for flow, value in self.values.items() if value]
        sound = [ratio for ratio in ratios if ratio > GOOD_FROM]
        if len(sound) < 8:
            return 0.03
        return min(max(1.4826 * median([abs(ratio - 1) for ratio in sound]), 0.02), 0.05)

    @cached_property
    def first(self) -> tuple[float, ...]:
        """Weight of each transfer in the run itself; a positive weight indicates a fault."""
        levels = self.levels
        return tuple(self.weight(flow, value, levels[flow[0]], STRAYS) for flow, value in self.values.items())

    def fair(self, flow: Flow, value: float) -> float:
        """A value scaled from the transfer's own ceiling to its rail's."""
        own = self.ceiling_of.get(flow) if self.ceiling_of else None
        return value * self.expected[flow[0]] / own if own and flow[0] in self.expected else value

    def ratio(self, flow: Flow, value: Value) -> float | None:
        """A value as a share of its rail's level; None for a failed transfer."""
        return self.fair(flow, value) / self.levels[flow[0]] if value else None

    def weight(self, flow: Flow, value: Value, level: float, strays: float) -> float:
        """The weight of one measurement, given the level of a sound path."""
        if not value:
            return MOST_WEIGHT
        if not self.rated:
            return -MOST_WEIGHT
        table = _weights(round(self.spread, 3), strays)
        return table[min(int(self.fair(flow, value) / level * STEPS), len(table) - 1)]


@dataclass(frozen=True)
class Repeated:
    """A run together with repeated measurements of single transfers."""

    fabric: MeasuredFabric
    values: Retests

    @cached_property
    def levels(self) -> Mapping[str, float]:
        """Bandwidth of sound paths at the time of the repetitions; the fabric may have drifted since the run."""
        sound: dict[str, list[float]] = {}
        before = self.fabric.levels
        for flow, values in self.values.items():
            fair = [self.fabric.fair(flow, value) for value in values if value]
            sound.setdefault(flow[0], []).extend(value for value in fair if value > SOUND_AGAIN * before[flow[0]])
        return {rail: max(_pulled(sound.get(rail, []), level), FURTHEST * level) for rail, level in before.items()}

    @cached_property
    def again(self) -> Mapping[Flow, float]:
        """Weight of all repetitions of each transfer."""
        weight, levels = self.fabric.weight, self.levels
        return {
            flow: math.fsum(weight(flow, value, levels[flow[0]], STRAYS_HALVED) for value in values)
            for flow, values in self.values.items()
        }

    @cached_property
    def together(self) -> Mapping[Flow, float]:
        """Weight of run and repetitions of each transfer that was measured again."""
        first, number_of = self.fabric.first, self.fabric.number_of
        return {
            flow: min(max(first[number_of[flow]] + again, -MOST_TOGETHER), MOST_TOGETHER)
            for flow, again in self.again.items()
        }

    def cleared(self, number: int) -> bool:
        """Whether a transfer was suspect in the run and good when measured again."""
        return self.again.get(self.fabric.flows[number], 0.0) < 0 < self.fabric.first[number]


def _level(values: list[float], ceiling: float | None) -> float:
    """Median of the sound values; a rail without any is slow as a whole, so its ceiling sets the level."""
    if not values:
        return ceiling or 1.0
    best = ceiling if ceiling is not None else sorted(values)[int(0.9 * (len(values) - 1))] / USUAL
    sound = [value for value in values if value >= GOOD_FROM * best]
    if len(sound) < max(2, len(values) // 20):
        return USUAL * best
    return median(sound) if ceiling is None else min(_pulled(sound, USUAL * ceiling), ceiling)


def _pulled(values: list[float], usual: float) -> float:
    """Median, pulled towards the usual value when there are few values: two of three may be outliers."""
    return (median(values) * len(values) + usual * 4) / (len(values) + 4) if values else usual


@lru_cache(maxsize=256)
def _weights(spread: float, strays: float) -> tuple[float, ...]:
    """The weight by ratio to the level, from 0 to 1.2 in steps of 1/STEPS."""
    weights: list[float] = []
    for step in range(int(1.2 * STEPS)):
        ratio = (step + 0.5) / STEPS
        normal = math.exp(-((ratio - 1) ** 2) / (2 * spread**2)) / (spread * math.sqrt(2 * math.pi))
        sound = (1 - strays) * normal + strays * (1.5 if 0.3 <= ratio <= 0.95 else 0.2)
        faulty = 1.1 * 0.5 * math.erfc((ratio - BAD_BELOW) / (spread * math.sqrt(2)))
        weight = math.log(max(faulty, 1e-9) / sound)
        weights.append(min(max(weight, -MOST_WEIGHT), MOST_WEIGHT))
    return tuple(weights)

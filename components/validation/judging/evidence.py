"""What each measured transfer says for or against a fault on its way: a weight, the logarithm of a likelihood ratio.

The picture behind it: a transfer of a sound fabric lies around its rail's level with a few per cent of spread, and
now and then far below it, for a reason of its own; one through a faulty part lies below 92 % of the level, or fails.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from statistics import median
from typing import NamedTuple


class Way(NamedTuple):
    """One directed transfer; a plain tuple of the three is the same key."""

    rail: str
    client: str
    """Node that sends."""
    server: str


Value = float | None
"""Bandwidth in any unit, the same everywhere on a rail; None or 0: the transfer failed."""
Retests = Mapping[Way, Sequence[Value]]
"""Values of transfers that were measured again with half as many beside them."""

BAD_BELOW = 0.92
"""Share of the level below which a part is at fault: verdicts warn at 0.97 or 0.95 of it, and fail at 0.90."""
GOOD_FROM = 0.93
"""Share of a ceiling from which a value counts as that of a sound path when the level is looked for."""
USUAL = 0.985
"""What NICs reach of their ceiling, where no sound path is there to tell."""
STRAYS, STRAYS_HALVED = 0.07, 0.03
"""Transfers of a sound fabric that are slow all the same: other traffic, two flows hashed onto one link. With half
the concurrency there are fewer."""
MOST_WEIGHT = 5.0
"""Of one measurement: none proves everything."""
MOST_TOGETHER = 30.0
"""Of all measurements of one transfer."""
SOUND_AGAIN, FURTHEST = 0.90, 0.95
"""Share of a level from which a repetition counts as sound, and how far the level of repetitions may lie below."""
STEPS = 400
"""Ratios are looked up in steps of 1/400."""


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """The values of a run, and what is known of the fabric beside them."""

    values: Mapping[Way, Value]
    expected: Mapping[str, float] = field(default_factory=dict)
    """Ceiling of each rail in the unit of the values. Without it a rail is compared with itself alone, and one that is
    slow as a whole is not seen."""
    ceiling_of: Mapping[Way, float] = field(default_factory=dict)
    """Ceilings of single transfers where they are not their rail's, as between NICs of different line rates."""
    leaf_of: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Leaf switch by (node, rail); empty where no topology is known, and then no link is ever named."""
    rated: bool = True
    """False: speeds say nothing, as on simulated hardware; only transfers that failed count."""

    @cached_property
    def ways(self) -> tuple[Way, ...]:
        """All transfers, in the order of the values."""
        return tuple(Way(*way) for way in self.values)

    @cached_property
    def number_of(self) -> Mapping[Way, int]:
        """Place of each transfer in `ways`."""
        return {way: number for number, way in enumerate(self.ways)}

    @cached_property
    def rails(self) -> tuple[str, ...]:
        """All rails that were measured."""
        return tuple(dict.fromkeys(way.rail for way in self.ways))

    @cached_property
    def levels(self) -> Mapping[str, float]:
        """What a sound path of each rail reaches."""
        by_rail: dict[str, list[float]] = {rail: [] for rail in self.rails}
        for way, value in self.values.items():
            if value:
                by_rail[way[0]].append(self.fair(way, value))
        return {rail: _level(values, self.expected.get(rail)) for rail, values in by_rail.items()}

    @cached_property
    def spread(self) -> float:
        """Standard deviation of sound paths around their level, drift over the run included; 0.02 to 0.05."""
        levels, fair = self.levels, self.fair
        ratios = [fair(way, value) / levels[way[0]] for way, value in self.values.items() if value]
        sound = [ratio for ratio in ratios if ratio > GOOD_FROM]
        if len(sound) < 8:
            return 0.03
        return min(max(1.4826 * median([abs(ratio - 1) for ratio in sound]), 0.02), 0.05)

    @cached_property
    def first(self) -> tuple[float, ...]:
        """Weight of each transfer of the run itself: positive speaks for a fault."""
        levels = self.levels
        return tuple(self.weight(way, value, levels[way[0]], STRAYS) for way, value in self.values.items())

    def fair(self, way: Way, value: float) -> float:
        """The value that a transfer would have with its rail's ceiling."""
        own = self.ceiling_of.get(way) if self.ceiling_of else None
        return value * self.expected[way[0]] / own if own and way[0] in self.expected else value

    def ratio(self, way: Way, value: Value) -> float | None:
        """A value as a share of its rail's level; None for a failed transfer."""
        return self.fair(way, value) / self.levels[way[0]] if value else None

    def weight(self, way: Way, value: Value, level: float, strays: float) -> float:
        """What one measurement says, by the level that a sound path has."""
        if not value:
            return MOST_WEIGHT
        if not self.rated:
            return -MOST_WEIGHT
        table = _weights(round(self.spread, 3), strays)
        return table[min(int(self.fair(way, value) / level * STEPS), len(table) - 1)]


@dataclass(frozen=True)
class Repeated:
    """What the repetitions of single transfers add to a run."""

    fabric: Fabric
    values: Retests

    @cached_property
    def levels(self) -> Mapping[str, float]:
        """What sound paths reached when they were measured again: later, when the fabric may have drifted."""
        sound: dict[str, list[float]] = {}
        before = self.fabric.levels
        for way, values in self.values.items():
            fair = [self.fabric.fair(way, value) for value in values if value]
            sound.setdefault(way[0], []).extend(value for value in fair if value > SOUND_AGAIN * before[way[0]])
        return {rail: max(_pulled(sound.get(rail, []), level), FURTHEST * level) for rail, level in before.items()}

    @cached_property
    def again(self) -> Mapping[Way, float]:
        """What the repetitions of each transfer say together."""
        weight, levels = self.fabric.weight, self.levels
        return {
            way: math.fsum(weight(way, value, levels[way[0]], STRAYS_HALVED) for value in values)
            for way, values in self.values.items()
        }

    @cached_property
    def together(self) -> Mapping[Way, float]:
        """What the run and the repetitions say together, of each transfer that was measured again."""
        first, number_of = self.fabric.first, self.fabric.number_of
        return {
            way: min(max(first[number_of[way]] + again, -MOST_TOGETHER), MOST_TOGETHER)
            for way, again in self.again.items()
        }

    def cleared(self, number: int) -> bool:
        """Whether a transfer was suspect and good when measured again."""
        return self.again.get(self.fabric.ways[number], 0.0) < 0 < self.fabric.first[number]


def _level(values: list[float], ceiling: float | None) -> float:
    """Median of the sound values. A rail without any is measured by its ceiling: it is slow as a whole."""
    if not values:
        return ceiling or 1.0
    best = ceiling if ceiling is not None else sorted(values)[int(0.9 * (len(values) - 1))] / USUAL
    sound = [value for value in values if value >= GOOD_FROM * best]
    if len(sound) < max(2, len(values) // 20):
        return USUAL * best
    return median(sound) if ceiling is None else min(_pulled(sound, USUAL * ceiling), ceiling)


def _pulled(values: list[float], usual: float) -> float:
    """Median, drawn to what is usual when there are few values: of three, two may be outliers to one side."""
    return (median(values) * len(values) + usual * 4) / (len(values) + 4) if values else usual


@lru_cache(maxsize=256)
def _weights(spread: float, strays: float) -> tuple[float, ...]:
    """The weight by ratio, from 0 to 1.2 in steps of 1/STEPS."""
    found: list[float] = []
    for step in range(int(1.2 * STEPS)):
        ratio = (step + 0.5) / STEPS
        normal = math.exp(-((ratio - 1) ** 2) / (2 * spread**2)) / (spread * math.sqrt(2 * math.pi))
        sound = (1 - strays) * normal + strays * (1.5 if 0.3 <= ratio <= 0.95 else 0.2)
        faulty = 1.1 * 0.5 * math.erfc((ratio - BAD_BELOW) / (spread * math.sqrt(2)))
        weight = math.log(max(faulty, 1e-9) / sound)
        found.append(min(max(weight, -MOST_WEIGHT), MOST_WEIGHT))
    return tuple(found)

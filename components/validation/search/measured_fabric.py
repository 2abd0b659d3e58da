"""A measured fabric: the weight of each transfer for or against a fault, and the parts that may be
at fault.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from statistics import median
from typing import Literal, NamedTuple

from components.validation.records import Flow

Value = float | None
"""Bandwidth in any unit, the same everywhere on a rail; None or 0: the transfer failed."""
Retests = Mapping[Flow, Sequence[Value]]
"""Values of transfers that were measured again with half as many at once."""

Topology = Mapping[tuple[str, str], str]
"""Leaf switch by (node, rail)."""
BAD_BELOW = 0.92
"""Share of the level below which a part is at fault: verdicts warn at 0.97 or 0.95 of it, and fail
at 0.90."""
GOOD_FROM = 0.93
"""Share of a ceiling from which a value counts as that of a sound path when the level is
estimated."""
USUAL = 0.985
"""Share of their ceiling that NICs usually reach; used where no path is sound."""
STRAYS, STRAYS_HALVED = 0.07, 0.03
"""Share of transfers that are slow in a sound fabric: other traffic, two flows hashed onto one
link. At half the concurrency there are fewer."""
MOST_WEIGHT = 5.0
"""Of one measurement, so that none decides alone."""
MOST_TOGETHER = 30.0
"""Of all measurements of one transfer."""
SOUND_AGAIN, FURTHEST = 0.90, 0.95
"""Share of the run's level from which a repetition counts as sound, and the lowest level of
repetitions."""
STEPS = 400


@dataclass(frozen=True, kw_only=True)
class MeasuredFabric:
    """The values of a run, and what is known about the fabric."""

    values: Mapping[Flow, Value]
    expected: Mapping[str, float] = field(default_factory=dict)
    """Ceiling of each rail in the unit of the values. A rail without one is compared only with
    itself, so a rail that is slow as a whole goes unnoticed."""
    ceiling_of: Mapping[Flow, float] = field(default_factory=dict)
    """Ceilings of transfers that differ from their rail's, as between NICs of different line
    rates."""
    leaf_of: Topology = field(default_factory=dict)
    """Without a topology no link is ever named."""
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
        """Standard deviation of sound paths around their level, including drift over the run; 0.02
        to 0.05.
        """
        levels, fair = self.levels, self.fair
        ratios = []
        for flow, value in self.values.items():
            if value:
                ratios.append(fair(flow, value) / levels[flow[0]])
        sound = [ratio for ratio in ratios if ratio > GOOD_FROM]
        if len(sound) < 8:
            return 0.03
        return min(max(1.4826 * median([abs(ratio - 1) for ratio in sound]), 0.02), 0.05)

    @cached_property
    def first(self) -> tuple[float, ...]:
        """Weight of each transfer in the run itself; a positive weight indicates a fault."""
        levels = self.levels
        return tuple(
            self.weight(flow, value, levels[flow[0]], STRAYS) for flow, value in self.values.items()
        )

    def fair(self, flow: Flow, value: float) -> float:
        """A value scaled from the transfer's own ceiling to its rail's."""
        own = self.ceiling_of.get(flow) if self.ceiling_of else None
        if own and flow[0] in self.expected:
            return value * self.expected[flow[0]] / own
        return value

    def ratio(self, flow: Flow, value: Value) -> float | None:
        """A value as a share of its rail's level; None for a failed transfer."""
        if value:
            return self.fair(flow, value) / self.levels[flow[0]]
        return None

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
        """Bandwidth of sound paths at the time of the repetitions; the fabric may have drifted
        since the run.
        """
        sound: dict[str, list[float]] = {}
        before = self.fabric.levels
        for flow, values in self.values.items():
            fair = [self.fabric.fair(flow, value) for value in values if value]
            sound.setdefault(flow[0], []).extend(
                value for value in fair if value > SOUND_AGAIN * before[flow[0]]
            )
        levels = {}
        for rail, level in before.items():
            levels[rail] = max(_pulled(sound.get(rail, []), level), FURTHEST * level)
        return levels

    @cached_property
    def again(self) -> Mapping[Flow, float]:
        """Weight of all repetitions of each transfer."""
        weights = {}
        for flow, values in self.values.items():
            level = self.levels[flow[0]]
            of_each = []
            for value in values:
                of_each.append(self.fabric.weight(flow, value, level, STRAYS_HALVED))
            weights[flow] = math.fsum(of_each)
        return weights

    @cached_property
    def together(self) -> Mapping[Flow, float]:
        """Weight of run and repetitions of each transfer that was measured again."""
        first, number_of = self.fabric.first, self.fabric.number_of
        together = {}
        for flow, again in self.again.items():
            weight = first[number_of[flow]] + again
            together[flow] = min(max(weight, -MOST_TOGETHER), MOST_TOGETHER)
        return together

    def cleared(self, number: int) -> bool:
        """Whether a transfer was suspect in the run and good when measured again."""
        return self.again.get(self.fabric.flows[number], 0.0) < 0 < self.fabric.first[number]


def _level(values: list[float], ceiling: float | None) -> float:
    """Median of the sound values; a rail without any is slow as a whole, so its ceiling sets the
    level.
    """
    if not values:
        return ceiling or 1.0
    if ceiling is not None:
        best = ceiling
    else:
        best = sorted(values)[int(0.9 * (len(values) - 1))] / USUAL
    sound = [value for value in values if value >= GOOD_FROM * best]
    if len(sound) < max(2, len(values) // 20):
        return USUAL * best
    if ceiling is None:
        return median(sound)
    return min(_pulled(sound, USUAL * ceiling), ceiling)


def _pulled(values: list[float], usual: float) -> float:
    """Median, pulled towards the usual value when there are few values: two of three may be
    outliers.
    """
    if values:
        return (median(values) * len(values) + usual * 4) / (len(values) + 4)
    return usual


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


Part = Literal[
    "node", "nic", "tx", "rx", "node_tx", "node_rx", "rail", "leaf", "leaf_pair", "pair", "one_way"
]
"""tx, rx: one direction of a NIC; node_tx, node_rx: of all NICs of a node. leaf: everything between
a leaf and other leaves; leaf_pair: between two leaves. pair: both directions between two nodes;
one_way: one of them."""

COST: dict[Part, float] = {
    "node": 4.0,
    "nic": 4.0,
    "tx": 4.5,
    "rx": 4.5,
    "node_tx": 5.0,
    "node_rx": 5.0,
    "rail": 5.0,
    "leaf": 5.0,
    "leaf_pair": 5.0,
    "pair": 5.0,
    "one_way": 6.0,
}
"""Logarithm of the odds against a fault in any part of a kind; `FabricParts.cost` adds the number
of such parts."""


class Cause(NamedTuple):
    """A part that may be at fault."""

    part: Part
    rail: str | None
    names: tuple[str, ...]
    """Nodes, of pairs the client first; or leaves."""


Group = tuple[str, ...]
"""Transfers that share a port or a link: ("tx", rail, node), ("rx", rail, node) or ("between",
rail, leaf, leaf)."""


@dataclass(frozen=True)
class FabricParts:
    """The parts of a fabric, and their transfers as indexes into `fabric.flows`. Each part consists
    of groups.
    """

    fabric: MeasuredFabric

    @cached_property
    def groups(self) -> dict[Group, list[int]]:
        """The transfers of each group."""
        flows, groups = self.fabric.flows, dict[Group, list[int]]()
        for number, flow in enumerate(flows):
            for group in self.groups_of(flow):
                groups.setdefault(group, []).append(number)
        # a single pair of nodes on two leaves is a pair, and no link
        for group, through in list(groups.items()):
            pairs = {frozenset(flows[number][1:]) for number in through}
            if group[0] == "between" and len(pairs) == 1:
                del groups[group]
        return groups

    def groups_of(self, flow: Flow) -> Iterator[Group]:
        """The groups that a transfer may belong to."""
        yield "tx", flow.rail, flow.client
        yield "rx", flow.rail, flow.server
        leaves = sorted(
            self.fabric.leaf_of.get((node, flow.rail), "") for node in (flow.client, flow.server)
        )
        if "" not in leaves and leaves[0] != leaves[1]:
            yield "between", flow.rail, *leaves

    @cached_property
    def nodes(self) -> dict[str, tuple[str, ...]]:
        """The rails of each node."""
        rails: dict[str, dict[str, None]] = {}
        for kind, rail, node, *_ in self.groups:
            if kind != "between":
                rails.setdefault(node, {})[rail] = None
        return {node: tuple(of_node) for node, of_node in rails.items()}

    @cached_property
    def structure(self) -> dict[Cause, list[Group]]:
        """Every part that more than one pair of nodes uses, with its groups."""
        causes = (*self._nics(), *self._rails(), *self._links())
        return {cause: self._groups_in(cause) for cause in causes}

    def _nics(self) -> Iterator[Cause]:
        for node, rails in self.nodes.items():
            tested = [rail for rail in rails if self._peers(Cause("nic", rail, (node,))) > 1]
            if tested:
                yield Cause("node", None, (node,))
            if len(rails) > 1 and tested:
                yield from (Cause("node_tx", None, (node,)), Cause("node_rx", None, (node,)))
                yield from (Cause("nic", rail, (node,)) for rail in tested)
            for rail in tested:
                for part in ("tx", "rx"):
                    if self._peers(Cause(part, rail, (node,))) > 1:
                        yield Cause(part, rail, (node,))

    def _rails(self) -> Iterator[Cause]:
        for rail in self.fabric.rails:
            if sum(rail in rails for rails in self.nodes.values()) > 2:
                yield Cause("rail", rail, ())

    def _links(self) -> Iterator[Cause]:
        leaves_of: dict[str, set[str]] = {}
        for kind, rail, *pair in self.groups:
            if kind == "between":
                yield Cause("leaf_pair", rail, tuple(pair))
                leaves_of.setdefault(rail, set()).update(pair)
        for rail, leaves in leaves_of.items():
            if len(leaves) > 2:  # two leaves are a leaf_pair
                for leaf in sorted(leaves):
                    yield Cause("leaf", rail, (leaf,))

    def _groups_in(self, cause: Cause) -> list[Group]:
        part, rail, names = cause
        if part == "rail":
            return [group for group in self.groups if group[:2] == ("tx", rail)]
        if part == "leaf_pair":
            return [("between", str(rail), *names)]
        if part == "leaf":
            between = [group for group in self.groups if group[:2] == ("between", rail)]
            return [group for group in between if names[0] in group[2:]]
        kinds = {"tx": ("tx",), "node_tx": ("tx",), "rx": ("rx",), "node_rx": ("rx",)}.get(
            part, ("tx", "rx")
        )
        rails = self.nodes[names[0]] if rail is None else (rail,)
        groups = [(kind, name, names[0]) for name in rails for kind in kinds]
        return [group for group in groups if group in self.groups]

    @cached_property
    def cost(self) -> dict[Part, float]:
        """The cost of blaming a part of each kind in this fabric."""
        count: Counter[Part] = Counter(cause.part for cause in self.structure)
        back = []
        for rail, client, server in self.fabric.flows:
            back.append(Flow(rail, server, client))
        there_and_back = sum(flow in self.fabric.values for flow in back)
        count["pair"] = len(self.fabric.flows) - there_and_back // 2
        count["one_way"] = len(self.fabric.flows)
        return {part: cost + math.log(max(count[part], 1)) for part, cost in COST.items()}

    def through(self, cause: Cause) -> list[int]:
        """All transfers that go through a part."""
        part, rail, names = cause
        if part in ("pair", "one_way"):
            both = [names, names[::-1]] if part == "pair" else [names]
            keys = []
            for ends in both:
                if len(ends) == 2:
                    keys.append(Flow(str(rail), *ends))
            return [self.fabric.number_of[flow] for flow in keys if flow in self.fabric.number_of]
        return [number for group in self._groups_in(cause) for number in self.groups[group]]

    def _peers(self, cause: Cause) -> int:
        flows = self.fabric.flows
        return len({node for number in self.through(cause) for node in flows[number][1:]}) - 1

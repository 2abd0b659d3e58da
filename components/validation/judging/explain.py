"""Which few faulty parts explain the weights of all transfers best: a sparse explanation, found by comparison of sets.

Each part is on the way of certain transfers. A set of parts scores the sum of the weights of all transfers that go
through any of them, less what each part costs because it is improbable beforehand. Good transfers through a part
speak against it, and a transfer is counted once however many parts it goes through. That alone keeps a bad rail from
being taken for 64 bad nodes, and two bad nodes among four for a bad rail.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from components.validation.judging.evidence import Fabric, Way

Part = Literal["node", "nic", "tx", "rx", "node_tx", "node_rx", "rail", "leaf", "leaf_pair", "pair", "one_way"]
"""tx and rx: one direction of a NIC; node_tx, node_rx: of all NICs of a node. leaf: everything between a leaf and
other leaves; leaf_pair: between two leaves. pair: both directions between two nodes; one_way: one of them."""

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
"""Logarithm of the odds against any part of a kind being at fault; the number of such parts is added to it."""
MOST_STARTS = 5
MOST_CAUSES = 64
"""More faults than this are no list that anybody works through."""


class Cause(NamedTuple):
    """A part that may be at fault."""

    part: Part
    rail: str | None
    names: tuple[str, ...]
    """Nodes, of pairs client first; or leaves."""


@dataclass(frozen=True)
class Parts:
    """Which transfers go through which part."""

    fabric: Fabric

    @cached_property
    def through_tx(self) -> dict[tuple[str, str], list[int]]:
        """Transfers that a NIC sends, by (rail, node)."""
        return self._grouped([(way.rail, way.client) for way in self.fabric.ways])

    @cached_property
    def through_rx(self) -> dict[tuple[str, str], list[int]]:
        """Transfers that a NIC receives, by (rail, node)."""
        return self._grouped([(way.rail, way.server) for way in self.fabric.ways])

    @cached_property
    def leaves(self) -> dict[tuple[str, str, str], list[int]]:
        """Transfers between two leaves, by (rail, leaf, leaf); groups of one pair of nodes are left out."""
        found: dict[tuple[str, str, str], list[int]] = {}
        leaf_of = self.fabric.leaf_of
        for number, way in enumerate(self.fabric.ways if leaf_of else ()):
            ends = sorted(leaf_of.get((node, way.rail), "") for node in (way.client, way.server))
            if "" not in ends and ends[0] != ends[1]:
                found.setdefault((way.rail, ends[0], ends[1]), []).append(number)
        ways = self.fabric.ways
        return {
            group: through
            for group, through in found.items()
            if len({frozenset(ways[number][1:]) for number in through}) > 1
        }

    @cached_property
    def nodes(self) -> dict[str, tuple[str, ...]]:
        """The rails of each node."""
        found: dict[str, dict[str, None]] = {}
        for rail, node in (*self.through_tx, *self.through_rx):
            found.setdefault(node, {})[rail] = None
        return {node: tuple(rails) for node, rails in found.items()}

    @cached_property
    def structure(self) -> tuple[Cause, ...]:
        """Every part that more than one pair of nodes can tell of."""
        return tuple(self._structure())

    def _structure(self) -> Iterator[Cause]:
        for node, rails in self.nodes.items():
            told = [rail for rail in rails if self._peers(Cause("nic", rail, (node,))) > 1]
            if told:
                yield Cause("node", None, (node,))
            if len(rails) > 1 and told:
                yield from (Cause("node_tx", None, (node,)), Cause("node_rx", None, (node,)))
                yield from (Cause("nic", rail, (node,)) for rail in told)
            for rail in told:
                for part in ("tx", "rx"):
                    if self._peers(Cause(part, rail, (node,))) > 1:
                        yield Cause(part, rail, (node,))
        for rail in self.fabric.rails:
            if sum(rail in rails for rails in self.nodes.values()) > 2:
                yield Cause("rail", rail, ())
        for rail, *pair in self.leaves:
            yield Cause("leaf_pair", rail, tuple(pair))
        for rail in dict.fromkeys(group[0] for group in self.leaves):
            leaves = dict.fromkeys(leaf for group in self.leaves if group[0] == rail for leaf in group[1:])
            if len(leaves) > 2:  # of two leaves, what is between them is the pair
                yield from (Cause("leaf", rail, (leaf,)) for leaf in leaves)

    @cached_property
    def cost(self) -> dict[Part, float]:
        """What naming a part of each kind costs in this fabric."""
        count = dict.fromkeys(COST, 0)
        for cause in self.structure:
            count[cause.part] += 1
        count["pair"] = len({(way.rail, frozenset(way[1:])) for way in self.fabric.ways})
        count["one_way"] = len(self.fabric.ways)
        return {part: cost + math.log(max(count[part], 1)) for part, cost in COST.items()}

    def through(self, cause: Cause) -> list[int]:
        """Numbers of all transfers that go through a part."""
        part, rail, names = cause
        if part in ("pair", "one_way"):
            both = [names, names[::-1]] if part == "pair" else [names]
            keys = [Way(str(rail), *ends) for ends in both if len(ends) == 2]
            return [self.fabric.number_of[way] for way in keys if way in self.fabric.number_of]
        if part == "rail":
            return [number for (r, _), sent in self.through_tx.items() if r == rail for number in sent]
        if part == "leaf_pair":
            return self.leaves[str(rail), names[0], names[1]]
        if part == "leaf":
            return [n for (r, *pair), group in self.leaves.items() if r == rail and names[0] in pair for n in group]
        rails = self.nodes[names[0]] if rail is None else (rail,)
        found: list[int] = []
        for name in rails:
            if part in ("node", "nic", "tx", "node_tx"):
                found += self.through_tx.get((name, names[0]), [])
            if part in ("node", "nic", "rx", "node_rx"):
                found += self.through_rx.get((name, names[0]), [])
        return found

    def gains(self, weights: Sequence[float], covered: bytearray) -> Iterator[tuple[float, Cause]]:
        """What each part would add to an explanation, its cost deducted; only those that add anything."""
        sent = {nic: _sum(weights, covered, through) for nic, through in self.through_tx.items()}
        got = {nic: _sum(weights, covered, through) for nic, through in self.through_rx.items()}
        between = {group: _sum(weights, covered, through) for group, through in self.leaves.items()}
        cost = self.cost
        for cause in self.structure:
            part, rail, names = cause
            if part == "rail":
                gain = math.fsum(value for nic, value in sent.items() if nic[0] == rail)
            elif part == "leaf_pair":
                gain = between[str(rail), names[0], names[1]]
            elif part == "leaf":
                gain = math.fsum(v for (r, *pair), v in between.items() if r == rail and names[0] in pair)
            else:
                nics = [(name, names[0]) for name in (self.nodes[names[0]] if rail is None else (rail,))]
                gain = 0.0
                if part not in ("rx", "node_rx"):
                    gain += math.fsum(sent.get(nic, 0.0) for nic in nics)
                if part not in ("tx", "node_tx"):
                    gain += math.fsum(got.get(nic, 0.0) for nic in nics)
            if gain > cost[part]:
                yield gain - cost[part], cause
        yield from self._paths(weights, covered)

    def _paths(self, weights: Sequence[float], covered: bytearray) -> Iterator[tuple[float, Cause]]:
        ways, number_of = self.fabric.ways, self.fabric.number_of
        least = min(self.cost["pair"] / 2, self.cost["one_way"])
        for number, weight in enumerate(weights):
            if weight <= least or covered[number]:
                continue
            rail, client, server = ways[number]
            back = number_of.get(Way(rail, server, client))
            if weight > self.cost["one_way"]:
                yield weight - self.cost["one_way"], Cause("one_way", rail, (client, server))
            if back is None or covered[back] or weights[back] <= 0:
                continue
            if (both := weight + weights[back]) > self.cost["pair"]:
                yield both - self.cost["pair"], Cause("pair", rail, (min(client, server), max(client, server)))

    def _peers(self, cause: Cause) -> int:
        ways = self.fabric.ways
        return len({node for number in self.through(cause) for node in ways[number][1:]}) - 1

    def _grouped(self, keys: list[tuple[str, str]]) -> dict[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], list[int]] = {}
        for number, key in enumerate(keys):
            found.setdefault(key, []).append(number)
        return found


def _sum(weights: Sequence[float], covered: bytearray, through: list[int]) -> float:
    return sum([weights[number] for number in through if not covered[number]])


def explain(parts: Parts, weights: Sequence[float]) -> tuple[tuple[Cause, float], ...]:
    """The best explanation found, each cause with what the fabric would be worse explained without it.

    The most telling part need not belong to the best explanation, so several are tried as the first one.
    """
    nothing = bytearray(len(weights))
    starts = sorted(parts.gains(weights, nothing), key=_by_gain)
    best: list[Cause] = []
    most = 0.0
    for gain, start in starts[:MOST_STARTS]:
        if gain < 0.25 * starts[0][0]:
            break
        found = _pruned(parts, weights, _completed(parts, weights, start))
        score = _score(parts, weights, found)
        if score > most:
            best, most = found, score
    return tuple((cause, most - _score(parts, weights, [other for other in best if other != cause])) for cause in best)


def _completed(parts: Parts, weights: Sequence[float], start: Cause) -> list[Cause]:
    covered, found = bytearray(len(weights)), [start]
    while len(found) < MOST_CAUSES:
        for number in parts.through(found[-1]):
            covered[number] = 1
        following = min(parts.gains(weights, covered), key=_by_gain, default=None)
        if following is None or following[1] in found:
            break
        found.append(following[1])
    return found


def _pruned(parts: Parts, weights: Sequence[float], found: list[Cause]) -> list[Cause]:
    """Without the causes that later ones made needless."""
    score = _score(parts, weights, found)
    for cause in list(found) if len(found) > 1 else []:
        without = [other for other in found if other != cause]
        if (better := _score(parts, weights, without)) > score:
            found, score = without, better
    return found


def _score(parts: Parts, weights: Sequence[float], causes: Sequence[Cause]) -> float:
    covered = {number for cause in causes for number in parts.through(cause)}
    return math.fsum(weights[number] for number in covered) - math.fsum(parts.cost[cause.part] for cause in causes)


def _by_gain(pair: tuple[float, Cause]) -> tuple[float, str, str, tuple[str, ...]]:
    """Largest gain first; names make equal ones reproducible."""
    gain, cause = pair
    return -gain, cause.part, cause.rail or "", cause.names

"""The parts of a fabric that may be at fault, and the transfers that go through each part."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from components.validation.judging.evidence import Fabric
from components.validation.records import Flow

Part = Literal["node", "nic", "tx", "rx", "node_tx", "node_rx", "rail", "leaf", "leaf_pair", "pair", "one_way"]
"""tx, rx: one direction of a NIC; node_tx, node_rx: of all NICs of a node. leaf: everything between a leaf and other
leaves; leaf_pair: between two leaves. pair: both directions between two nodes; one_way: one of them."""

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
"""Logarithm of the odds against a fault in any part of a kind; `Parts.cost` adds the number of such parts."""


class Cause(NamedTuple):
    """A part that may be at fault."""

    part: Part
    rail: str | None
    names: tuple[str, ...]
    """Nodes, of pairs the client first; or leaves."""


@dataclass(frozen=True)
class Parts:
    """Maps each part to its transfers, as indexes into `fabric.flows`."""

    fabric: Fabric

    @cached_property
    def through_tx(self) -> dict[tuple[str, str], list[int]]:
        """Transfers that a NIC sends, by (rail, node)."""
        return _grouped((flow.rail, flow.client) for flow in self.fabric.flows)

    @cached_property
    def through_rx(self) -> dict[tuple[str, str], list[int]]:
        """Transfers that a NIC receives, by (rail, node)."""
        return _grouped((flow.rail, flow.server) for flow in self.fabric.flows)

    @cached_property
    def leaves(self) -> dict[tuple[str, str, str], list[int]]:
        """Transfers between two leaves, by (rail, leaf, leaf); a single pair of nodes is no group."""
        found: dict[tuple[str, str, str], list[int]] = {}
        leaf_of = self.fabric.leaf_of
        for number, flow in enumerate(self.fabric.flows if leaf_of else ()):
            ends = sorted(leaf_of.get((node, flow.rail), "") for node in (flow.client, flow.server))
            if "" not in ends and ends[0] != ends[1]:
                found.setdefault((flow.rail, ends[0], ends[1]), []).append(number)
        flows = self.fabric.flows
        return {
            group: through
            for group, through in found.items()
            if len({frozenset(flows[number][1:]) for number in through}) > 1
        }

    @cached_property
    def leaf_pair_of(self) -> dict[int, tuple[str, str, str]]:
        """The group in `leaves` of each transfer that is in one."""
        return {number: group for group, through in self.leaves.items() for number in through}

    @cached_property
    def nodes(self) -> dict[str, tuple[str, ...]]:
        """The rails of each node."""
        found: dict[str, dict[str, None]] = {}
        for rail, node in (*self.through_tx, *self.through_rx):
            found.setdefault(node, {})[rail] = None
        return {node: tuple(rails) for node, rails in found.items()}

    @cached_property
    def structure(self) -> tuple[Cause, ...]:
        """Every part that more than one pair of nodes uses."""
        return tuple(self._structure())

    def _structure(self) -> Iterator[Cause]:
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
        for rail in self.fabric.rails:
            if sum(rail in rails for rails in self.nodes.values()) > 2:
                yield Cause("rail", rail, ())
        for rail, *pair in self.leaves:
            yield Cause("leaf_pair", rail, tuple(pair))
        for rail in dict.fromkeys(group[0] for group in self.leaves):
            leaves = dict.fromkeys(leaf for group in self.leaves if group[0] == rail for leaf in group[1:])
            if len(leaves) > 2:  # two leaves are a leaf_pair
                yield from (Cause("leaf", rail, (leaf,)) for leaf in leaves)

    @cached_property
    def cost(self) -> dict[Part, float]:
        """The cost of blaming a part of each kind in this fabric."""
        count: Counter[Part] = Counter(cause.part for cause in self.structure)
        there_and_back = sum((rail, server, client) in self.fabric.values for rail, client, server in self.fabric.flows)
        count["pair"] = len(self.fabric.flows) - there_and_back // 2
        count["one_way"] = len(self.fabric.flows)
        return {part: cost + math.log(max(count[part], 1)) for part, cost in COST.items()}

    def through(self, cause: Cause) -> list[int]:
        """All transfers that go through a part."""
        part, rail, names = cause
        if part in ("pair", "one_way"):
            both = [names, names[::-1]] if part == "pair" else [names]
            keys = [Flow(str(rail), *ends) for ends in both if len(ends) == 2]
            return [self.fabric.number_of[flow] for flow in keys if flow in self.fabric.number_of]
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

    def _peers(self, cause: Cause) -> int:
        flows = self.fabric.flows
        return len({node for number in self.through(cause) for node in flows[number][1:]}) - 1


def _grouped(keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[int]]:
    groups: dict[tuple[str, str], list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    return groups

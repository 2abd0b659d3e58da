"""The parts of a fabric that may be at fault, and the transfers that go through each part."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from components.validation.judging.evidence import MeasuredFabric
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
"""Logarithm of the odds against a fault in any part of a kind; `FabricParts.cost` adds the number of such parts."""


class Cause(NamedTuple):
    """A part that may be at fault."""

    part: Part
    rail: str | None
    names: tuple[str, ...]
    """Nodes, of pairs the client first; or leaves."""


Group = tuple[str, ...]
"""Transfers that share a port or a link: ("tx", rail, node), ("rx", rail, node) or ("between", rail, leaf, leaf)."""


@dataclass(frozen=True)
class FabricParts:
    """The parts of a fabric, and their transfers as indexes into `fabric.flows`. Each part consists of groups."""

    fabric: MeasuredFabric

    @cached_property
    def groups(self) -> dict[Group, list[int]]:
        """The transfers of each group."""
        flows, groups = self.fabric.flows, dict[Group, list[int]]()
        for number, flow in enumerate(flows):
            for group in self.groups_of(flow):
                groups.setdefault(group, []).append(number)
        # a single pair of nodes on two leaves is a pair, and no link
        single = {
            group
            for group, through in groups.items()
            if group[0] == "between" and len({frozenset(flows[number][1:]) for number in through}) == 1
        }
        return {group: through for group, through in groups.items() if group not in single}

    def groups_of(self, flow: Flow) -> Iterator[Group]:
        """The groups that a transfer may belong to."""
        yield "tx", flow.rail, flow.client
        yield "rx", flow.rail, flow.server
        leaves = sorted(self.fabric.leaf_of.get((node, flow.rail), "") for node in (flow.client, flow.server))
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
                yield from (Cause("leaf", rail, (leaf,)) for leaf in sorted(leaves))

    def _groups_in(self, cause: Cause) -> list[Group]:
        part, rail, names = cause
        if part == "rail":
            return [group for group in self.groups if group[:2] == ("tx", rail)]
        if part == "leaf_pair":
            return [("between", str(rail), *names)]
        if part == "leaf":
            return [group for group in self.groups if group[:2] == ("between", rail) and names[0] in group[2:]]
        kinds = {"tx": ("tx",), "node_tx": ("tx",), "rx": ("rx",), "node_rx": ("rx",)}.get(part, ("tx", "rx"))
        rails = self.nodes[names[0]] if rail is None else (rail,)
        groups = [(kind, name, names[0]) for name in rails for kind in kinds]
        return [group for group in groups if group in self.groups]

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
        return [number for group in self._groups_in(cause) for number in self.groups[group]]

    def _peers(self, cause: Cause) -> int:
        flows = self.fabric.flows
        return len({node for number in self.through(cause) for node in flows[number][1:]}) - 1

"""Locates the fault of a slow ring over all nodes by smaller rings: pairs, then halves. Pure.

    search = RingSearch(nodes=..., leaf_of=..., whole_gbyte_s=...)
    while rings := search.next_rings(results):
        ...run all of them at once, and add them to results
    findings = search.findings(results)

A ring is as fast as its slowest part. Pairs go to the search of the verbs tests: a pair is a
transfer in both directions. Only if all pairs are sound, halves narrow down what no pair shows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from statistics import median

from components.finding import Finding
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.plan import pair_rounds, sampled_rounds
from components.validation.records import Flow, RingResult, RunRecord
from components.validation.search.localise import Localiser
from components.validation.search.located import HINTS, LocatedFault
from components.validation.search.measured_fabric import BAD_BELOW, MeasuredFabric
from stacks.sets import folded

ALL_PAIRS_NODES = 8
SAMPLES = 4
"""Rounds of random pairs after the ring's two, above that."""
SMALLEST_HALF = 4
RAILS = "all rails"
"""A collective uses all rails at once; the search knows them as one."""


Topology = Mapping[tuple[str, str], str]
"""Leaf switch by node and rail."""
Results = Sequence[RingResult]


@dataclass(frozen=True, kw_only=True)
class RingSearch:
    """The search over one lab. The same results always lead to the same next rings."""

    nodes: tuple[str, ...]
    whole_gbyte_s: float | None
    leaf_of: Mapping[str, str] = field(default_factory=dict)
    """Leaf switch by node. Without it no link is named."""

    @cached_property
    def _rounds(self) -> list[list[tuple[str, str]]]:
        ordered = sorted(self.nodes, key=lambda node: (self.leaf_of.get(node, ""), node))
        if len(ordered) <= ALL_PAIRS_NODES:
            return list(pair_rounds(ordered))
        return list(islice(sampled_rounds(ordered, SAMPLES, RAILS), SAMPLES + 3))

    def next_rings(self, results: Results) -> tuple[tuple[str, ...], ...]:
        """Disjoint rings to run at the same time; none when the search is at its end."""
        values = _by_nodes(results)
        for pairs in self._rounds:
            missing = tuple(pair for pair in pairs if frozenset(pair) not in values)
            if missing:
                return missing
        again = self._suspects(values)
        if again:
            return again
        if self._faults(values) or self._even(values):
            return ()
        return self._halves(values)

    def findings(self, results: Results) -> tuple[Finding, ...]:
        """What is at fault, the most certain first."""
        values = _by_nodes(results)
        if not values:
            return ()
        faults = self._faults(values)
        group = self._group(faults, values)
        if group:
            evidence = "rings of two of these nodes are sound, those with other nodes are slow"
            hint = (
                "they share a slow link, such as a leaf's uplinks: switches[].ports would name it"
            )
            return (_ring_finding("GROUP_UPLINK_SLOW", group, evidence, hint),)
        if faults:
            return tuple(_finding(fault) for fault in faults)
        sound = _level(values)
        if self._even(values):
            evidence = f"every ring of two nodes is as slow as the ring over all, {sound:.1f} GB/s"
            hint = "no node and no link stands out: check what all share, such as NCCL's settings"
            return (_ring_finding("RING_EVENLY_SLOW", self.nodes, evidence, hint),)
        within = self._narrowed(values)[0]
        evidence = f"rings of two nodes reach {sound:.1f} GB/s, so no single pair shows it"
        hint = "many flows meet there: check the uplinks between these nodes, ECMP, ECN and PFC"
        return (_ring_finding("RING_SLOW_WITHIN", within, evidence, hint),)

    def _localiser(self, values: "Values") -> Localiser:
        first: dict[Flow, float | None] = {}
        for nodes, measured in values.items():
            if len(nodes) == 2:
                first.update(dict.fromkeys(_flows(nodes), measured[0]))
        leaves = {}
        for node, leaf in self.leaf_of.items():
            leaves[(node, RAILS)] = leaf
        return Localiser(MeasuredFabric(values=first, leaf_of=leaves))

    def _retests(self, values: "Values") -> dict[Flow, list[float | None]]:
        retests: dict[Flow, list[float | None]] = {}
        for nodes, measured in values.items():
            if len(nodes) == 2 and len(measured) > 1:
                retests.update(dict.fromkeys(_flows(nodes), measured[1:]))
        return retests

    def _suspects(self, values: "Values") -> tuple[tuple[str, ...], ...]:
        """Suspect pairs, disjoint, at most half as many at once as before."""
        pairs: list[tuple[str, str]] = []
        busy: set[str] = set()
        for flow in self._localiser(values).suspects(self._retests(values)):
            ends = (flow.client, flow.server)
            if not busy & {*ends} and len(pairs) < max(1, len(self.nodes) // 4):
                pairs.append(ends)
                busy.update(ends)
        return tuple(pairs)

    def _faults(self, values: "Values") -> tuple[LocatedFault, ...]:
        """Nodes, links and paths; a path at an accused link is part of that."""
        located = self._localiser(values).localise(self._retests(values))
        faults = [fault for fault in located.faults if fault.nodes or fault.leaves]
        leaves = {leaf for fault in faults for leaf in fault.leaves}
        kept = []
        for fault in faults:
            if not leaves & {self.leaf_of.get(node, "") for node in fault.nodes}:
                kept.append(fault)
        return tuple(kept)

    def _group(self, faults: Sequence[LocatedFault], values: "Values") -> list[str]:
        """Accused nodes that are sound together: not they are slow, but a link that they share."""
        accused = set()
        for fault in faults:
            if len(fault.nodes) == 1:
                accused.add(fault.nodes[0])
        group: set[str] = set()
        for nodes, measured in values.items():
            inside = len(nodes) == 2 and nodes <= accused
            if inside and not self._slow(measured[0], values):
                group |= nodes
        return sorted(accused) if group else []

    def _even(self, values: "Values") -> bool:
        """Whether the pairs are as slow as the whole ring."""
        whole = self.whole_gbyte_s
        return whole is not None and whole >= BAD_BELOW * _level(values)

    def _halves(self, values: "Values") -> tuple[tuple[str, ...], ...]:
        within, open_halves = self._narrowed(values)
        if len(within) >= SMALLEST_HALF:
            return open_halves
        return ()

    def _narrowed(self, values: "Values") -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """The smallest set of nodes whose ring is slow, and its halves without a result."""
        within = tuple(sorted(self.nodes, key=lambda node: (self.leaf_of.get(node, ""), node)))
        while len(within) >= SMALLEST_HALF:
            halves = (within[: len(within) // 2], within[len(within) // 2 :])
            unknown = tuple(half for half in halves if frozenset(half) not in values)
            if unknown:
                return within, unknown
            slow = [half for half in halves if self._slow(values[frozenset(half)][0], values)]
            if not slow:
                break
            within = slow[0]
        return within, ()

    def _slow(self, value: float | None, values: "Values") -> bool:
        return value is None or value < BAD_BELOW * _level(values)


Values = Mapping[frozenset[str], list[float | None]]
"""All values of a ring by its nodes, the oldest first."""


def search_of(nodes: Sequence[str], topology: Topology, whole_gbyte_s: float | None) -> RingSearch:
    """The search over a lab; a node's leaves, one of each rail, count as one."""
    leaves: dict[str, list[str]] = {}
    for (node, _), leaf in sorted(topology.items()):
        leaves.setdefault(node, []).append(leaf)
    leaf_of = {}
    for node in nodes:
        if node in leaves:
            leaf_of[node] = " and ".join(dict.fromkeys(leaves[node]))
    return RingSearch(nodes=tuple(nodes), leaf_of=leaf_of, whole_gbyte_s=whole_gbyte_s)


def slow_parts(plan: Plan, record: RunRecord, topology: Topology) -> tuple[Finding, ...]:
    """What the smaller rings of a run accuse."""
    if plan.nccl is None or record.nccl is None or not record.smaller_rings:
        return ()
    search = search_of(plan.nccl.nodes, topology, record.nccl.busbw_gbyte_s)
    return search.findings(record.smaller_rings)


def _by_nodes(results: Results) -> dict[frozenset[str], list[float | None]]:
    values: dict[frozenset[str], list[float | None]] = {}
    for ring in results:
        values.setdefault(frozenset(ring.nodes), []).append(ring.busbw_gbyte_s)
    return values


def _flows(nodes: frozenset[str]) -> Iterator[Flow]:
    first, second = sorted(nodes)
    yield Flow(RAILS, first, second)
    yield Flow(RAILS, second, first)


def _level(values: Values) -> float:
    """What a pair reaches, which a few slow ones do not change."""
    pairs = []
    for nodes, measured in values.items():
        if len(nodes) == 2 and measured[0]:
            pairs.append(measured[0])
    return median(pairs) if pairs else 0.0


def _finding(fault: LocatedFault) -> Finding:
    numbers = fault.evidence
    speed = ""
    if numbers.median_ratio is not None:
        speed = f", median {numbers.median_ratio:.0%} of a sound pair"
    evidence = f"{numbers.bad // 2} of {numbers.tested // 2} rings of two nodes are slow{speed}"
    evidence = f"NCCL: {evidence}"
    return Finding(code=fault.code, where=fault.where, evidence=evidence, hint=HINTS[fault.kind])


def _ring_finding(code: str, nodes: Sequence[str], evidence: str, hint: str) -> Finding:
    where = ", ".join(folded(nodes))
    return Finding(code=code, where=where, evidence=f"NCCL: {evidence}", hint=hint)

"""Locates the fault of a slow ring over all nodes by smaller rings: pairs, then halves. Pure.

    while rings := search_of(nodes, topology, whole_gbyte_s, results).next_rings():
        ...run all of them at once, and add them to results
    findings = search_of(nodes, topology, whole_gbyte_s, results).findings()

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
from components.validation.search.measured_fabric import BAD_BELOW, MeasuredFabric, Topology
from stacks.sets import folded

ALL_PAIRS_NODES = 8
SAMPLES = 4
"""Rounds of random pairs after the ring's two, above that."""
SMALLEST_HALF = 4
RAILS = "all rails"
"""A collective uses all rails at once; the search knows them as one."""


@dataclass(frozen=True, kw_only=True)
class RingSearch:
    """The search over one lab so far. The same results always lead to the same next rings."""

    nodes: tuple[str, ...]
    whole_gbyte_s: float | None
    leaf_of: Mapping[str, str] = field(default_factory=dict)
    """Leaf switch by node. Without it no link is named."""
    results: Sequence[RingResult]

    @cached_property
    def _ordered(self) -> tuple[str, ...]:
        return tuple(sorted(self.nodes, key=lambda node: (self.leaf_of.get(node, ""), node)))

    @cached_property
    def _values(self) -> dict[frozenset[str], list[float | None]]:
        """All values of a ring by its nodes, the oldest first."""
        values: dict[frozenset[str], list[float | None]] = {}
        for ring in self.results:
            values.setdefault(frozenset(ring.nodes), []).append(ring.busbw_gbyte_s)
        return values

    @cached_property
    def _flows(self) -> dict[Flow, list[float | None]]:
        """The values of pairs, each as those of both directions."""
        flows = {}
        for nodes, measured in self._values.items():
            if len(nodes) == 2:
                first, second = sorted(nodes)
                flows[Flow(RAILS, first, second)] = measured
                flows[Flow(RAILS, second, first)] = measured
        return flows

    @cached_property
    def _level(self) -> float:
        """What a pair reaches, which a few slow ones do not change."""
        pairs = [measured[0] for measured in self._flows.values() if measured[0]]
        return median(pairs) if pairs else 0.0

    @cached_property
    def _localiser(self) -> Localiser:
        first = {flow: measured[0] for flow, measured in self._flows.items()}
        leaves = {(node, RAILS): leaf for node, leaf in self.leaf_of.items()}
        return Localiser(MeasuredFabric(values=first, leaf_of=leaves))

    @cached_property
    def _retests(self) -> dict[Flow, list[float | None]]:
        return {flow: measured[1:] for flow, measured in self._flows.items() if measured[1:]}

    def next_rings(self) -> tuple[tuple[str, ...], ...]:
        """Disjoint rings to run at the same time; none when the search is at its end."""
        for pairs in self._rounds():
            missing = tuple(pair for pair in pairs if frozenset(pair) not in self._values)
            if missing:
                return missing
        again = self._suspects()
        if again:
            return again
        if self._faults or self._even:
            return ()
        return self._narrowed()[1]

    def findings(self) -> tuple[Finding, ...]:
        """What is at fault, the most certain first."""
        if not self._values:
            return ()
        group = self._group()
        if group:
            evidence = "rings within this group are sound, rings to other nodes are slow"
            hint = (
                "they share a slow link, such as a leaf's uplinks; set switches[].ports to get "
                "its name"
            )
            return (_ring_finding("GROUP_UPLINK_SLOW", group, evidence, hint),)
        if self._faults:
            return tuple(_finding(fault) for fault in self._faults)
        reached = f"{self._level:.1f} GB/s"
        if self._even:
            evidence = f"every ring of two nodes is as slow as the ring over all, {reached}"
            hint = "no node and no link stands out: check what all share, such as NCCL's settings"
            return (_ring_finding("RING_EVENLY_SLOW", self.nodes, evidence, hint),)
        within = self._narrowed()[0]
        evidence = f"rings of two nodes reach {reached}, so no single pair shows it"
        hint = "many flows meet there: check the uplinks between these nodes, ECMP, ECN and PFC"
        return (_ring_finding("RING_SLOW_WITHIN", within, evidence, hint),)

    def _rounds(self) -> Iterator[list[tuple[str, str]]]:
        if len(self.nodes) <= ALL_PAIRS_NODES:
            return pair_rounds(self._ordered)
        return islice(sampled_rounds(self._ordered, SAMPLES, RAILS), SAMPLES + 3)

    def _suspects(self) -> tuple[tuple[str, ...], ...]:
        """Suspect pairs, disjoint, at most half as many at once as before."""
        pairs: list[tuple[str, str]] = []
        busy: set[str] = set()
        for flow in self._localiser.suspects(self._retests):
            ends = (flow.client, flow.server)
            if not busy & {*ends} and len(pairs) < max(1, len(self.nodes) // 4):
                pairs.append(ends)
                busy.update(ends)
        return tuple(pairs)

    @cached_property
    def _faults(self) -> list[LocatedFault]:
        """Nodes, links and paths; a path at an accused link is part of that."""
        located = self._localiser.localise(self._retests)
        faults = [fault for fault in located.faults if fault.nodes or fault.leaves]
        leaves = {leaf for fault in faults for leaf in fault.leaves}
        kept = []
        for fault in faults:
            if not leaves & {self.leaf_of.get(node, "") for node in fault.nodes}:
                kept.append(fault)
        return kept

    def _group(self) -> list[str]:
        """Accused nodes that are sound together: not they are slow, but a link that they share."""
        accused = {fault.nodes[0] for fault in self._faults if len(fault.nodes) == 1}
        for flow, measured in self._flows.items():
            if {flow.client, flow.server} <= accused and not self._slow(measured[0]):
                return sorted(accused)
        return []

    @property
    def _even(self) -> bool:
        """Whether the pairs are as slow as the whole ring."""
        return not self._slow(self.whole_gbyte_s)

    def _narrowed(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """The smallest set of nodes whose ring is slow, and its halves without a result."""
        within = self._ordered
        while len(within) >= SMALLEST_HALF:
            halves = (within[: len(within) // 2], within[len(within) // 2 :])
            unknown = tuple(half for half in halves if frozenset(half) not in self._values)
            if unknown:
                return within, unknown
            slow = [half for half in halves if self._slow(self._values[frozenset(half)][0])]
            if not slow:
                break
            within = slow[0]
        return within, ()

    def _slow(self, value: float | None) -> bool:
        return value is None or value < BAD_BELOW * self._level


def search_of(
    nodes: Sequence[str],
    topology: Topology,
    whole_gbyte_s: float | None,
    results: Sequence[RingResult],
) -> RingSearch:
    """The search over a lab; a node's leaves, one of each rail, count as one."""
    leaves: dict[str, list[str]] = {}
    for (node, _), leaf in sorted(topology.items()):
        leaves.setdefault(node, []).append(leaf)
    leaf_of = {}
    for node in nodes:
        if node in leaves:
            leaf_of[node] = " and ".join(dict.fromkeys(leaves[node]))
    return RingSearch(
        nodes=tuple(nodes), leaf_of=leaf_of, whole_gbyte_s=whole_gbyte_s, results=results
    )


def slow_parts(plan: Plan, record: RunRecord, topology: Topology) -> tuple[Finding, ...]:
    """What the smaller rings of a run accuse."""
    if plan.nccl is None or record.nccl is None or not record.smaller_rings:
        return ()
    whole_gbyte_s = record.nccl.busbw_gbyte_s
    return search_of(plan.nccl.nodes, topology, whole_gbyte_s, record.smaller_rings).findings()


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

"""The faults that the search found: the part, the numbers behind it, and both in words."""

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Literal

from components.finding import Finding
from components.validation.records import Frozen
from components.validation.repeats import at_most
from components.validation.search.measured_fabric import Cause, MeasuredFabric, Part, Repeated
from stacks.words import plural

Kind = Literal["node", "rail", "direction", "path", "congestion"]
Direction = Literal["tx", "rx"]

CODES: dict[Part, tuple[Kind, str]] = {
    "node": ("node", "NODE_SLOW"),
    "nic": ("rail", "NIC_SLOW"),
    "rail": ("rail", "RAIL_SLOW"),
    "tx": ("direction", "NIC_TX_SLOW"),
    "rx": ("direction", "NIC_RX_SLOW"),
    "node_tx": ("direction", "NODE_TX_SLOW"),
    "node_rx": ("direction", "NODE_RX_SLOW"),
    "one_way": ("direction", "PATH_ONE_WAY_SLOW"),
    "pair": ("path", "PATH_SLOW"),
    "leaf_pair": ("path", "LEAF_PATH_SLOW"),
    "leaf": ("path", "LEAF_UPLINK_SLOW"),
}
CONGESTION = "CONGESTION"

USUAL_SHARE = 0.05
"""Pairs of transfers that may slow each other down in a sound fabric at full concurrency."""
CROWDED_SHARE = 0.2
"""Share of slow transfers on a rail from which it is congested."""
CHANCE = 1e-4
"""Probability below which that share is no coincidence."""
LEAST_RECOVERED = 0.6
"""Share of the slow transfers that must be good at half the concurrency."""

HINTS: dict[Kind, str] = {
    "node": "check what all its NICs share: PCIe, memory, CPU frequency, NUMA, driver, the node's "
    "MTU and QoS",
    "rail": "check the cable, the port and its counters, the PCIe link of that NIC, and its MTU",
    "direction": "one slow direction usually means a lane, a transceiver or a cable: check both "
    "ends' error counters",
    "path": "check the links between the two: error counters, MTU, and which uplink the flows take",
    "congestion": "fewer transfers at once are fast: check oversubscription, ECN and PFC marking, "
    "and ECMP hashing",
}


class FaultEvidence(Frozen):
    """The numbers behind a fault."""

    tested: int
    """Transfers through the part."""
    bad: int
    """Slow or failed in the run."""
    failed: int
    measured_again: int
    recovered: int
    """Slow in the run, good when fewer ran at once."""
    median_ratio: float | None
    """Median of the run's values over the level of a sound path; None when all failed."""


class LocatedFault(Frozen):
    """One part that explains slow or failed transfers."""

    kind: Kind
    code: str
    nodes: tuple[str, ...] = ()
    """Of a direction between two nodes, the sender first; empty for a whole rail or the fabric."""
    leaves: tuple[str, ...] = ()
    rail: str | None = None
    """None: all rails."""
    direction: Direction | None = None
    evidence: FaultEvidence
    log_odds: float
    """Natural logarithm of how much likelier the values are with this fault than without it."""

    @classmethod
    def of(cls, cause: Cause, evidence: FaultEvidence, log_odds: float) -> "LocatedFault":
        """The fault of a part."""
        kind, code = CODES[cause.part]
        if 2 * evidence.failed > evidence.bad:
            code = code.replace("_SLOW", "_DOWN")
        nodes, leaves = cause.names, tuple[str, ...]()
        if cause.part in ("leaf", "leaf_pair"):
            nodes, leaves = (), cause.names
        directions: dict[Part, Direction] = {
            "tx": "tx",
            "node_tx": "tx",
            "rx": "rx",
            "node_rx": "rx",
        }
        return cls(
            kind=kind,
            code=code,
            nodes=nodes,
            leaves=leaves,
            rail=cause.rail,
            direction=directions.get(cause.part),
            evidence=evidence,
            log_odds=log_odds,
        )

    @property
    def where(self) -> str:
        """In words."""
        rail = self.rail or "all rails"
        if self.kind == "congestion":
            between = ""
            if self.leaves:
                between = f", between leaves {', '.join(self.leaves)}"
            return f"{rail}, with many transfers at once{between}"
        if self.leaves:
            between = " to ".join(self.leaves)
            return f"{between if self.leaves[1:] else f'uplinks of {between}'} on {rail}"
        if self.code.startswith("PATH_ONE_WAY"):
            return f"path from {self.nodes[0]} to {self.nodes[1]} on {rail}, that direction only"
        if self.kind == "path":
            return f"path between {self.nodes[0]} and {self.nodes[1]} on {rail}"
        if not self.nodes:
            return f"{rail} as a whole"
        doing = {"tx": ", sending", "rx": ", receiving", None: ""}[self.direction]
        return f"{self.nodes[0]}, {rail}{doing}"

    @property
    def numbers(self) -> str:
        """The evidence in words."""
        e = self.evidence
        speed = ""
        if e.median_ratio is not None:
            speed = f", median {e.median_ratio:.0%} of a sound path"
        failed = f" ({e.failed} failed)" if 0 < e.failed < e.bad else ""
        again = (
            f"; {e.recovered} of {e.measured_again} measured again with half as many at once "
            "were good"
        )
        never = "; not measured again, so it may be congestion"
        what = f"failed{again if e.measured_again else ''}"
        if e.failed < e.bad:
            what = f"are slow{failed}{speed}{again if e.measured_again else never}"
        return f"{e.bad} of {plural(e.tested, 'transfer')} {what}"

    def finding(self) -> Finding:
        """The fault in the stack output."""
        return Finding(
            code=self.code, where=self.where, evidence=self.numbers, hint=HINTS[self.kind]
        )


class Located(Frozen):
    """The result of a search."""

    faults: tuple[LocatedFault, ...]
    cleared: int
    """Transfers that were slow once and good when measured again: noise."""
    measured_again: int


def evidence_of(numbers: Iterable[int], repeated: Repeated) -> FaultEvidence:
    """The numbers of some transfers of a run."""
    fabric = repeated.fabric
    chosen = [(number, fabric.flows[number]) for number in numbers]
    ratios = []
    for _, flow in chosen:
        ratio = fabric.ratio(flow, fabric.values[flow])
        if ratio is not None:
            ratios.append(ratio)
    typical = None
    if ratios and fabric.rated:
        typical = round(median(ratios), 4)
    return FaultEvidence(
        tested=len(chosen),
        bad=sum(fabric.first[number] > 0 for number, _ in chosen),
        failed=sum(not fabric.values[flow] for _, flow in chosen),
        measured_again=sum(flow in repeated.values for _, flow in chosen),
        recovered=sum(repeated.cleared(number) for number, _ in chosen),
        median_ratio=typical,
    )


def congestion(repeated: Repeated, rest: Sequence[int]) -> Iterator[LocatedFault]:
    """Rails with more slow transfers at once than chance explains, which are good with half as
    many at once.
    """
    by_rail: dict[str, list[int]] = {}
    for number in rest:
        by_rail.setdefault(repeated.fabric.flows[number].rail, []).append(number)
    for rail, numbers in by_rail.items():
        fault = _crowded(repeated, rail, numbers)
        if fault is not None:
            yield fault


def _crowded(repeated: Repeated, rail: str, numbers: Sequence[int]) -> LocatedFault | None:
    fabric, evidence = repeated.fabric, evidence_of(numbers, repeated)
    again = []
    for n in numbers:
        if fabric.first[n] > 0 and fabric.flows[n] in repeated.values:
            again.append(n)
    if not again or evidence.recovered < LEAST_RECOVERED * len(again):
        return None
    crowded = int(evidence.bad * evidence.recovered / len(again))
    # two flows that collide are two slow transfers of one event
    chance = 1.0
    if crowded > 1:
        chance = 1 - at_most(crowded // 2 - 1, len(numbers) // 2, USUAL_SHARE)
    if crowded < CROWDED_SHARE * len(numbers) or chance > CHANCE:
        return None
    leaves = tuple(sorted({leaf for (_, where), leaf in fabric.leaf_of.items() if where == rail}))
    inside = [number for number in numbers if _leaves(fabric, number) == 1]
    local = sum(fabric.first[number] > 0 for number in inside) > CROWDED_SHARE * len(inside)
    if len(leaves) < 2 or not inside or local:
        leaves = ()
    return LocatedFault(
        kind="congestion",
        code=CONGESTION,
        leaves=leaves,
        rail=rail,
        evidence=evidence,
        log_odds=round(-math.log(max(chance, 1e-15)), 1),
    )


def _leaves(fabric: MeasuredFabric, number: int) -> int:
    flow = fabric.flows[number]
    return len({fabric.leaf_of.get((node, flow.rail), "") for node in (flow.client, flow.server)})


def merged(faults: Sequence[LocatedFault], rails: Sequence[str]) -> tuple[LocatedFault, ...]:
    """The faults, the most certain first; a fault that all of several rails share becomes one."""
    groups: dict[tuple[object, ...], list[LocatedFault]] = {}
    for fault in faults:
        groups.setdefault((fault.code, fault.nodes, fault.leaves, fault.direction), []).append(
            fault
        )
    kept: list[LocatedFault] = []
    for same in groups.values():
        everywhere = len(rails) > 1 and {fault.rail for fault in same} == set(rails)
        kept += [_over_all(same)] if everywhere else same
    return tuple(sorted(kept, key=lambda fault: -fault.log_odds))


def _over_all(faults: Sequence[LocatedFault]) -> LocatedFault:
    counts = ("tested", "bad", "failed", "measured_again", "recovered")
    sums = dict.fromkeys(counts, 0)
    ratios = []
    for fault in faults:
        for name in counts:
            sums[name] += getattr(fault.evidence, name)
        if fault.evidence.median_ratio is not None:
            ratios.append(fault.evidence.median_ratio)
    evidence = FaultEvidence(**sums, median_ratio=min(ratios, default=None))
    log_odds = round(sum(fault.log_odds for fault in faults), 1)
    return faults[0].replace(rail=None, evidence=evidence, log_odds=log_odds)

"""What the search for faults says: which part, by which numbers, and in words."""

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Literal

from components.validation.judging.evidence import Fabric, Repeated
from components.validation.judging.parts import Cause, Part
from components.validation.judging.statistics import at_most
from components.validation.records import Frozen
from components.validation.summary import Finding
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
"""Pairs of transfers of a sound fabric that may suffer from each other at full concurrency."""
CROWDED_SHARE = 0.2
CHANCE = 1e-4
"""Most that the share of slow transfers may have come about by chance."""
LEAST_RECOVERED = 0.6
"""Of the slow transfers that were measured again at half the concurrency."""

HINTS: dict[Kind, str] = {
    "node": "look at what all its NICs share: PCIe, memory, CPU frequency, NUMA, driver, the node's MTU and QoS",
    "rail": "look at the cable, the port and its counters, the PCIe link of that NIC, and its MTU",
    "direction": "one direction alone is mostly a lane, a transceiver or a cable: look at both ends' error counters",
    "path": "look at the links between the two: error counters, MTU, and which uplink the flows take",
    "congestion": "fewer transfers at once are fast: look at oversubscription, ECN and PFC marking, and ECMP hashing",
}


class Evidence(Frozen):
    """The numbers behind a fault."""

    tested: int
    """Transfers through the part."""
    bad: int
    """Of them, slow or failed in the run."""
    failed: int
    measured_again: int
    recovered: int
    """Slow in the run, good when fewer ran at once."""
    median_ratio: float | None
    """Of the values in the run to what a sound path reaches; None when all failed."""


class Fault(Frozen):
    """One part that explains what is slow."""

    kind: Kind
    code: str
    nodes: tuple[str, ...] = ()
    """Of a direction between two nodes, the sender first; none where a whole rail or the fabric is meant."""
    leaves: tuple[str, ...] = ()
    rail: str | None = None
    """None: all rails."""
    direction: Direction | None = None
    evidence: Evidence
    explained: float
    """Share of all slow transfers that go through it."""
    log_odds: float
    """Natural logarithm of how much more probable the values are with this fault than without it."""

    @classmethod
    def of(cls, cause: Cause, evidence: Evidence, explained: float, log_odds: float) -> "Fault":
        """The fault that a cause stands for."""
        kind, code = CODES[cause.part]
        if 2 * evidence.failed > evidence.bad:
            code = code.replace("_SLOW", "_DOWN")
        on_leaves = cause.part in ("leaf", "leaf_pair")
        direction: Direction | None = None
        if cause.part in ("tx", "node_tx"):
            direction = "tx"
        elif cause.part in ("rx", "node_rx"):
            direction = "rx"
        return cls(
            kind=kind,
            code=code,
            nodes=() if on_leaves else cause.names,
            leaves=cause.names if on_leaves else (),
            rail=cause.rail,
            direction=direction,
            evidence=evidence,
            explained=explained,
            log_odds=log_odds,
        )

    @property
    def where(self) -> str:
        """In words."""
        rail = self.rail or "all rails"
        if self.kind == "congestion":
            between = f", between leaves {', '.join(self.leaves)}" if self.leaves else ""
            return f"{rail}, with many transfers at once{between}"
        if self.leaves:
            return f"{' to '.join(self.leaves) if len(self.leaves) > 1 else f'uplinks of {self.leaves[0]}'} on {rail}"
        if self.code.startswith("PATH_ONE_WAY"):
            return f"path from {self.nodes[0]} to {self.nodes[1]} on {rail}, that direction only"
        if self.kind == "path":
            return f"path between {self.nodes[0]} and {self.nodes[1]} on {rail}"
        if not self.nodes:
            return f"{rail} as a whole"
        way = {"tx": ", sending", "rx": ", receiving", None: ""}[self.direction]
        return f"{self.nodes[0]}, {rail}{way}"

    @property
    def numbers(self) -> str:
        """The evidence in words."""
        seen = self.evidence
        speed = f", median {seen.median_ratio:.0%} of a sound path" if seen.median_ratio is not None else ""
        failed = f" ({seen.failed} failed)" if 0 < seen.failed < seen.bad else ""
        again = f"; {seen.recovered} of {seen.measured_again} measured again with half as many at once were good"
        never = "; not measured again, so it may be congestion"
        what = f"failed{again if seen.measured_again else ''}"
        if seen.failed < seen.bad:
            what = f"are slow{failed}{speed}{again if seen.measured_again else never}"
        return f"{seen.bad} of {plural(seen.tested, 'transfer')} {what}"

    def finding(self) -> Finding:
        """As the stack output has it."""
        return Finding(code=self.code, where=self.where, evidence=self.numbers, hint=HINTS[self.kind])


class Located(Frozen):
    """The answer of a search."""

    faults: tuple[Fault, ...]
    cleared: int
    """Transfers that were slow once and good when measured again: noise, and no fault."""
    measured_again: int
    """Measurements that it took beyond the run."""


def evidence_of(numbers: Iterable[int], repeated: Repeated) -> Evidence:
    """The numbers of some transfers of a run."""
    fabric = repeated.fabric
    chosen = [(number, fabric.ways[number]) for number in numbers]
    ratios = [ratio for _, way in chosen if (ratio := fabric.ratio(way, fabric.values[way])) is not None]
    return Evidence(
        tested=len(chosen),
        bad=sum(fabric.first[number] > 0 for number, _ in chosen),
        failed=sum(not fabric.values[way] for _, way in chosen),
        measured_again=sum(way in repeated.values for _, way in chosen),
        recovered=sum(repeated.cleared(number) for number, _ in chosen),
        median_ratio=round(median(ratios), 4) if ratios and fabric.rated else None,
    )


def congestion(repeated: Repeated, rest: Sequence[int]) -> Iterator[Fault]:
    """Rails where many transfers are slow beside each other and good with half as many, more than chance makes."""
    by_rail: dict[str, list[int]] = {}
    for number in rest:
        by_rail.setdefault(repeated.fabric.ways[number].rail, []).append(number)
    for rail, numbers in by_rail.items():
        fault = _crowded(repeated, rail, numbers)
        if fault is not None:
            yield fault


def _crowded(repeated: Repeated, rail: str, numbers: Sequence[int]) -> Fault | None:
    fabric, seen = repeated.fabric, evidence_of(numbers, repeated)
    again = [n for n in numbers if fabric.first[n] > 0 and fabric.ways[n] in repeated.values]
    if not again or seen.recovered < LEAST_RECOVERED * len(again):
        return None
    crowded = int(seen.bad * seen.recovered / len(again))
    # two flows that collide are two slow transfers: counted as one event
    chance = 1 - at_most(crowded // 2 - 1, len(numbers) // 2, USUAL_SHARE) if crowded > 1 else 1.0
    if crowded < CROWDED_SHARE * len(numbers) or chance > CHANCE:
        return None
    leaves = sorted({leaf for (_, where), leaf in fabric.leaf_of.items() if where == rail})
    inside = [number for number in numbers if _leaves(fabric, number) == 1]
    local = sum(fabric.first[number] > 0 for number in inside) > CROWDED_SHARE * len(inside)
    return Fault(
        kind="congestion",
        code=CONGESTION,
        leaves=tuple(leaves) if len(leaves) > 1 and inside and not local else (),
        rail=rail,
        evidence=seen,
        explained=round(crowded / max(seen.bad, 1), 3),
        log_odds=round(-math.log(max(chance, 1e-15)), 1),
    )


def _leaves(fabric: Fabric, number: int) -> int:
    way = fabric.ways[number]
    return len({fabric.leaf_of.get((node, way.rail), "") for node in (way.client, way.server)})


def merged(faults: Sequence[Fault], rails: Sequence[str]) -> tuple[Fault, ...]:
    """The same fault on all of several rails as one, the most telling first."""
    found: list[Fault] = []
    for fault in faults:
        same = [other for other in faults if _same(fault, other)]
        if len(rails) > 1 and {other.rail for other in same} == set(rails):
            if fault is same[0]:
                found.append(_over_all(same))
        else:
            found.append(fault)
    return tuple(sorted(found, key=lambda fault: -fault.log_odds))


def _same(one: Fault, other: Fault) -> bool:
    return (one.code, one.nodes, one.leaves, one.direction) == (other.code, other.nodes, other.leaves, other.direction)


def _over_all(faults: Sequence[Fault]) -> Fault:
    seen = [fault.evidence for fault in faults]
    ratios = [one.median_ratio for one in seen if one.median_ratio is not None]
    return faults[0].model_copy(
        update={
            "rail": None,
            "evidence": Evidence(
                tested=sum(one.tested for one in seen),
                bad=sum(one.bad for one in seen),
                failed=sum(one.failed for one in seen),
                measured_again=sum(one.measured_again for one in seen),
                recovered=sum(one.recovered for one in seen),
                median_ratio=min(ratios, default=None),
            ),
            "explained": round(min(1.0, sum(fault.explained for fault in faults)), 3),
            "log_odds": round(sum(fault.log_odds for fault in faults), 1),
        }
    )

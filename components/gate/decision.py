"""Whether jobs may start on each node, by the verdict, its age, and a fresh audit. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from components.audit.findings import Audit, Severity
from components.audit.fleet import AuditFleet
from components.gate.measured import GateReason, MeasuredState, in_words, of_verdict, stale
from components.inventory.model import Inventory
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.sets import folded
from stacks.words import plural

State = Literal["open", "closed", "unknown"]
"""unknown: something that decides could not be read. Only open lets jobs start."""
SCHEMA_VERSION = 1
SHOWN_REASONS = 3


@frozen
class GatedNode:
    """One node at the gate."""

    name: str
    reasons: tuple[GateReason, ...] = ()
    unread: tuple[GateReason, ...] = ()

    @property
    def state(self) -> State:
        """Closed wins over unknown: what was read is enough to refuse."""
        if self.reasons:
            return "closed"
        return "unknown" if self.unread else "open"

    @property
    def line(self) -> str:
        """All reasons."""
        return "; ".join(map(str, (*self.reasons, *self.unread)))


@frozen
class LabGate:
    """The gate of a lab, or of some of its nodes."""

    lab: str
    read_at: datetime
    verdict: str
    """The verdict in a few words."""
    nodes: tuple[GatedNode, ...]

    @property
    def state(self) -> State:
        states = {node.state for node in self.nodes}
        if "closed" in states:
            return "closed"
        return "unknown" if "unknown" in states else "open"

    @property
    def line(self) -> str:
        """The whole answer in one line; a reason that several nodes share is named once."""
        places: dict[str, list[str]] = {}
        for node in self.nodes:
            for why in (*node.reasons, *node.unread):
                places.setdefault(str(why), []).append(node.name)
        if not places:
            return f"open: {', '.join(folded(node.name for node in self.nodes))}: {self.verdict}"
        texts = []
        for reason, names in places.items():
            texts.append(f"{', '.join(folded(names))}: {reason}")
        more = len(texts) - SHOWN_REASONS
        if more > 0:
            texts[SHOWN_REASONS:] = [f"and {plural(more, 'more reason')}"]
        return f"{self.state}: {'; '.join(texts)}"

    def document(self) -> dict[str, JsonValue]:
        """As `--json` prints it."""
        nodes: dict[str, JsonValue] = {}
        for node in self.nodes:
            reasons: list[JsonValue] = []
            for why in (*node.reasons, *node.unread):
                reasons.append({"code": why.code, "text": why.text})
            nodes[node.name] = {"gate": node.state, "reasons": reasons}
        return {
            "schema_version": SCHEMA_VERSION,
            "lab": self.lab,
            "gate": self.state,
            "read_at": f"{self.read_at:%Y-%m-%dT%H:%M:%SZ}",
            "verdict": self.verdict,
            "line": self.line,
            "nodes": nodes,
        }


@frozen
class GateMaterial:
    """Everything that decides."""

    lab: Lab
    nodes: Mapping[str, str]
    """State in the lab file, by name of the nodes at this gate."""
    inventory: Inventory
    audit: Audit
    measured: MeasuredState | None
    fail_on: Severity = Severity.HIGH
    stale_closes: bool = True

    @property
    def must_be_measured(self) -> bool:
        benchmarks = self.lab.benchmarks
        return benchmarks is not None and benchmarks.mode != "off"


def decide(material: GateMaterial) -> LabGate:
    """The gate of each node, from what is wrong now to what was measured before."""
    hosts = {host.name: host for host in material.inventory.hosts}
    in_audit = _of_audit(material)
    in_verdict = of_verdict(material.measured, material.nodes)
    gated = []
    for name, state in material.nodes.items():
        reasons: list[GateReason] = []
        if state != "active":
            reasons.append(GateReason(code="drained", text=f"the lab file has state: {state}"))
        reasons += in_audit[name]
        reasons += in_verdict[name]
        measured, host = material.measured, hosts.get(name)
        if measured and material.stale_closes and state == "active":
            reasons += stale(measured, name, host)
        elif measured is None and material.must_be_measured:
            reasons.append(GateReason(code="not-measured", text="the stack has no verdict yet"))
        unread = tuple(_unread(material, name)) if state == "active" else ()
        gated.append(GatedNode(name=name, reasons=tuple(dict.fromkeys(reasons)), unread=unread))
    return LabGate(
        lab=material.lab.name,
        read_at=material.inventory.read_at,
        verdict=in_words(material.measured),
        nodes=tuple(gated),
    )


def _of_audit(material: GateMaterial) -> dict[str, list[GateReason]]:
    """Findings at each node; those of a switch or the cluster hold for all nodes.

    A switch port with a node behind it is that node's.
    """
    reasons: dict[str, list[GateReason]] = {node.name: [] for node in material.lab.nodes}
    behind = {}
    for port in AuditFleet(material.inventory, material.lab, None).ports:
        if port.leaf:
            behind[port.leaf.name, port.leaf.port] = port.node
    for finding in material.audit.findings:
        if finding.severity > material.fail_on:
            continue
        for node, part in finding.places:
            where = part
            if node not in reasons:
                where = " ".join(filter(None, (node, part)))
            text = f"{where}: {finding.actual}" if where else finding.actual
            home = behind.get((node, part), node)
            for name in [home] if home in reasons else reasons:
                reasons[name].append(GateReason(code=finding.code, text=text))
    return reasons


def _unread(material: GateMaterial, name: str) -> Iterator[GateReason]:
    names = {node.name for node in material.lab.nodes}
    for device, reason in material.audit.unread:
        if device == name:
            yield GateReason(code="not-read", text=reason)
        elif device not in names:
            yield GateReason(code="not-read", text=f"{device}: {reason}")

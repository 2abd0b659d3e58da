"""What the last measurement says of each node: a bad verdict, and what changed since. Pure."""

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import field

from components.inventory.model import Host
from components.validation.benchmarks.part import TAKES_PART
from components.validation.stale import HostStates, changed_since
from components.validation.summary import Summary, closed
from stacks.frozen import frozen
from stacks.sets import names_of

MLX5, NVIDIA = "mlx5_core", "10de"
NAME = re.compile(r"[a-z0-9][a-z0-9.-]*(?:\[[0-9,-]+\][a-z0-9.-]*)?")
"""A node, or a set of nodes such as `gpu[01-04]`."""


@frozen
class GateReason:
    """Why no job should start on a node."""

    code: str
    """Of a check of the audit or a finding of the verdict; or `verdict`, `stale`, `not-measured`,
    `not-ready`, `drained` or `not-read`."""
    text: str

    def __str__(self) -> str:
        return f"{self.code} {self.text}".rstrip()


@frozen
class MeasuredState:
    """What the state of a stack keeps of the last measurement."""

    verdict: Summary
    """By the bounds of the lab file as it is now."""
    hosts: HostStates
    """Facts of the hosts when it was measured."""
    lab_changes: Mapping[str, list[str]] = field(default_factory=dict)
    """What the lab file measures or cables in another way since then, by node; empty for all."""


def in_words(measured: MeasuredState | None) -> str:
    if measured is None:
        return "not measured"
    verdict = measured.verdict
    simulated = " (simulated)" if verdict.simulated else ""
    return (
        f"run {verdict.run_id}{simulated}, function {verdict.function}, "
        f"performance {verdict.performance}"
    )


def of_verdict(measured: MeasuredState | None, nodes: Iterable[str]) -> dict[str, list[GateReason]]:
    """What keeps each node out; a bad verdict that names no node holds for all."""
    reasons: dict[str, list[GateReason]] = {name: [] for name in nodes}
    if measured is None:
        return reasons
    verdict = measured.verdict
    for name, texts in reasons.items():
        status = measured.hosts.get(name, {}).get("status", "ready")
        if status not in TAKES_PART:
            text = f"{status} when the lab was measured, so it did not take part"
            texts.append(GateReason(code="not-ready", text=text))
    if closed(verdict.mode, verdict.function, verdict.performance):
        for name, reason in _accusations(measured, reasons):
            reasons[name].append(reason)
    return reasons


def _accusations(measured: MeasuredState, nodes: Collection[str]) -> list[tuple[str, GateReason]]:
    """A finding names the guilty part, a reason both ends of a slow transfer."""
    findings, lines = [], []
    for finding in measured.verdict.findings:
        text = f"{finding.where}: {finding.evidence}"
        findings.append((finding.where, GateReason(code=finding.code, text=text)))
    for line in measured.verdict.reasons:
        lines.append((line, GateReason(code="verdict", text=line)))
    accused = _accused(findings, nodes) or _accused(lines, nodes)
    if accused:
        return accused
    text = lines[0][0] if lines else in_words(measured)
    return [(name, GateReason(code="verdict", text=text)) for name in nodes]


def _accused(
    candidates: Iterable[tuple[str, GateReason]], nodes: Container[str]
) -> list[tuple[str, GateReason]]:
    """Each named node with its reason."""
    accused = []
    for where, reason in candidates:
        for match in NAME.finditer(where):
            for name in names_of(match[0].rstrip(".-")):
                if name in nodes:
                    accused.append((name, reason))
    return accused


def stale(measured: MeasuredState, name: str, host: Host | None) -> Iterator[GateReason]:
    """What changed since the node was measured."""
    changes = measured.lab_changes
    for text in (*measured.verdict.stale, *changes.get("", ()), *changes.get(name, ())):
        yield GateReason(code="stale", text=text)
    before = measured.hosts.get(name)
    if before is None:
        yield GateReason(code="stale", text="it was not in the last measurement")
    elif host is not None and not host.unread:
        for text in changed_since({name: before}, {name: _current(before, host)}):
            yield GateReason(code="stale", text=text.removeprefix(f"{name}: "))


def _current(before: Mapping[str, object], host: Host) -> dict[str, object]:
    """The facts of the measurement with the values that a fresh inventory has of them."""
    system, current = host.system, dict(before)
    fresh = {"boot_id": system.boot_id.value, "kernel": system.kernel.value}
    for fact, value in fresh.items():
        if fact in before and value:
            current[fact] = value
    driver, gpu, nics = before.get("driver"), before.get("gpu"), before.get("nics")
    if isinstance(driver, Mapping) and "loaded" in driver:
        for module in system.drivers.or_else(()):
            if module.module == MLX5 and module.loaded.value:
                current["driver"] = {**driver, "loaded": module.loaded.value}
    if isinstance(gpu, Mapping):
        current["gpu"] = {**gpu, **_gpus(gpu, host)}
    if isinstance(nics, Mapping):
        current["nics"] = {name: _nic(nic, host, name) for name, nic in nics.items()}
    return current


def _gpus(before: Mapping[str, object], host: Host) -> dict[str, object]:
    facts: dict[str, object] = {}
    if host.gpus.value is not None and "count" in before:
        facts["count"] = sum(gpu.vendor_id == NVIDIA for gpu in host.gpus.value)
    if host.system.gpu_driver.value and "driver" in before:
        facts["driver"] = host.system.gpu_driver.value
    return facts


def _nic(before: object, host: Host, interface: str) -> object:
    """Facts of a NIC; those of before where the inventory has no NIC of this name."""
    for pf in host.pfs.or_else(()):
        if isinstance(before, Mapping) and interface in pf.interfaces.or_else(()):
            facts = {"driver": pf.driver.value, "firmware": pf.firmware.value}
            read = {}
            for key, value in facts.items():
                if value and key in before:
                    read[key] = value
            return {**before, **read}
    return before

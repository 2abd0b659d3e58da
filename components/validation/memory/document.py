"""The run document: one run as the lab's store keeps it. Its verdicts, charts and tables follow from it."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from components.validation.judging.stale import HostStates
from components.validation.memory.history import Entry
from components.validation.planning.plan import Plan
from components.validation.records import Frozen, MeasuredHost, RunRecord
from stacks.lab import Lab
from stacks.switches import cables


class DeclaredRail(Frozen):
    """What the lab declared around a rail when it was measured; the plan has the rest."""

    rail: str
    switch_mtu_bytes: int | None = None
    """The smallest of the switch ports that it is cabled to; None where no switch is described."""
    leaves: dict[str, str] = Field(default_factory=dict)
    """Leaf switch by node, as far as the cables are described."""


class RunDocument(Frozen):
    """One run. The stored file is the truth; the stack's state has its digest and the verdict by the lab's bounds."""

    schema_version: Literal[4] = 4
    plan: Plan
    """The plan that ran, without the hosts that were not ready."""
    rails: tuple[DeclaredRail, ...]
    record: RunRecord
    history: tuple[Entry, ...] = ()
    """Earlier runs, the oldest first, and this one; empty for a run by hand."""

    @property
    def leaves(self) -> dict[tuple[str, str], str]:
        """Leaf switch by (node, rail)."""
        return {(node, one.rail): switch for one in self.rails for node, switch in one.leaves.items()}


def declared_rails(lab: Lab) -> tuple[DeclaredRail, ...]:
    """The rails as the lab file has them now."""
    rail_of = {(node.name, pf.interface): pf.rail for node in lab.nodes for pf in node.pfs}
    leaves: dict[str, dict[str, str]] = {}
    ports: dict[str, list[int]] = {}
    for switch in lab.switches:
        for node, interface, _ in cables(switch):
            if rail := rail_of.get((node, interface)):
                leaves.setdefault(rail, {})[node] = switch.name
                ports.setdefault(rail, []).append(switch.mtu_bytes)
    return tuple(
        DeclaredRail(
            rail=rail.name,
            switch_mtu_bytes=min(ports.get(rail.name, ()), default=None),
            leaves=leaves.get(rail.name, {}),
        )
        for rail in lab.rails
    )


def with_inventory(record: RunRecord, hosts: HostStates) -> RunRecord:
    """The record with what the hosts reported to the Fleet of their kernels and NICs."""
    return record.model_copy(
        update={"hosts": {name: _described(facts, hosts.get(name, {})) for name, facts in record.hosts.items()}}
    )


def _described(facts: MeasuredHost, printed: Mapping[str, object]) -> MeasuredHost:
    nics = printed.get("nics")
    found = [nic for nic in nics.values() if isinstance(nic, Mapping)] if isinstance(nics, Mapping) else []
    first = {key: next((str(nic[key]) for nic in found if nic.get(key)), "") for key in ("model", "driver", "firmware")}
    return facts.model_copy(
        update={
            "nic": first["model"],
            "driver": first["driver"],
            "firmware": first["firmware"],
            "kernel": str(printed.get("kernel", "")),
        }
    )

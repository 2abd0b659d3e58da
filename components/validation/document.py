"""The run document: one run from its plan to its verdict, as the lab's store keeps it. Reports are made of it alone."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from components.cluster.rails import populated_rails
from components.validation.judging.stale import HostStates
from components.validation.judging.verdict import judge
from components.validation.memory.history import Entry, history_of
from components.validation.planning.plan import Plan
from components.validation.records import Frozen, HostFacts, RunRecord
from components.validation.summary import Summary
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab
from stacks.switches import cables


class DeclaredRail(Frozen):
    """What the lab declared around a rail when it was measured; the plan has the rest."""

    rail: str
    switch_mtu_bytes: int | None = None
    """The smallest of the switch ports that it is cabled to; None where no switch is described."""
    pod_mtu_bytes: int | None = None
    """None where no pods use the rail."""
    leaves: dict[str, str] = Field(default_factory=dict)
    """Leaf switch by node, as far as the cables are described."""


class RunDocument(Frozen):
    """One run. The stored file is the truth; the stack's state has its digest and its verdict."""

    schema_version: Literal[3] = 3
    plan: Plan
    """The plan that ran, without the hosts that were not ready."""
    rails: tuple[DeclaredRail, ...]
    record: RunRecord
    history: tuple[Entry, ...] = ()
    """Earlier runs, the oldest first, and this one; empty for a run by hand."""
    verdict: Summary | None = None
    """By the bounds at the time of the run."""

    @property
    def leaves(self) -> dict[tuple[str, str], str]:
        """Leaf switch by (node, rail)."""
        return {(node, one.rail): switch for one in self.rails for node, switch in one.leaves.items()}

    def judged(self, benchmarks: Benchmarks) -> Summary:
        """The verdict by these bounds."""
        return judge(self.plan, benchmarks, self.record, self.leaves).verdict(history_of(self.history))


def declared_rails(lab: Lab) -> tuple[DeclaredRail, ...]:
    """The rails as the lab file has them now."""
    rail_of = {(node.name, pf.interface): pf.rail for node in lab.nodes for pf in node.pfs}
    in_pods = {rail.name for rail in populated_rails(lab)} if lab.cluster else set()
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
            pod_mtu_bytes=rail.mtu_bytes if rail.name in in_pods else None,
            leaves=leaves.get(rail.name, {}),
        )
        for rail in lab.rails
    )


def with_inventory(record: RunRecord, hosts: HostStates) -> RunRecord:
    """The record with what the hosts' own commands printed of their kernels and NICs."""
    return record.model_copy(
        update={"hosts": {name: _described(facts, hosts.get(name, {})) for name, facts in record.hosts.items()}}
    )


def _described(facts: HostFacts, printed: Mapping[str, object]) -> HostFacts:
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

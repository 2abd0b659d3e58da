"""The lab's own cluster as the Fleet sees it: who leaves before hosts are undone, who joins when hosts are ready.

Where the cluster exists by itself, nothing here does anything.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from components.cluster.bootstrap.decide import STEP, Refusal
from components.cluster.bootstrap.join import remembered_ca, unite
from components.cluster.bootstrap.part import forget, leaving, part
from components.hosts.drain import Cluster, Drainer, DrainError
from components.hosts.facts import Facts
from components.hosts.records import HostRecord
from components.hosts.repair import Crew, Outcome
from components.ssh.admin import admin_config, control_planes_of
from components.ssh.credentials import Login
from stacks.base import LabError
from stacks.lab import Lab

T = TypeVar("T")
WayIn = Callable[[], tuple[Lab, Login]]
"""The lab of this run and how to get into its nodes; asked for only where there is something to do."""


class Nodes:
    """One run of the Fleet over the nodes of a lab."""

    def __init__(self, crew: Crew, records: Mapping[str, HostRecord], way_in: WayIn) -> None:
        self._crew, self._way_in = crew, way_in
        self._made_here = any("kubernetes" in record.document for record in records.values())
        self._gone: dict[str, HostRecord] = {}
        self._cluster: Cluster | None = None

    async def part(
        self, olds: Mapping[str, HostRecord], news: Mapping[str, HostRecord], facts: Facts
    ) -> dict[str, Refusal]:
        """Empties nodes that leave; those that keep their pods, with the reason: they are not undone."""
        self._gone = leaving(olds, news) if self._made_here else {}
        if not self._gone:
            return {}
        try:
            config = await self._kubeconfig(facts)
        except LabError as error:
            reason = str(error).splitlines()[0]
            hint = "bring a control plane back; or destroy the stack, which needs none"
            return {name: {"status": "failed", "step": STEP, "reason": reason, "hint": hint} for name in self._gone}
        if config is None:
            return {}  # no control plane stays: the cluster ends with its nodes
        self._cluster = Cluster(config)
        return await part(self._cluster, self._crew.say, self._gone)

    async def parted(self, kept: Mapping[str, Refusal], outcome: Outcome) -> None:
        """Forgets the nodes whose hosts are undone, and keeps those that stay for the next run."""
        for name, result in kept.items():
            record = self._gone[name]
            outcome.note(name, record.model_copy(update={"trouble": result["reason"]}), result)
        if self._cluster is not None:
            await forget(self._cluster, self._gone, outcome)

    async def unite(self, records: Mapping[str, HostRecord], outcome: Outcome, facts: Facts) -> None:
        """Brings the ready hosts into the cluster, and makes it when there is none."""
        if self._made_here:
            await unite(self._crew, self._way_in()[0], records, outcome, facts)

    async def drainer(self, kubeconfig: str | None, facts: Facts) -> Drainer | None:
        """Who empties nodes before a reboot; None while there is no cluster.

        Args:
            kubeconfig: that of a cluster that exists by itself.
            facts: those of the last run, which know whether there is one of our own.
        """
        try:
            config = kubeconfig or await self._kubeconfig(facts)
            return Cluster(config) if config else None
        except LabError as error:
            return _NoWayIn(str(error).splitlines()[0])

    async def _kubeconfig(self, facts: Facts) -> str | None:
        """That of a control plane; None while none is to be expected.

        Raises:
            LabError: when no control plane gives it.
        """
        if not self._made_here or not remembered_ca(facts):
            return None
        lab, login = self._way_in()
        planes = control_planes_of(lab, login.endpoints)
        return await admin_config(planes, login.keys) if planes else None


class _NoWayIn:
    """A cluster that is there and cannot be asked: no node of it is rebooted or left with its pods."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def cordon(self, node: str) -> bool:
        raise DrainError(f"{node} cannot be emptied: {self._reason}")

    def empty(self, node: str) -> None:
        self.cordon(node)

    def uncordon(self, node: str) -> None:
        self.cordon(node)


def without(records: Mapping[str, T], names: Mapping[str, object]) -> dict[str, T]:
    """The records of other names."""
    return {name: record for name, record in records.items() if name not in names}

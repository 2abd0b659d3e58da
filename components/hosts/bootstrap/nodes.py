"""The lab's own cluster in the Fleet: nodes leave before an undo, and join when hosts are ready.

The order matters for control planes: kubeadm reset asks the API about its own node to leave etcd,
so the node object goes last. With an existing cluster, this file does nothing.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

from components.hosts.bootstrap.decide import Refusal, failed_join
from components.hosts.bootstrap.join import remembered_ca, unite
from components.hosts.calls import Crew, Say
from components.hosts.drain import DrainError, NodeDrainer
from components.hosts.records import Facts, HostRecord, Records
from components.hosts.repair import Outcome
from components.ssh.connection import answers
from components.ssh.credentials import Login, admin_config, control_planes_of
from stacks.base import LabError
from stacks.lab import Lab

GREETING_S = 5.0


def leaving(olds: Records, news: Records) -> dict[str, HostRecord]:
    """Hosts that leave the lab's cluster and will be undone. A renamed host stays."""
    stay = {*news, *(record.formerly for record in news.values())}
    gone = {name: old for name, old in olds.items() if name not in stay}
    absent = {name: new for name, new in news.items() if new.state == "absent"}
    gone |= {name: new for name, new in absent.items() if _was_here(olds.get(name))}
    return {name: record for name, record in gone.items() if _is_node(record)}


async def part(cluster: NodeDrainer, say: Say, gone: Records) -> dict[str, Refusal]:
    """Drains the nodes; returns those that keep their pods, with the reason: they must not be
    undone.
    """
    kept: dict[str, Refusal] = {}

    async def one(name: str, record: HostRecord) -> None:
        if not await answers(record.endpoint.address, record.endpoint.port, GREETING_S):
            return  # nothing can end its pods, and its undo will report that it is silent
        try:
            if await asyncio.to_thread(cluster.knows, name):
                say(f"{name}: leaves the cluster: cordoned and drained")
                await asyncio.to_thread(cluster.cordon, name)
                await asyncio.to_thread(cluster.empty, name)
        except DrainError as error:
            hint = "end or move those pods, or delete the node with kubectl; then run again"
            kept[name] = failed_join(f"{error}; it is cordoned and still a node", hint)

    await asyncio.gather(*(one(name, record) for name, record in gone.items()))
    return kept


async def forget(cluster: NodeDrainer, gone: Records, outcome: Outcome) -> None:
    """Deletes the node objects of undone hosts; a failure becomes part of their result."""
    for name in gone:
        result = outcome.results.get(name, {})
        if result.get("status") != "undone":
            continue
        # with a reason nothing was undone: the host stays under another name, or another one
        # answers there
        stays = "reason" in result
        act = cluster.uncordon if stays else cluster.forget
        try:
            await asyncio.to_thread(act, name)
        except DrainError as error:
            outcome.results[name] = {**result, "reason": f"{error}: see kubectl get node {name}"}


def _was_here(old: HostRecord | None) -> bool:
    # an absent host with trouble was not undone completely, and is tried again
    return old is not None and (old.state == "active" or bool(old.trouble))


def _is_node(record: HostRecord) -> bool:
    made_here = isinstance(record.document.get("kubernetes"), dict)
    return made_here and record.state != "drained"


T = TypeVar("T")
WayIn = Callable[[], tuple[Lab, Login]]
"""The lab of this run and the login of its nodes; called only when needed."""


class Nodes:
    """One run of the Fleet over the nodes of a lab."""

    def __init__(self, crew: Crew, records: Records, way_in: WayIn) -> None:
        self._crew, self._way_in = crew, way_in
        self._made_here = any("kubernetes" in record.document for record in records.values())
        self._gone: dict[str, HostRecord] = {}
        self._cluster: NodeDrainer | None = None

    async def part(self, olds: Records, news: Records, facts: Facts) -> dict[str, Refusal]:
        """Drains nodes that leave.

        Returns those that keep their pods, with the reason, and are not undone.
        """
        self._gone = leaving(olds, news) if self._made_here else {}
        if not self._gone:
            return {}
        try:
            config = await self._kubeconfig(facts)
        except LabError as error:
            reason = str(error).splitlines()[0]
            hint = "bring a control plane back, or destroy the stack, which needs none"
            return {name: failed_join(reason, hint) for name in self._gone}
        if config is None:
            return {}  # no control plane stays, so the cluster ends with its nodes
        self._cluster = NodeDrainer(config)
        return await part(self._cluster, self._crew.say, self._gone)

    async def parted(self, kept: Mapping[str, Refusal], outcome: Outcome) -> None:
        """Deletes the nodes of undone hosts, and keeps the others for the next run."""
        for name, result in kept.items():
            record = self._gone[name]
            outcome.note(name, record.with_changes(trouble=result["reason"]), result)
        if self._cluster is not None:
            await forget(self._cluster, self._gone, outcome)

    async def unite(self, records: Records, outcome: Outcome, facts: Facts) -> None:
        """Joins ready hosts to the cluster, and creates it if there is none."""
        if self._made_here:
            await unite(self._crew, self._way_in()[0], records, outcome, facts)

    async def drainer(self, kubeconfig: str | None, facts: Facts) -> NodeDrainer | None:
        """Drains nodes before a reboot; None while there is no cluster.

        Args:
            kubeconfig: of an existing cluster.
            facts: of the last run, which know whether the lab has its own cluster.
        """
        try:
            config = kubeconfig or await self._kubeconfig(facts)
            return NodeDrainer(config) if config else None
        except LabError as error:
            return _NoWayIn(str(error).splitlines()[0])

    async def _kubeconfig(self, facts: Facts) -> str | None:
        """The kubeconfig of a control plane; None while the lab has no own cluster.

        Raises:
            LabError: when no control plane returns it.
        """
        if not self._made_here or not remembered_ca(facts):
            return None
        lab, login = self._way_in()
        planes = control_planes_of(lab, login.endpoints)
        return await admin_config(planes, login.keys) if planes else None


class _NoWayIn(NodeDrainer):
    """A cluster that does not answer, so that no node of it may be rebooted or undone."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def cordon(self, node: str) -> bool:
        raise DrainError(f"{node} cannot be drained: {self._reason}")

    def reopen(self, node: str) -> None:
        raise DrainError(f"{node} cannot be uncordoned: {self._reason}")


def without(records: Mapping[str, T], names: Mapping[str, object]) -> dict[str, T]:
    """The records without these names."""
    return {name: record for name, record in records.items() if name not in names}

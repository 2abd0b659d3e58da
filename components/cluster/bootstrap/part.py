"""Nodes that leave the cluster: emptied before their host is undone, forgotten by the API when it is.

The order matters for control planes: kubeadm reset asks the API about its own node to leave etcd, so the node object
goes last.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from components.cluster.bootstrap.decide import STEP, Refusal
from components.hosts.calls import Say
from components.hosts.drain import Drainer, DrainError
from components.hosts.records import HostRecord
from components.hosts.repair import Outcome
from components.ssh.connection import answers

GREETING_S = 5.0


class Leaver(Drainer, Protocol):
    """What leaving needs of a cluster beyond a drain."""

    def knows(self, node: str) -> bool:
        """Whether there is such a node."""

    def forget(self, node: str) -> None:
        """Deletes the node object; fine when it is gone."""


def leaving(olds: Mapping[str, HostRecord], news: Mapping[str, HostRecord]) -> dict[str, HostRecord]:
    """Hosts that were in the lab's cluster and are to be undone now. One that is renamed stays."""
    renamed = {record.formerly for record in news.values()}
    gone = {name: old for name, old in olds.items() if name not in news and name not in renamed}
    gone |= {name: new for name, new in news.items() if new.state == "absent" and _was_here(olds.get(name))}
    return {name: record for name, record in gone.items() if record.state != "drained" and _is_node(record)}


async def part(cluster: Leaver, say: Say, gone: Mapping[str, HostRecord]) -> dict[str, Refusal]:
    """Empties the nodes; those that keep their pods, with the reason: they must not be undone."""
    kept: dict[str, Refusal] = {}

    async def one(name: str, record: HostRecord) -> None:
        if not await answers(record.endpoint.address, record.endpoint.port, GREETING_S):
            return  # its pods have nobody to end them, and its undo will say that it is silent
        try:
            if await asyncio.to_thread(cluster.knows, name):
                say(f"{name}: leaves the cluster: cordoned and drained")
                await asyncio.to_thread(cluster.cordon, name)
                await asyncio.to_thread(cluster.empty, name)
        except DrainError as error:
            kept[name] = {
                "status": "failed",
                "step": STEP,
                "reason": f"{error}; it is cordoned and still a node",
                "hint": "end or move those pods and run again; or delete the node with kubectl, and run again",
            }

    await asyncio.gather(*(one(name, record) for name, record in gone.items()))
    return kept


async def forget(cluster: Leaver, gone: Mapping[str, HostRecord], outcome: Outcome) -> None:
    """Deletes the node objects of hosts that are undone; what fails is told in their result."""
    for name in gone:
        result = outcome.results.get(name, {})
        if result.get("status") != "undone":
            continue
        # with a reason nothing was undone: the machine stays under another name, or another one answers there
        stays = "reason" in result
        try:
            await asyncio.to_thread(cluster.uncordon if stays else cluster.forget, name)
        except DrainError as error:
            outcome.results[name] = {**result, "reason": f"{error}: see kubectl get node {name}"}


def _was_here(old: HostRecord | None) -> bool:
    # an absent host whose undo did not end has trouble, and is tried again
    return old is not None and (old.state == "active" or bool(old.trouble))


def _is_node(record: HostRecord) -> bool:
    return isinstance(record.document.get("kubernetes"), dict)

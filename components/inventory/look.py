"""Reads all named hosts, switches and the cluster at the same time."""

import asyncio
import resource
from collections.abc import Iterator, Sequence
from dataclasses import field
from datetime import UTC, datetime

from components.inventory.cluster import look_at_cluster
from components.inventory.hosts import HostLooks, LookTarget, Say
from components.inventory.model import SCHEMA, Cluster, Host, Inventory, Switch
from components.inventory.switches import SwitchTarget, look_at_switches
from components.ssh.connection import keys_of
from stacks.access import KnownHosts
from stacks.frozen import frozen


@frozen
class LookRequest:
    """What to read, and the credentials for it."""

    hosts: Sequence[LookTarget]
    known_hosts: KnownHosts
    private_key: str | None = field(default=None, repr=False)
    """None: the key is in the ssh-agent."""
    kubeconfig: str | None = field(default=None, repr=False)
    cluster_unread: str = ""
    """Why there is no kubeconfig of a cluster that the lab has."""
    sudo: bool = True
    firmware: bool = False
    switches: Sequence[SwitchTarget] = ()


@frozen
class Unread:
    """Something that was named and could not be read."""

    name: str
    reason: str
    offered_key: str = ""


def look(request: LookRequest, say: Say) -> Inventory:
    """The inventory; a host or switch that does not answer is in it with the reason.

    Raises:
        LabError: when a key or the kubeconfig cannot be used.
    """
    _allow_many_connections()
    return asyncio.run(_look(request, say))


async def _look(request: LookRequest, say: Say) -> Inventory:
    read_at = datetime.now(UTC)
    keys = keys_of(request.private_key)
    hosts, switches, cluster = await asyncio.gather(
        HostLooks(
            keys, request.known_hosts, sudo=request.sudo, firmware=request.firmware, say=say
        ).look(request.hosts),
        look_at_switches(request.switches, keys, request.known_hosts),
        asyncio.to_thread(_cluster, request),
    )
    return Inventory(
        schema=SCHEMA, read_at=read_at, hosts=hosts, switches=switches, cluster=cluster
    )


def unread(inventory: Inventory) -> Iterator[Unread]:
    """All that was named and could not be read."""
    devices: list[Host | Switch] = [*inventory.hosts, *inventory.switches]
    for device in devices:
        if device.unread:
            yield Unread(name=device.name, reason=device.unread, offered_key=device.offered_key)
    if inventory.cluster is not None and inventory.cluster.unread:
        yield Unread(name="cluster", reason=inventory.cluster.unread)


def _cluster(request: LookRequest) -> Cluster | None:
    if request.kubeconfig is not None:
        return look_at_cluster(request.kubeconfig)
    return Cluster(server="", unread=request.cluster_unread) if request.cluster_unread else None


def _allow_many_connections() -> None:
    """Each host takes a file descriptor, with an ssh-agent two; the usual soft limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65_536)), hard))

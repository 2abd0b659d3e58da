"""Copies the host program to all hosts at once, before the commands that start it.

One resource serves all hosts: one per host would store each host's connection twice more in the state. Every state
contains the path of this module, so it must not move.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from components.hosts.calls import HostCalls, each
from components.hosts.pack import digest, packed
from components.hosts.program.places import copy_of
from components.ssh import credentials
from components.ssh.configured import Configured
from components.ssh.connection import Endpoint, NoAnswerError
from stacks.lab import Lab

Props = dict[str, object]

RECEIVE_S = 60


class DeliveryProvider(Configured, ResourceProvider):
    """Takes the hosts from the lab and the program from this checkout."""

    sends = "program"
    """Name of the input with the digest of what is sent."""

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Changes with the content or with the hosts."""
        return DiffResult(changes=any(_olds.get(key) != _news.get(key) for key in (self.sends, "hosts")))

    def create(self, props: Props) -> CreateResult:
        self._send()
        return CreateResult(self.sends, props)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Sends it again: writing a file twice costs less than asking for it."""
        self._send()
        return UpdateResult(_news)

    def content(self, lab: Lab) -> dict[str, dict[str, bytes]]:
        """Per host the commands that receive something, each with its input."""
        return {node.name: {receive_command(): packed()} for node in lab.active_nodes}

    def _send(self) -> None:
        lab = credentials.configured_lab(self._setting)
        login = credentials.login_to(lab, Path.cwd(), self._setting)
        asyncio.run(send(HostCalls(login.private_key), login.endpoints, self.content(lab)))


class Delivery(Resource, module="hosts", name="Delivery"):
    """The host program on all hosts."""

    def __init__(
        self, name: str, endpoints: Mapping[str, Endpoint], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        props = {"program": digest(), "hosts": endpoints_digest(endpoints)}
        super().__init__(DeliveryProvider(), name, props, opts)


def endpoints_digest(endpoints: Mapping[str, Endpoint]) -> str:
    """Changes when a host joins, leaves, or has another endpoint."""
    hosts = json.dumps({host: endpoint.model_dump() for host, endpoint in endpoints.items()}, sort_keys=True)
    return hashlib.sha256(hosts.encode()).hexdigest()


def receive_command() -> str:
    """Writes the program atomically, under a name with its digest, so programs of other stacks stay."""
    copy = copy_of(digest())
    return f'cat > "$HOME/{copy}.new" && mv "$HOME/{copy}.new" "$HOME/{copy}"'


async def send(hosts: HostCalls, endpoints: Mapping[str, Endpoint], content: Mapping[str, Mapping[str, bytes]]) -> None:
    """Sends each host its content. If that fails, the command or step that needs it reports it, with the remedy."""

    async def one(name: str, endpoint: Endpoint) -> None:
        with suppress(NoAnswerError):
            for command, sent in content.get(name, {}).items():
                await hosts.run(endpoint, command, sent, RECEIVE_S)

    await each(endpoints, one)

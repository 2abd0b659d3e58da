"""The host program brought to all hosts at once, before the commands that start it.

One resource for all of them: a copy per host as a resource of its own would keep each host's connection in the state
twice more. The path of this module stands in the state of every stack: it never moves.
"""

import asyncio
import hashlib
import json
from collections.abc import Coroutine, Mapping
from pathlib import Path

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from components.hosts.calls import HostCalls, each
from components.hosts.pack import digest, packed
from components.hosts.program.places import copy_of
from components.ssh import credentials
from components.ssh.configured import Configured
from components.ssh.connection import Endpoint, NoAnswerError
from components.ssh.credentials import Login
from stacks.lab import Lab

Props = dict[str, object]

RECEIVE_S = 60


class DeliveryProvider(Configured, ResourceProvider):
    """Thin: the hosts come from the lab, the program from this very checkout."""

    sends = "program"
    """Its input is a digest of what is sent, beside the one of the hosts."""

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Other content, or other hosts."""
        return DiffResult(changes=any(_olds.get(key) != _news.get(key) for key in (self.sends, "hosts")))

    def create(self, props: Props) -> CreateResult:
        """Sends it to every active host that needs it."""
        self._send()
        return CreateResult(self.sends, props)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Sends it again: to write a file twice costs less than to ask."""
        self._send()
        return UpdateResult(_news)

    def sent(self, _lab: Lab, login: Login) -> Coroutine[None, None, None]:
        """Sends it to all hosts at once."""
        return send(HostCalls(login.private_key), login.endpoints)

    def _send(self) -> None:
        lab = credentials.configured_lab(self._setting)
        asyncio.run(self.sent(lab, credentials.login_to(lab, Path.cwd(), self._setting)))


class Delivery(Resource, module="hosts", name="Delivery"):
    """The host program on all hosts."""

    def __init__(
        self, name: str, endpoints: Mapping[str, Endpoint], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        props = {"program": digest(), "hosts": endpoints_digest(endpoints)}
        super().__init__(DeliveryProvider(), name, props, opts)


def endpoints_digest(endpoints: Mapping[str, Endpoint]) -> str:
    """Changes when a host comes, goes, or is reached in another way."""
    hosts = json.dumps({host: endpoint.model_dump() for host, endpoint in endpoints.items()}, sort_keys=True)
    return hashlib.sha256(hosts.encode()).hexdigest()


def receive_command() -> str:
    """Writes the program whole or not at all; its name tells which it is, so other stacks' programs stay."""
    copy = copy_of(digest())
    return f'cat > "$HOME/{copy}.new" && mv "$HOME/{copy}.new" "$HOME/{copy}"'


async def send(hosts: HostCalls, endpoints: Mapping[str, Endpoint]) -> None:
    """Copies the program to each host. A host that does not take it is told by its own command, with the remedy."""

    async def one(_name: str, endpoint: Endpoint) -> None:
        try:
            await hosts.run(endpoint, receive_command(), packed(), RECEIVE_S)
        except NoAnswerError:
            return

    await each(endpoints, one)

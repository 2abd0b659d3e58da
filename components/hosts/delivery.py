"""The host program brought to all hosts at once, before the commands that start it.

One resource for all of them: a copy per host as a resource of its own would keep each host's connection in the state
twice more. The path of this module stands in the state of every stack: it never moves.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from components.hosts.calls import Hosts, each
from components.hosts.pack import digest, packed
from components.hosts.program.places import copy_of
from components.ssh import credentials
from components.ssh.configured import Configured
from components.ssh.connection import Endpoint, NoAnswerError

Props = dict[str, object]

RECEIVE_S = 60


class DeliveryProvider(Configured, ResourceProvider):
    """Thin: the hosts come from the lab, the program from this very checkout."""

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Another program, or other hosts."""
        return DiffResult(changes=any(_olds.get(key) != _news.get(key) for key in ("program", "hosts")))

    def create(self, props: Props) -> CreateResult:
        """Sends the program to every active host."""
        self._send()
        return CreateResult("program", props)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Sends it again: to write a file twice costs less than to ask."""
        self._send()
        return UpdateResult(_news)

    def _send(self) -> None:
        lab = credentials.configured_lab(self._setting)
        login = credentials.login_to(lab, Path.cwd(), self._setting)
        asyncio.run(send(Hosts(login.private_key), login.endpoints))


class Delivery(Resource, module="hosts", name="Delivery"):
    """The host program on all hosts."""

    def __init__(
        self, name: str, endpoints: Mapping[str, Endpoint], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        hosts = json.dumps({host: endpoint.model_dump() for host, endpoint in endpoints.items()}, sort_keys=True)
        props = {"program": digest(), "hosts": hashlib.sha256(hosts.encode()).hexdigest()}
        super().__init__(DeliveryProvider(), name, props, opts)


def receive_command() -> str:
    """Writes the program whole or not at all; its name tells which it is, so other stacks' programs stay."""
    copy = copy_of(digest())
    return f'cat > "$HOME/{copy}.new" && mv "$HOME/{copy}.new" "$HOME/{copy}"'


async def send(hosts: Hosts, endpoints: Mapping[str, Endpoint]) -> None:
    """Copies the program to each host. A host that does not take it is told by its own command, with the remedy."""

    async def one(_name: str, endpoint: Endpoint) -> None:
        try:
            await hosts.run(endpoint, receive_command(), packed(), RECEIVE_S)
        except NoAnswerError:
            return

    await each(endpoints, one)

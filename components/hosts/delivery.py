"""Copies the host program, and secrets as files, to all hosts at once, before the commands that start the program.

One resource serves all hosts: one per host would store each host's connection twice more in the state. Secrets travel
over stdin into a file that only its owner can read: no document, state, log or command line contains one. Every state
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
from components.hosts.program.secret_files import PREFIX
from components.ssh import credentials
from components.ssh.configured import Configured, plainly
from components.ssh.connection import Endpoint, NoAnswerError
from stacks.lab import Lab
from stacks.secret_files import secret_files

Props = dict[str, object]

RECEIVE_S = 60


class DeliveryProvider(Configured, ResourceProvider):
    """Takes the hosts from the lab, the program from this checkout, and secrets from the stack's configuration."""

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Changes with the content or with the hosts."""
        return DiffResult(changes=any(_olds.get(key) != _news.get(key) for key in ("program", "files", "hosts")))

    def create(self, props: Props) -> CreateResult:
        self._send()
        return CreateResult("program", props)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Sends the file again: writing it twice costs less than comparing it."""
        self._send()
        return UpdateResult(_news)

    def content(self, lab: Lab) -> dict[str, dict[str, bytes]]:
        """Per host the commands that receive something, each with its input.

        Raises:
            LabError: when the stack lacks a secret, with the command that sets it.
        """
        found = {node.name: {receive_command(): packed()} for node in lab.active_nodes}
        for file in secret_files(lab):
            secret = credentials.required_secret(self._setting, file.key).encode()
            for node in file.nodes:
                found[node][receive_secret(file.name)] = secret
        return found

    @plainly()
    def _send(self) -> None:
        lab = credentials.configured_lab(self._setting)
        login = credentials.login_to(lab, Path.cwd(), self._setting)
        asyncio.run(send(HostCalls(login.private_key), login.endpoints, self.content(lab)))


class Delivery(Resource, module="hosts", name="Delivery"):
    """The host program on all hosts, and secrets on those that need one. Steps install and remove the secrets."""

    def __init__(
        self,
        name: str,
        endpoints: Mapping[str, Endpoint],
        files: pulumi.Output[str] | None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props: dict[str, pulumi.Input[str]] = {"program": digest(), "hosts": endpoints_digest(endpoints)}
        super().__init__(DeliveryProvider(), name, props | ({"files": files} if files else {}), opts)


def endpoints_digest(endpoints: Mapping[str, Endpoint]) -> str:
    """Changes when a host joins, leaves, or has another endpoint."""
    hosts = json.dumps({host: endpoint.model_dump() for host, endpoint in endpoints.items()}, sort_keys=True)
    return hashlib.sha256(hosts.encode()).hexdigest()


def files_digest(files: Mapping[str, pulumi.Output[str]]) -> pulumi.Output[str]:
    """Changes with any of the secrets, and is a secret itself."""
    given = pulumi.Output.all(**files)
    return given.apply(lambda texts: hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest())


def receive_command() -> str:
    """Writes the program atomically, under a name with its digest, so programs of other stacks stay."""
    copy = copy_of(digest())
    return f'cat > "$HOME/{copy}.new" && mv "$HOME/{copy}.new" "$HOME/{copy}"'


def receive_secret(name: str) -> str:
    """Writes stdin atomically to a file that only the login user can read."""
    place = f"$HOME/{PREFIX}{name}"
    return f'umask 077 && cat > "{place}.new" && mv "{place}.new" "{place}"'


async def send(hosts: HostCalls, endpoints: Mapping[str, Endpoint], content: Mapping[str, Mapping[str, bytes]]) -> None:
    """Sends each host its content. If that fails, the command or step that needs it reports it, with the remedy."""

    async def one(name: str, endpoint: Endpoint) -> None:
        with suppress(NoAnswerError):
            await hosts.run_all(endpoint, content[name], RECEIVE_S)

    await each(endpoints, one)

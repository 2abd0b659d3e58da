"""Copies the host program, and secrets as files, to all hosts, before commands start the program.

One resource serves all hosts: one per host would store each host's connection twice more in the
state. Secrets travel over stdin into a file that only its owner can read: no document, state, log
or command line contains one.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from components.hosts.calls import HostCalls, each
from components.hosts.pack import digest, packed
from components.hosts.program.places import copy_of
from components.hosts.program.secret_files import PREFIX
from components.provider.base import SECRET, Properties, Resource
from components.ssh import credentials
from components.ssh.connection import Endpoint, NoAnswerError
from stacks.lab import Lab
from stacks.secret_files import secret_files

RECEIVE_S = 60


class DeliveryInputs(Properties):
    program: str
    """sha256 of the host program."""
    hosts: str
    """Digest of the hosts and their endpoints."""
    files: Annotated[str | None, SECRET] = None
    """Digest of the secrets that hosts get as files."""


class Delivery(Resource[DeliveryInputs, DeliveryInputs]):
    """The host program on all hosts, and secrets on those that need one. Steps install and remove
    the secrets.
    """

    async def create(self, new: DeliveryInputs) -> DeliveryInputs:
        """Sends everything, also in an update: writing a file twice costs less than
        comparing it.
        """
        lab = self.config.lab
        login = credentials.login_to(lab, Path.cwd(), self.config.get)
        await send(HostCalls(login.private_key), login.endpoints, self.content(lab))
        return new

    def content(self, lab: Lab) -> dict[str, dict[str, bytes]]:
        """Per host the commands that receive something, each with its input.

        Raises:
            LabError: when the stack lacks a secret, with the command that sets it.
        """
        content = {node.name: {receive_command(): packed()} for node in lab.active_nodes}
        for file in secret_files(lab):
            secret = credentials.required_secret(self.config.get, file.key).encode()
            for node in file.nodes:
                content[node][receive_secret(file.name)] = secret
        return content


def endpoints_digest(endpoints: Mapping[str, Endpoint]) -> str:
    """Changes when a host joins, leaves, or has another endpoint."""
    plain = {host: endpoint.model_dump() for host, endpoint in endpoints.items()}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def receive_command() -> str:
    """Writes the program atomically, under its digest, so programs of other stacks stay."""
    copy = copy_of(digest())
    return f'cat > "$HOME/{copy}.new" && mv "$HOME/{copy}.new" "$HOME/{copy}"'


def receive_secret(name: str) -> str:
    """Writes stdin atomically to a file that only the login user can read."""
    place = f"$HOME/{PREFIX}{name}"
    return f'umask 077 && cat > "{place}.new" && mv "{place}.new" "{place}"'


async def send(
    hosts: HostCalls, endpoints: Mapping[str, Endpoint], content: Mapping[str, Mapping[str, bytes]]
) -> None:
    """Sends each host its content. If that fails, the command or step that needs it reports it,
    with the remedy.
    """

    async def deliver(name: str, endpoint: Endpoint) -> None:
        with suppress(NoAnswerError):
            await hosts.run_all(endpoint, content[name], RECEIVE_S)

    await each(endpoints, deliver)

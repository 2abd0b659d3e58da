"""Secrets brought to the nodes that need them as files, before the commands that start the host program.

They go over stdin into a file for its owner alone: no document, state, log or command line ever holds one. The path of
this module stands in the state of stacks with such secrets: it never moves.
"""

import hashlib
import json
from collections.abc import Coroutine, Mapping

import pulumi
from pulumi.dynamic import Resource

from components.hosts.calls import HostCalls, each
from components.hosts.delivery import RECEIVE_S, DeliveryProvider, endpoints_digest
from components.hosts.program.secret_files import PREFIX
from components.ssh import credentials
from components.ssh.connection import Endpoint, NoAnswerError
from stacks.lab import Lab
from stacks.secret_files import secret_files


class SecretFilesProvider(DeliveryProvider):
    """Thin: which files, and on which nodes, comes from the lab; their content from the stack's configuration."""

    sends = "files"

    def sent(self, lab: Lab, login: credentials.Login) -> Coroutine[None, None, None]:
        """Brings each node its files."""
        return send_files(HostCalls(login.private_key), login.endpoints, files_of(lab, self._setting))


class SecretFiles(Resource, module="hosts", name="SecretFiles"):
    """The files of a lab's secrets, on their nodes. What is in place is the steps' business, and so is its removal."""

    def __init__(
        self,
        name: str,
        endpoints: Mapping[str, Endpoint],
        files: pulumi.Output[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {"files": files, "hosts": endpoints_digest(endpoints)}
        super().__init__(SecretFilesProvider(), name, props, opts)


def files_digest(files: Mapping[str, pulumi.Output[str]]) -> pulumi.Output[str]:
    """Changes with any of the secrets, and is one itself."""
    given = pulumi.Output.all(**files)
    return given.apply(lambda texts: hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest())


def files_of(lab: Lab, setting: credentials.Setting) -> dict[str, dict[str, bytes]]:
    """Name and content of each node's files.

    Raises:
        LabError: when the stack has no such secret, with the command that sets it.
    """
    found: dict[str, dict[str, bytes]] = {}
    for file in secret_files(lab):
        content = credentials.required_secret(setting, file.key).encode()
        for node in file.nodes:
            found.setdefault(node, {})[file.name] = content
    return found


def receive_command(name: str) -> str:
    """Keeps stdin as a file that only the login reads, whole or not at all."""
    place = f"$HOME/{PREFIX}{name}"
    return f'umask 077 && cat > "{place}.new" && mv "{place}.new" "{place}"'


async def send_files(
    hosts: HostCalls, endpoints: Mapping[str, Endpoint], files: Mapping[str, Mapping[str, bytes]]
) -> None:
    """Brings each node its files. A host that does not take them is told by its own step, with the remedy."""

    async def one(name: str, endpoint: Endpoint) -> None:
        try:
            for file, content in files.get(name, {}).items():
                await hosts.run(endpoint, receive_command(file), content, RECEIVE_S)
        except NoAnswerError:
            return

    await each(endpoints, one)

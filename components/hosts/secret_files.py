"""Secrets brought to the nodes that need them as files, before the commands that start the host program.

They go over stdin into a file for its owner alone: no document, state, log or command line ever holds one. The path of
this module stands in the state of stacks with such secrets: it never moves.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from components.hosts.calls import Hosts, each
from components.hosts.program.secret_files import PREFIX
from components.ssh import credentials
from components.ssh.configured import Configured
from components.ssh.connection import Endpoint, NoAnswerError
from stacks.lab import Lab
from stacks.secret_files import secret_files

Props = dict[str, object]

RECEIVE_S = 60


class SecretFilesProvider(Configured, ResourceProvider):
    """Thin: which files, and on which nodes, comes from the lab; their content from the stack's configuration."""

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Another secret, or other hosts."""
        return DiffResult(changes=any(_olds.get(key) != _news.get(key) for key in ("files", "hosts")))

    def create(self, props: Props) -> CreateResult:
        """Brings them to every active host that needs them."""
        self._send()
        return CreateResult("files", props)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Brings them again: to write a file twice costs less than to ask."""
        self._send()
        return UpdateResult(_news)

    def _send(self) -> None:
        lab = credentials.configured_lab(self._setting)
        login = credentials.login_to(lab, Path.cwd(), self._setting)
        asyncio.run(send_files(Hosts(login.private_key), login.endpoints, files_of(lab, self._setting)))


class SecretFiles(Resource, module="hosts", name="SecretFiles"):
    """The files of a lab's secrets, on their nodes. What is in place is the steps' business, and so is its removal."""

    def __init__(
        self,
        name: str,
        endpoints: Mapping[str, Endpoint],
        files: pulumi.Output[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        hosts = json.dumps({host: endpoint.model_dump() for host, endpoint in endpoints.items()}, sort_keys=True)
        props = {"files": files, "hosts": hashlib.sha256(hosts.encode()).hexdigest()}
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


async def send_files(hosts: Hosts, endpoints: Mapping[str, Endpoint], files: Mapping[str, Mapping[str, bytes]]) -> None:
    """Brings each node its files. A host that does not take them is told by its own step, with the remedy."""

    async def one(name: str, endpoint: Endpoint) -> None:
        try:
            for file, content in files.get(name, {}).items():
                await hosts.run(endpoint, receive_command(file), content, RECEIVE_S)
        except NoAnswerError:
            return

    await each(endpoints, one)

"""Copies secrets as files to the nodes that need them, before the commands that start the host program.

They travel over stdin into a file that only its owner can read: no document, state, log or command line contains one.
States of stacks with such secrets contain the path of this module, so it must not move.
"""

import hashlib
import json
from collections.abc import Mapping

import pulumi
from pulumi.dynamic import Resource

from components.hosts.delivery import DeliveryProvider, endpoints_digest
from components.hosts.program.secret_files import PREFIX
from components.ssh import credentials
from components.ssh.connection import Endpoint
from stacks.lab import Lab
from stacks.secret_files import secret_files


class SecretFilesProvider(DeliveryProvider):
    """Takes files and nodes from the lab, and the content from the stack's configuration."""

    sends = "files"

    def content(self, lab: Lab) -> dict[str, dict[str, bytes]]:
        """Per node the commands that receive its files.

        Raises:
            LabError: when the stack has no such secret, with the command that sets it.
        """
        found: dict[str, dict[str, bytes]] = {}
        for file in secret_files(lab):
            secret = credentials.required_secret(self._setting, file.key).encode()
            for node in file.nodes:
                found.setdefault(node, {})[receive_command(file.name)] = secret
        return found


class SecretFiles(Resource, module="hosts", name="SecretFiles"):
    """The files with a lab's secrets on their nodes. Steps install and remove them."""

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
    """Changes with any of the secrets, and is a secret itself."""
    given = pulumi.Output.all(**files)
    return given.apply(lambda texts: hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest())


def receive_command(name: str) -> str:
    """Writes stdin atomically to a file that only the login user can read."""
    place = f"$HOME/{PREFIX}{name}"
    return f'umask 077 && cat > "{place}.new" && mv "{place}.new" "{place}"'

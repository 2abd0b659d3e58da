"""An SSH server on loopback."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncssh

from components.ssh.connection import Endpoint

USER_KEY = asyncssh.generate_private_key("ssh-ed25519")
HOST_KEY = asyncssh.generate_private_key("ssh-ed25519")
Serve = Callable[[asyncssh.SSHServerProcess[bytes]], Any]


def text_of(key: asyncssh.SSHKey) -> str:
    return key.export_private_key().decode()


def endpoint(port: int, key: asyncssh.SSHKey = HOST_KEY) -> Endpoint:
    algorithm, data = key.export_public_key().decode().split()[:2]
    return Endpoint(address="127.0.0.1", port=port, user="nvidia", host_key=f"{algorithm} {data}")


@asynccontextmanager
async def server(
    serve: Serve, accept: asyncssh.SSHKey = USER_KEY, factory: Callable[[], asyncssh.SSHServer] | None = None
) -> AsyncIterator[int]:
    authorized = asyncssh.import_authorized_keys(accept.export_public_key().decode())
    listener = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[HOST_KEY],
        authorized_client_keys=authorized,
        server_factory=factory,
        process_factory=serve,
        encoding=None,
    )
    try:
        yield listener.get_port()
    finally:
        listener.close()
        await listener.wait_closed()

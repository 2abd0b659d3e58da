"""An SSH server on loopback that really runs commands in a shell, and remembers who came and what was asked."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

USER = "nvidia"
PASSWORD = "correct horse"


@dataclass
class Seen:
    """What happened on the host."""

    connections: int = 0
    open: int = 0
    logins: int = 0
    commands: list[str] = field(default_factory=list)
    environments: list[dict[str, str]] = field(default_factory=list)
    forwarded: list[tuple[str, int]] = field(default_factory=list)
    ended: list[int | None] = field(default_factory=list)


class _Server(asyncssh.SSHServer):
    def __init__(self, host: "SshHost") -> None:
        self._host = host

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._host.seen.connections += 1
        self._host.seen.open += 1
        self._host.connections.add(conn)
        self._conn = conn

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.seen.open -= 1
        self._host.connections.discard(self._conn)

    def begin_auth(self, username: str) -> bool:
        self._host.seen.logins += 1
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == USER and key.public_data == self._host.user_key.public_data

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (USER, PASSWORD)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        self._host.seen.forwarded.append((dest_host, dest_port))
        return True


class SshHost:
    """One host with a folder of its own, into which file transfers go."""

    def __init__(self, root: Path, port: int = 0, key_type: str = "ssh-ed25519") -> None:
        self.root = root
        self.port = port
        self.seen = Seen()
        self.connections: set[asyncssh.SSHServerConnection] = set()
        self.host_key = asyncssh.generate_private_key(key_type)
        self.user_key = asyncssh.generate_private_key("ssh-ed25519")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._acceptor: asyncssh.SSHAcceptor | None = None

    def start(self) -> "SshHost":
        self._thread.start()
        self._acceptor = self._wait(self._listen())
        self.port = self._acceptor.get_port()
        return self

    def stop(self) -> None:
        if self._acceptor:
            self._wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def connection(self, **changes: object) -> dict[str, object]:
        """Inputs of a connection to this host; a change to None takes an input away."""
        inputs: dict[str, object] = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": USER,
            "privateKey": self.user_key.export_private_key().decode(),
            "hostKey": self.host_key.export_public_key().decode(),
            "dialErrorLimit": 1,
        }
        return {name: value for name, value in (inputs | changes).items() if value is not None}

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _listen(self) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_factory=lambda: _Server(self),
            server_host_keys=[self.host_key],
            process_factory=self._run,
            sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=str(self.root)),
            encoding=None,
            window=65536,  # as small as a server's may be: the library's own two megabytes hide who waits for whom
        )

    async def _close(self) -> None:
        assert self._acceptor
        self._acceptor.close()
        await self._acceptor.wait_closed()
        for conn in list(self.connections):
            conn.abort()
        # What the library still has to do after a connection's end, done before the loop is closed.
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            _, late = await asyncio.wait(rest, timeout=2)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _run(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        environment = {str(name): str(value) for name, value in process.env.items()}
        self.seen.commands.append(process.command or "")
        self.seen.environments.append(environment)
        shell = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", process.command or "true", cwd=self.root, env={"PATH": "/usr/bin:/bin", **environment},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert shell.stdin and shell.stdout and shell.stderr  # noqa: PT018  (one fact: all three are pipes)
        feeding = asyncio.create_task(_pump(process.stdin, shell.stdin))
        printing = [
            asyncio.create_task(_pump(shell.stdout, process.stdout, close=False)),
            asyncio.create_task(_pump(shell.stderr, process.stderr, close=False)),
        ]
        ended = asyncio.create_task(shell.wait())
        gone = asyncio.create_task(process.channel.wait_closed())
        await asyncio.wait({ended, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            shell.terminate()
        await asyncio.gather(*printing, return_exceptions=True)
        for task in (feeding, gone):
            task.cancel()
        await asyncio.gather(feeding, gone, return_exceptions=True)
        self.seen.ended.append(await ended)
        process.exit(await ended)


async def _pump(source: Any, sink: Any, *, close: bool = True) -> None:
    """Copies until the source ends; a sink that goes away ends it too."""
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
        if close:
            sink.close()
    except (OSError, asyncssh.Error):
        pass


def free_port() -> int:
    """A port that nothing listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(holds: Callable[[], bool], timeout_s: float = 60) -> None:
    """Waits for what must come; the limit is for a machine at work, not a measure."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.05)

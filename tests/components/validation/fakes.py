"""Hosts for fault handling only: real SSH servers on loopback whose programs are functions written here.

What they print is either a recorded output or a fault. That the real programs behave is shown on the simulator.
"""

import asyncio
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import asyncssh

from components.ssh.connection import Endpoint
from components.ssh.credentials import Login
from components.validation.benchmarks.verbs.commands import BOUNDED, LEASE, LISTENING, REACH

Process = asyncssh.SSHServerProcess[str]
Program = Callable[[Process, list[str]], Awaitable[None]]


@dataclass
class Host:
    """One fake host: what it answers to, and what was asked of it."""

    name: str
    programs: dict[str, Program] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    ended_by_us: list[str] = field(default_factory=list)
    """Programs whose input was closed while they ran."""
    connections: int = 0
    """How many were opened to it."""

    async def handle(self, process: Process) -> None:
        words = shlex.split(process.command or "")
        role = role_of(words)
        self.asked.append(role)
        try:
            await self.programs[role](process, words)
        except (asyncssh.BreakReceived, asyncssh.ConnectionLost, ConnectionError):
            self.ended_by_us.append(role)
        except asyncio.CancelledError:
            self.ended_by_us.append(role)
            raise


def role_of(words: list[str]) -> str:
    """What a remote command is for."""
    if LEASE in words:
        return "lease"
    if "bench" in words:
        return "facts"
    if REACH in words:
        return "reach"
    assert BOUNDED in words, words
    port = words[words.index(BOUNDED) + 3]
    return "server" if port != "0" else "client"


async def until_closed(process: Process) -> None:
    """As a program does whose life hangs on its input."""
    await process.stdin.read()


async def held(process: Process, _words: list[str]) -> None:
    process.stdout.write("held\n")
    await until_closed(process)
    process.exit(0)


def answering(text: str, code: int = 0) -> Program:
    async def program(process: Process, _words: list[str]) -> None:
        process.stdout.write(text)
        process.exit(code)

    return program


async def reaching(process: Process, words: list[str]) -> None:
    """Every peer answers large pings."""
    asked = words[words.index(REACH) + 2 :]
    for interface, address in zip(asked[::3], asked[1::3], strict=True):
        process.stdout.write(f"reached {interface} {address} large\n")
    process.exit(0)


def serving(text: str, stderr: str = "", code: int = 0) -> Program:
    """A server that listens and then says what the client's sample says at its end."""

    async def program(process: Process, _words: list[str]) -> None:
        process.stderr.write(f"{LISTENING}\n{stderr}")
        process.stdout.write(text)
        process.exit(code)

    return program


async def stalled(process: Process, _words: list[str]) -> None:
    await until_closed(process)
    raise asyncssh.ConnectionLost("closed")


async def listening_for_ever(process: Process, _words: list[str]) -> None:
    process.stderr.write(f"{LISTENING}\n")
    await until_closed(process)
    raise asyncssh.ConnectionLost("closed")


async def reset(process: Process, _words: list[str]) -> None:
    process.channel.get_connection().abort()


class LimitedServer(asyncssh.SSHServer):
    """One connection to a host, with no more sessions at a time than MaxSessions of sshd_config(5) allows.

    The refusal is OpenSSH's (serverloop.c, server_input_channel_open); OpenSSH 9.2p1 answers the same to AsyncSSH.
    """

    def __init__(self, host: Host, most_sessions: int) -> None:
        self.host, self.room = host, most_sessions
        host.connections += 1

    def session_requested(self) -> asyncssh.SSHServerProcess[str]:
        if not self.room:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "open failed")
        self.room -= 1
        return asyncssh.SSHServerProcess(self.handle, None, 3, False)

    async def handle(self, process: Process) -> None:
        try:
            await self.host.handle(process)
        finally:
            self.room += 1


@asynccontextmanager
async def running(hosts: list[Host], *, wrong_key_on: str = "", most_sessions: int = 10) -> AsyncIterator[Login]:
    """The hosts as SSH servers on loopback, and the login that opens them."""
    user_key = asyncssh.generate_private_key("ssh-ed25519")
    endpoints: dict[str, Endpoint] = {}
    servers = []
    for host in hosts:
        key = asyncssh.generate_private_key("ssh-ed25519")
        server = await asyncssh.create_server(
            partial(LimitedServer, host, most_sessions),
            "127.0.0.1",
            0,
            server_host_keys=[key],
            authorized_client_keys=asyncssh.import_authorized_keys(user_key.export_public_key().decode()),
        )
        servers.append(server)
        shown = asyncssh.generate_private_key("ssh-ed25519") if host.name == wrong_key_on else key
        endpoints[host.name] = Endpoint(
            address="127.0.0.1",
            port=server.sockets[0].getsockname()[1],
            user="nvidia",
            host_key=" ".join(shown.export_public_key().decode().split()[:2]),
        )
    try:
        yield Login(private_key=user_key.export_private_key().decode(), endpoints=endpoints)
    finally:
        for server in servers:
            server.close()
            await server.wait_closed()

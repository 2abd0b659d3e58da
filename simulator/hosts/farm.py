"""SSH servers for many hosts in one process, with faults that can change at run time."""

import asyncio
import contextlib
import json
import socket
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path

import asyncssh

from simulator.hosts.host import SimHost
from simulator.hosts.look import cut_short, nonsense
from simulator.hosts.traffic import Port, Traffic

FAULTS = ("dead", "silent", "foreign", "reset", "stuck", "floods", "lies", "busy", "slow", "failed", "carries")
"""Faults of a host.

dead: closes connections; silent: accepts a connection and sends nothing; foreign: presents another host key; reset:
aborts the connection during a command; stuck: never finishes a command; floods: prints 10 MB; lies: sends nonsense;
busy: has no time to read its first port's counters; `slow SECONDS`: an apply takes this long; `failed STEP`: this step
fails; `carries SHARE`: its links carry this share of their bandwidth.
"""
BACKLOG = 64
FLOOD = b"x" * 10_000_000


@dataclass
class Farm:
    """Hosts by name, each with its own address."""

    places: dict[str, IPv4Address]
    port: int
    user_key: asyncssh.SSHKey
    faults_file: Path | None = None
    """JSON object of faults by host name; read again when it changes."""
    log_file: Path | None = None
    """A line per answered command: host and verb, or test and server for a benchmark client."""
    run_s: float = 0.0
    """How long each benchmark run takes."""
    ports: list[Port] = field(default_factory=list)
    """Every PF of the hosts, for benchmarks."""
    hosts: dict[str, SimHost] = field(default_factory=dict)
    keys: dict[str, asyncssh.SSHKey] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    _options: dict[str, asyncssh.SSHServerConnectionOptions] = field(default_factory=dict)
    _sockets: list[socket.socket] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _read_at_ns: int = 0

    @property
    def known_hosts(self) -> str:
        """A line per host."""
        return "".join(f"[{at}]:{self.port} {_public(self.keys[name])}\n" for name, at in self.places.items())

    async def start(self) -> None:
        """Starts all servers."""
        self.traffic = Traffic(self.ports, self.run_s)
        self._foreign = await self._options_of(asyncssh.generate_private_key("ssh-ed25519"))
        for name, address in self.places.items():
            self.hosts[name] = SimHost(name, ports=[port for port in self.ports if port.host == name])
            self.keys[name] = asyncssh.generate_private_key("ssh-ed25519")
            self._options[name] = await self._options_of(self.keys[name])
            listener = socket.create_server((str(address), self.port), backlog=BACKLOG)
            listener.setblocking(False)
            self._sockets.append(listener)
            self._begin(self._accept(name, listener))

    async def stop(self) -> None:
        """Closes all connections and servers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listener in self._sockets:
            listener.close()

    def fault_of(self, name: str) -> tuple[str, str]:
        """The fault of a host and its value; both empty without a fault."""
        if self.faults_file is not None and self.faults_file.exists():
            changed_ns = self.faults_file.stat().st_mtime_ns
            if changed_ns != self._read_at_ns:
                self._read_at_ns, self.faults = changed_ns, json.loads(self.faults_file.read_text())
        kind, _, value = self.faults.get(name, "").partition(" ")
        return kind, value

    async def _accept(self, name: str, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(listener)
            self._begin(self._serve(name, connection))

    async def _serve(self, name: str, connection: socket.socket) -> None:
        kind, _ = self.fault_of(name)
        if kind == "dead":
            connection.close()
        elif kind == "silent":
            with contextlib.closing(connection):
                await asyncio.sleep(3600)
        else:
            options = self._foreign if kind == "foreign" else self._options[name]

            async def process(one: asyncssh.SSHServerProcess[bytes]) -> None:
                await self._run(name, one)

            with contextlib.suppress(OSError, asyncssh.Error):
                served = await asyncssh.run_server(connection, options=options, process_factory=process, encoding=None)
                await served.wait_closed()

    async def _run(self, name: str, process: asyncssh.SSHServerProcess[bytes]) -> None:
        kind, value = self.fault_of(name)
        if Traffic.understands(process.command or ""):
            self.traffic.shares[name] = float(value) if kind == "carries" else 1.0
            with contextlib.suppress(asyncssh.Error, OSError):
                if ran := await self.traffic.run(name, process):
                    self._log(f"{name} {ran}")
            return
        sent = await process.stdin.read()
        if kind == "reset":
            process.get_extra_info("connection").abort()
            return
        if kind == "stuck":
            await asyncio.sleep(3600)
        if kind == "floods":
            process.stdout.write(FLOOD)
            process.exit(0)
            return
        if kind == "slow" and " apply" in (process.command or ""):
            await asyncio.sleep(float(value))
        done = self.hosts[name].answer(process.command or "", sent, value if kind == "failed" else "")
        out = done.out
        if kind == "lies":
            out = nonsense(out)
        elif kind == "busy":
            out = cut_short(out)
        self._log(f"{name} {next(reversed(self.hosts[name].commands), 'nothing')}")
        process.stdout.write(out.encode())
        process.stderr.write(done.err.encode())
        process.exit(done.code)

    def _log(self, line: str) -> None:
        if self.log_file is not None:
            with self.log_file.open("a") as log:
                log.write(f"{line}\n")

    async def _options_of(self, key: asyncssh.SSHKey) -> asyncssh.SSHServerConnectionOptions:
        authorized = asyncssh.import_authorized_keys(self.user_key.export_public_key().decode())
        options: asyncssh.SSHServerConnectionOptions = await asyncssh.SSHServerConnectionOptions.construct(
            server_host_keys=[key], authorized_client_keys=authorized
        )
        return options

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def places_of(names: Iterable[str], first: IPv4Address) -> dict[str, IPv4Address]:
    """An address per name, 250 per /24, starting in the network of `first`."""
    base = int(first) & ~0xFF
    return {name: IPv4Address(base + (i // 250 << 8) + i % 250 + 1) for i, name in enumerate(names)}


def _public(key: asyncssh.SSHKey) -> str:
    return " ".join(key.export_public_key().decode().split()[:2])

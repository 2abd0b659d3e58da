"""What the simulated hosts answer to the benchmark runner: an invented fabric, labeled as simulated.

Commands are recognized by their unique parts. Hosts send nothing to each other: both ends of a test meet in this
process, and its result is drawn around a level and repeatable for the same two ends.
"""

import asyncio
import json
import random
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import asyncssh

BENCH_FACTS = re.compile(r"\.pyz (bench .+)$")
"""The host program's verb that reads a host before the tests."""
LINE_GBIT_S = 1.0
LEVEL = 0.972
"""Share of the line rate: 99.2 % of what a path MTU of 4096 allows."""
SPREAD = 0.002
LATENCY_US = 12.0
RULE = "-" * 87
TITLES = {"write": "RDMA_Write", "send": "Send", "read": "RDMA_Read"}


class Port(NamedTuple):
    """One PF."""

    host: str
    device: str
    interface: str
    address: str


@dataclass
class Traffic:
    """All PFs of the hosts, and the servers that wait for clients."""

    ports: list[Port]
    run_s: float = 0.0
    """How long each run takes."""
    waiting: dict[tuple[str, str], "asyncio.Future[Port | None]"] = field(default_factory=dict)
    leases: set[str] = field(default_factory=set)
    one_pair_share: float = 1.0
    """Share of a link that a single queue pair carries."""
    shares: dict[str, float] = field(default_factory=dict)
    """Share of its bandwidth that a host's links carry."""

    @staticmethod
    def understands(command: str) -> bool:
        """Whether a command is one of the runner's."""
        marks = ("echo @listening", "flock -n -E 75", "ping -q -n")
        return bool(BENCH_FACTS.search(command)) or any(mark in command for mark in marks)

    async def run(self, host: str, process: asyncssh.SSHServerProcess[bytes]) -> str:
        """Answers a command; runs and leases end with their input.

        Returns:
            For a client that finished: test and address of the server. Otherwise empty.
        """
        if reads := BENCH_FACTS.search(process.command or ""):
            _say(process, self._facts(host, shlex.split(reads[1])[2:]))
            return ""
        words = shlex.split(process.command or "")
        script = words.index("-c") + 1
        arguments = words[script + 2 :]
        if "flock" in words[script]:
            await self._lease(host, process)
        elif "ping -q -n" in words[script]:
            pairs = zip(arguments[::3], arguments[1::3], strict=True)
            _say(process, "".join(f"reached {interface} {address} large\n" for interface, address in pairs))
        else:
            return await self._bounded(host, process, arguments)
        return ""

    async def _lease(self, host: str, process: asyncssh.SSHServerProcess[bytes]) -> None:
        if host in self.leases:
            _say(process, "another\n", code=75)
            return
        self.leases.add(host)
        try:
            process.stdout.write(b"held\n")
            await process.stdin.read()
        finally:
            self.leases.discard(host)
        _say(process, "")

    def _facts(self, host: str, words: list[str]) -> str:
        """The verb's answer, in the form that a node gave (tests/samples/lab/bench_gpu02.json)."""
        devices = dict(zip(words[::2], words[1::2], strict=True))
        programs = [f"ib_{verb}_{what}" for verb in TITLES for what in ("bw", "lat")]
        facts = {"programs": programs, "version": "Version: 6.06 (simulated)", "queue_pairs": []}
        ports = []
        for port in self.ports:
            if port.host == host and port.device in devices:
                leaves = {
                    "speed_mbit_s": round(LINE_GBIT_S * 1000),
                    "mtu_bytes": 9000,
                    "numa_node": -1,
                    "gids": [_gid_entry(port)],
                }
                ports.append({"device": port.device, "interface": port.interface, "leaves": _leaves(leaves)})
        return json.dumps({"schema": 1, "host": _leaves(facts), "ports": ports}) + "\n"

    async def _bounded(self, host: str, process: asyncssh.SSHServerProcess[bytes], words: list[str]) -> str:
        """One end of a test; a nonzero port marks the server."""
        server, command = words[1] != "0", words[4:]
        test, options = command[0], _options(command[1:])
        own = next(port for port in self.ports if (port.host, port.device) == (host, options["-d"]))
        if server:
            peer = await self._client_of(own, options["-p"], process)
            if peer is None:
                _say(process, "", code=143)
                return ""
        else:
            address = command[-1]
            peer = next(port for port in self.ports if port.address == address)
            waits = self.waiting.pop((address, options["-p"]), None)
            if waits is None or waits.done():
                _say(process, "", f"Couldn't connect to {address}:{options['-p']}\n", 1)
                return ""
            waits.set_result(own)
        if self.run_s:
            await asyncio.sleep(self.run_s)
        client, called = (peer, own) if server else (own, peer)
        _say(
            process, _printed(test, options, own, peer, self._value(test, client, called, int(options.get("-q", "1"))))
        )
        return "" if server else f"{test} {peer.address}"

    async def _client_of(self, own: Port, number: str, process: asyncssh.SSHServerProcess[bytes]) -> Port | None:
        """The client that connects; None if the input closes first."""
        key = own.address, number
        called: asyncio.Future[Port | None] = asyncio.get_running_loop().create_future()
        self.waiting[key] = called
        process.stderr.write(b"@listening\n")

        async def until_closed() -> None:
            await process.stdin.read()
            if not called.done():
                called.set_result(None)

        closed = asyncio.ensure_future(until_closed())
        try:
            return await called
        finally:
            closed.cancel()
            if self.waiting.get(key) is called:
                del self.waiting[key]

    def _value(self, test: str, client: Port, server: Port, queue_pairs: int) -> float:
        """Gbit/s, or microseconds."""
        drawn = random.Random("/".join((test, *client, *server)))  # noqa: S311  # an invented value, not a secret
        noise = 1 + drawn.gauss(0, SPREAD)
        share = min(self.shares.get(client.host, 1.0), self.shares.get(server.host, 1.0))
        carried = share * min(1.0, queue_pairs * self.one_pair_share)
        return LATENCY_US / share * noise if test.endswith("_lat") else LINE_GBIT_S * LEVEL * carried * noise


def _printed(test: str, options: Mapping[str, str], own: Port, peer: Port, value: float) -> str:
    """Output in the format of perftest 4.5."""
    verb, latency = test.split("_")[1], test.endswith("_lat")
    words = (
        [TITLES[verb], "Latency"] if latency else [TITLES[verb], *(["Bidirectional"] if "-b" in options else []), "BW"]
    )
    size, count = int(options["-s"]), int(options["-n"]) if latency else int(options["-n"]) * int(options["-q"])
    header = [
        RULE,
        f"                    {' '.join(words)} Test",
        f" Dual-port       : OFF\t\tDevice         : {own.device}",
        f" Number of qps   : {options.get('-q', '1')}\t\tTransport type : IB",
        " Mtu             : 4096[B]",
        " Link type       : Ethernet",
        f" GID index       : {options['-x']}",
        " rdma_cm QPs\t : OFF",
        RULE,
    ]
    for label, port in (("local", own), ("remote", peer)):
        header += [f" {label} address: LID 0000 QPN 0x0011 PSN 0x963d11", f" GID: {'00:' * 10}255:255:{_gid(port)}"]
    return "\n".join(
        [*header, RULE, *(_latency(size, count, value) if latency else _bandwidth(size, count, value)), RULE, ""]
    )


def _bandwidth(size: int, count: int, gbit_s: float) -> list[str]:
    columns = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
    return [columns, f" {size}      {count}      {gbit_s:.6f}      {gbit_s:.6f}      {gbit_s * 1e3 / size / 8:.6f}"]


def _latency(size: int, count: int, value_us: float) -> list[str]:
    columns = (
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
        "99% percentile[usec]   99.9% percentile[usec]"
    )
    times = [value_us * factor for factor in (0.9, 1.5, 1.0, 1.01, 0.05, 1.2, 1.4)]
    return [columns, f" {size} {count} {' '.join(f'{time:.2f}' for time in times)}"]


def _options(words: list[str]) -> dict[str, str]:
    """Options by name; empty for those without a value."""
    return {
        word: following if not following.startswith("-") else ""
        for word, following in zip(words, [*words[1:], ""], strict=True)
        if word.startswith("-")
    }


def _gid(port: Port) -> str:
    return ":".join(f"{int(part):02}" for part in port.address.split("."))


def _leaves(values: Mapping[str, object]) -> dict[str, dict[str, object]]:
    return {name: {"value": value, "source": "simulated"} for name, value in values.items()}


def _gid_entry(port: Port) -> dict[str, object]:
    quads = [int(part) for part in port.address.split(".")]
    mapped = f"0000:0000:0000:0000:0000:ffff:{quads[0]:02x}{quads[1]:02x}:{quads[2]:02x}{quads[3]:02x}"
    return {"index": 1, "gid": mapped, "type": "RoCE v2", "interface": port.interface, "ipv4": port.address}


def _say(process: asyncssh.SSHServerProcess[bytes], out: str, err: str = "", code: int = 0) -> None:
    process.stdout.write(out.encode())
    process.stderr.write(err.encode())
    process.exit(code)

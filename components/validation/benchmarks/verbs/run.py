"""Runs perftest between two hosts over SSH, bounds both ends in time, and reads what they print."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from components.ssh.connection import NoAnswerError
from components.ssh.session import CommandResult, Pool, session
from components.validation.benchmarks.plan import End, Plan
from components.validation.benchmarks.verbs.commands import (
    LATE,
    LISTENING,
    NO_CLOCK,
    TAKEN,
    Side,
    Sides,
    bounded,
    grown,
    perftest,
)
from components.validation.benchmarks.verbs.perftest import (
    Printed,
    cause_of,
    header_of,
    parse_bandwidth,
    parse_latency,
)
from components.validation.benchmarks.verbs.plan import Stage, Transfer, VerbsPlan
from components.validation.benchmarks.verbs.ports import HostPorts
from components.validation.parsers import ResultFormatError
from components.validation.records import CurvePoint, TransferResult, raw_names
from stacks.base import LabError
from stacks.frozen import frozen

if TYPE_CHECKING:
    from components.fabric.hcas import HcaCounters

LISTEN_S = 20
GRACE_S = 15
"""For SSH itself, above the time that the host gives the test."""
CLOCK_TRIES = 3
"""Runs until both ends could measure their CPU's clock."""

Look = Mapping[tuple[str, str], "HcaCounters"]
"""The counters of the HCAs at one moment, by (rail, machine)."""


class BusyError(LabError):
    """The fabric is in use, so nothing was measured."""


class NoResultError(LabError):
    """Nothing is known of the fabric: a host took no part, or its output cannot be read."""


class Hcas(Protocol):
    """Reads the HCAs below machines, such as from a vCenter."""

    def look(self, machines: Iterable[tuple[str, str]]) -> Look:
        """Blocks; raises LabError when nothing can be read."""


@frozen
class PerftestRun:
    """The value of one run, and its contradictions with the plan."""

    value: float
    """Average bandwidth in Gbit/s, or typical latency in microseconds."""
    tail_us: float | None = None
    path_mtu_bytes: int
    faults: tuple[str, ...]
    counters: dict[str, int] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True)
class Bench:
    """The hosts of a run, each with its connections and its ports."""

    plan: Plan
    connections: dict[str, Pool]
    ports: dict[str, HostPorts]
    unreachable: dict[str, str]
    begun: float = field(default_factory=time.monotonic)
    queue_pairs: dict[str, int] = field(default_factory=dict)
    cut_off: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """Why a client does not reach a server; by rail, client, server."""
    cut: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """Which frames do not pass; by rail, client, server."""
    raw: dict[str, str] = field(default_factory=dict)
    hcas: Hcas | None = None
    proof: "Proof | None" = None
    """Of a lab with PVRDMA rails."""
    on_slot: dict[tuple[str, str], int] = field(init=False)
    """Rails that share a device's PCIe link, by node and device."""

    def __post_init__(self) -> None:
        measured = [end for rail in self.plan.rails if len(rail.ends) > 1 for end in rail.ends]
        slots = {}
        for end in measured:
            facts = None
            if end.node in self.ports:
                facts = self.ports[end.node].facts
            if facts and end.device in facts.slot:
                slots[end.node, end.device] = (end.node, facts.slot[end.device])
        count = Counter(slots.values())
        self.on_slot = {device: count[slot] for device, slot in slots.items()}

    async def round(
        self, stage: Stage, transfers: list[Transfer], tag: str = ""
    ) -> list[TransferResult]:
        """A round that counts, with proof of its path where rails are PVRDMA."""
        if self.proof:
            return await self.proof(self, stage, transfers, tag)
        return await run_round(self, stage, transfers, tag=tag)

    async def transfer(
        self, stage: Stage, transfer: Transfer, at_once: int = 1, tag: str = ""
    ) -> TransferResult:
        """Runs one transfer with its repeats; whatever happens is a result.

        Args:
            stage: the test.
            transfer: between whom.
            at_once: how many run at the same time.
            tag: prefix of the names of the raw outputs, such as `retest/`.
        """
        after_s = round(time.monotonic() - self.begun, 1)
        base = stage.result(transfer.flow, "failed").replace(at_once=at_once, after_s=after_s)
        try:
            return await self._measured(stage, transfer, base, tag)
        except BusyError as error:
            return base.replace(outcome="skipped", reasons=(f"busy: {error}",))
        except (NoResultError, NoAnswerError) as error:
            return base.replace(outcome="error", reasons=(str(error),))
        except LabError as error:
            also = self.cut.get(transfer.flow)
            return base.replace(reasons=(f"{error}{f'; {also}' if also else ''}",))

    def sides_of(self, stage: Stage, transfer: Transfer) -> Sides:
        """Both ends of a transfer, with their GID indexes.

        Raises:
            NoResultError: when one is left out.
            LabError: when one has no GID for its address.
        """
        rail = self.plan.rail(transfer.rail)
        client, server = rail.end(transfer.client), rail.end(transfer.server)
        for end in (client, server):
            if end.node in self.unreachable:
                raise NoResultError(self.unreachable[end.node])

        def side(end: End, peer: End) -> Side:
            return Side(
                end=end,
                peer=peer,
                connects=end is client,
                path_mtu_bytes=rail.path_mtu_bytes,
                gid_index=self.ports[end.node].gid_index(end),
                port=transfer.port,
                queue_pairs=self.queue_pairs_of(stage, transfer.rail),
                message_bytes=stage.message_bytes,
                pinned=self.ports[end.node].pinned(end.device),
            )

        return side(client, server), side(server, client)

    def with_gpu(self, side: Side) -> Side:
        """The end with its buffer in the memory of the GPU that is nearest to its port.

        Raises:
            LabError: when its host cannot do that.
        """
        return replace(side, gpu=self.ports[side.end.node].gpu_words(side.end))

    def queue_pairs_of(self, stage: Stage, rail: str) -> int:
        """Queue pairs of a test; latency tests have one."""
        if not stage.bandwidth:
            return 1
        planned = self.plan.verbs.queue_pairs
        if planned == "auto":
            return self.queue_pairs.get(rail, 1)
        return planned

    async def _measured(
        self, stage: Stage, transfer: Transfer, base: TransferResult, tag: str
    ) -> TransferResult:
        sides = self.sides_of(stage, transfer)
        if stage.shape == "sizes":
            sizes = self.plan.verbs.sizes
        else:
            sizes = (stage.message_bytes,)
        readings: list[PerftestRun] = []
        runs = sizes * stage.repeats
        usual = raw_names(transfer.rail, stage.name, transfer.client, transfer.server, len(runs))
        names = tuple(f"{tag}{name}" for name in usual)
        for name, size in zip(names, runs, strict=True):
            client, server = (replace(side, message_bytes=size) for side in sides)
            readings.append(await self.once(stage, (client, server), name.removesuffix(".client")))
        first, faults = (
            readings[0],
            tuple(dict.fromkeys(fault for reading in readings for fault in reading.faults)),
        )
        counters: Counter[str] = Counter()
        for reading in readings:
            counters.update(reading.counters)
        measured: dict[str, object] = {
            "outcome": "failed" if faults else "measured",
            "reasons": faults,
            "path_mtu_bytes": first.path_mtu_bytes,
            "queue_pairs": sides[0].queue_pairs if stage.bandwidth else None,
            "client_gid_index": sides[0].gid_index,
            "server_gid_index": sides[1].gid_index,
            "counters": dict(counters),
            "raw": names,
            **self._limits(stage, sides),
        }
        if stage.shape == "sizes":
            points = []
            for size, reading in zip(sizes, readings, strict=True):
                point = CurvePoint(message_bytes=size, value=reading.value, tail=reading.tail_us)
                points.append(point)
            measured["curve"] = tuple(points)
        else:
            tails = [reading.tail_us for reading in readings]
            measured["samples"] = tuple(reading.value for reading in readings)
            measured["tail_us"] = tuple(tail_us for tail_us in tails if tail_us is not None)
        return base.replace(**measured)

    def _limits(self, stage: Stage, sides: Sides) -> dict[str, float | int | None]:
        """The lower line rate and the narrower share of a PCIe link of the two ends; None where one
        is unknown.
        """
        ends = [side.end for side in sides]
        rates = [self.ports[end.node].line_rate_gbit_s.get(end.device) for end in ends]
        links = []
        for end in ends:
            link_gbit_s = self.ports[end.node].pcie_gbit_s(end.device)
            ports = self.on_slot.get((end.node, end.device), 1)
            if stage.shape == "incast":
                ports = 1  # the rails run one after the other, else all at once
            if link_gbit_s:
                links.append((link_gbit_s / ports, link_gbit_s, ports))
        _, pcie_gbit_s, ports_on_slot = min(links) if len(links) == 2 else (0.0, None, 1)
        return {
            "line_rate_gbit_s": min((rate for rate in rates if rate), default=None)
            if all(rates)
            else None,
            "pcie_gbit_s": pcie_gbit_s,
            "ports_on_slot": ports_on_slot,
        }

    async def once(self, stage: Stage, sides: Sides, name: str) -> PerftestRun:
        """One run. The server's session is open around the client's, so leaving in any way ends
        both.

        Args:
            stage: the test.
            sides: client and server.
            name: of its raw outputs, without the end.

        Raises:
            LabError: when it does not end well.
        """
        write, serve = (
            perftest(stage, side, self.plan.verbs, simulated=self.plan.simulated) for side in sides
        )
        for _ in range(CLOCK_TRIES):
            done = await self._both(sides, serve, write, name)
            if not any(NO_CLOCK in end.err for end in done):
                break
        reading = read(stage, self.plan.verbs, sides, (done[0].out, done[1].out))
        reading.counters.update(Counter(grown(done[0].err)) + Counter(grown(done[1].err)))
        return reading

    async def _both(
        self, sides: Sides, serve: list[str], write: list[str], name: str
    ) -> tuple[CommandResult, CommandResult]:
        limit_s, port = self.plan.verbs.timeout_s, sides[1].port
        client, server = (side.end for side in sides)
        try:
            serving_command = bounded(serve, limit_s, port, server)
            async with session(self.connections[server.node], serving_command) as serving:
                if not await serving.until(LISTENING, LISTEN_S):
                    ended = self._keep(f"{name}.server", serve, await serving.done(GRACE_S))
                    if ended.code == TAKEN:
                        raise BusyError(f"{server.node}: another program listens on port {port}")
                    raise LabError(_failure(server.node, ended))
                async with session(
                    self.connections[client.node], bounded(write, limit_s, 0, client)
                ) as writing:
                    wrote = self._keep(
                        f"{name}.client", write, await writing.done(limit_s + GRACE_S)
                    )
                if wrote.code != 0:
                    raise LabError(_failure(client.node, wrote))
                served = self._keep(f"{name}.server", serve, await serving.done(GRACE_S))
        except TimeoutError:
            raise LabError(
                f"{client.node} or {server.node}: did not end within {limit_s + GRACE_S} s"
            ) from None
        if served.code != 0:
            raise LabError(_failure(server.node, served))
        return wrote, served

    def _keep(self, name: str, command: list[str], done: CommandResult) -> CommandResult:
        self.raw[name] = as_raw(command, done)
        return done


Proof = Callable[[Bench, Stage, list[Transfer], str], Awaitable[list[TransferResult]]]
"""Runs a round, and adds to its results what the HCAs counted."""


def read(stage: Stage, verbs: VerbsPlan, sides: Sides, outs: tuple[str, str]) -> PerftestRun:
    """Reads a run by what client and server printed. The client's value counts: mostly the server
    only repeats it.

    Raises:
        NoResultError: when an output gives no number.
    """
    client, server = sides
    parse = parse_bandwidth if stage.bandwidth else parse_latency
    # the server of a read prints no table: it has nothing to do while its memory is read
    parse_server = parse_bandwidth if stage.bandwidth else header_of
    printed_by = client
    try:
        printed = parse(outs[0])
        printed_by = server
        of_server = parse_server(outs[1])
    except ResultFormatError as error:
        raise NoResultError(f"{printed_by.end.node}: {error}") from None
    faults = faults_of_end(stage, verbs, client, printed)
    faults += faults_of_end(stage, verbs, server, of_server)
    return PerftestRun(
        value=printed.rows[0].value,
        tail_us=printed.rows[0].tail,
        path_mtu_bytes=printed.path_mtu_bytes,
        faults=tuple(faults),
    )


def faults_of_end(stage: Stage, verbs: VerbsPlan, side: Side, run: Printed) -> list[str]:
    """Contradictions between one end's output and the plan; empty if the transfer ran as
    planned.
    """
    end = side.end
    planned: list[tuple[str, object, object]] = [
        ("test", run.title, stage.title),
        ("RDMA device", run.device, end.device),
        ("link type", run.link_type, "Ethernet"),
        ("path MTU", run.path_mtu_bytes, side.path_mtu_bytes),
        ("GID index", run.gid_index, side.gid_index),
        ("rdma_cm", run.rdma_cm, verbs.rdma_cm),
        ("own GID", run.local_gid, end.address),
        ("peer's GID", run.remote_gid, side.peer.address),
    ]
    if run.rows:
        row = run.rows[0]
        planned.append(("message size", row.message_bytes, side.message_bytes))
        if verbs.duration_of(stage) is None:
            planned.append(("iterations", row.iterations, stage.iterations * side.queue_pairs))
    faults = []
    for what, printed, expected in planned:
        if printed != expected:
            faults.append(f"{end.node}: {what} is {printed}, the lab says {expected}")
    return faults


def as_raw(command: Sequence[str], done: CommandResult) -> str:
    """A raw output: the command, how it ended, and what it printed."""
    return f"$ {' '.join(command)}\nexit {done.code}\n{done.out}\n[stderr]\n{done.err}"


async def run_round(
    bench: Bench, stage: Stage, transfers: list[Transfer], at_once: int = 0, tag: str = ""
) -> list[TransferResult]:
    """All transfers of a round at once: they share no NIC, but for an incast."""
    together = at_once or len(transfers)
    return list(
        await asyncio.gather(
            *(bench.transfer(stage, transfer, together, tag) for transfer in transfers)
        )
    )


def _failure(node: str, done: CommandResult) -> str:
    """One line about a run that failed."""
    if done.code == LATE:
        return f"{node}: timed out: no packet arrives, or the peer is gone"
    if done.code == 127:
        return f"{node}: perftest is not installed (package perftest, in system.packages)"
    if done.code is None:
        return f"{node}: the run was killed, or its connection broke"
    err = "".join(
        line for line in done.err.splitlines(keepends=True) if not line.startswith("@")
    )  # ours, not its own
    lines = (err.strip() or done.out.strip()).splitlines()
    last = lines[-1].strip()[:160] if lines else "nothing"
    return f"{node}: {cause_of(err + done.out) or 'perftest failed'} (exit {done.code}: {last})"

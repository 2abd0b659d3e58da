"""Runs perftest between two hosts over SSH, both ends bounded, and reads what they say."""

import asyncio
from dataclasses import dataclass, field

from components.ssh.connection import Connection
from components.ssh.session import Done, session
from components.validation.parsers.perftest import Perftest, ResultFormatError, cause_of, parse_bandwidth
from components.validation.planning.plan import End, Plan
from components.validation.planning.schedule import Transfer
from components.validation.records import TransferResult
from components.validation.running.checks import Expected, faults_of_end
from components.validation.running.remote import LISTENING, TAKEN, Ports, bounded, perftest
from stacks.base import LabError

LISTEN_S = 20
GRACE_S = 15
"""For SSH itself, above the time that the host gives the test."""


class BusyError(LabError):
    """Somebody else uses the fabric; nothing was loaded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """The hosts that take part: an open connection and the ports of each."""

    plan: Plan
    connections: dict[str, Connection]
    ports: dict[str, Ports]
    unreachable: dict[str, str]
    """Why a node takes no part."""
    raw: dict[str, str] = field(default_factory=dict)
    """What was printed, by a name that says where."""

    async def transfer(self, transfer: Transfer) -> TransferResult:
        """Runs one transfer with its repeats; whatever happens is a result."""
        base = {"rail": transfer.rail, "client": transfer.client, "server": transfer.server}
        try:
            return await self._measured(transfer)
        except BusyError as error:
            return TransferResult(**base, outcome="skipped", reasons=(f"busy: {error}",))
        except LabError as error:
            return TransferResult(**base, outcome="failed", reasons=(str(error),))

    async def _measured(self, transfer: Transfer) -> TransferResult:
        rail = self.plan.rail(transfer.rail)
        client, server = rail.end(transfer.client), rail.end(transfer.server)
        for end in (client, server):
            if end.node in self.unreachable:
                raise LabError(self.unreachable[end.node])
        gid_index = {end.node: self.ports[end.node].gid_index(end) for end in (client, server)}
        values: list[float] = []
        faults: list[str] = []
        mtu_bytes = None
        for repeat in range(self.plan.verbs.repeats):
            said = await self._once(transfer, repeat, gid_index)
            for end, peer, done in ((client, server, said[0]), (server, client, said[1])):
                run = _read(end, done)
                expected = Expected(verbs=self.plan.verbs, rail=rail, end=end, peer=peer, gid_index=gid_index[end.node])
                faults += faults_of_end(run, expected)
                if end is client:
                    values.append(run.rows[0].average_gbit_s)
                    mtu_bytes = run.path_mtu_bytes
        rates = [self.ports[end.node].line_rate_gbit_s.get(end.device) for end in (client, server)]
        return TransferResult(
            rail=transfer.rail,
            client=transfer.client,
            server=transfer.server,
            outcome="failed" if faults else "measured",
            reasons=tuple(dict.fromkeys(faults)),
            samples=tuple(values),
            path_mtu_bytes=mtu_bytes,
            line_rate_gbit_s=min((rate for rate in rates if rate), default=None) if all(rates) else None,
            client_gid_index=gid_index[client.node],
            server_gid_index=gid_index[server.node],
        )

    async def _once(self, transfer: Transfer, repeat: int, gid_index: dict[str, int]) -> tuple[Done, Done]:
        """One run. The server's session is open around the client's, so leaving in any way ends both."""
        verbs, limit_s, rail = self.plan.verbs, self.plan.verbs.timeout_s, self.plan.rail(transfer.rail)
        client, server = rail.end(transfer.client), rail.end(transfer.server)
        name = f"{transfer.rail}/{transfer.client}-to-{transfer.server}/{repeat}"
        serve = perftest(verbs, server, gid_index[server.node], transfer.port)
        write = perftest(verbs, client, gid_index[client.node], transfer.port, server.address)
        try:
            async with session(self.connections[server.node], bounded(serve, limit_s, transfer.port)) as serving:
                if not await serving.until(LISTENING, LISTEN_S):
                    ended = self._keep(f"{name}.server", await serving.done(GRACE_S))
                    if ended.code == TAKEN:
                        raise BusyError(f"{server.node}: something listens on port {transfer.port}")
                    raise LabError(_failure(server.node, ended))
                async with session(self.connections[client.node], bounded(write, limit_s)) as writing:
                    wrote = self._keep(f"{name}.client", await writing.done(limit_s + GRACE_S))
                if wrote.code != 0:
                    raise LabError(_failure(client.node, wrote))
                served = self._keep(f"{name}.server", await serving.done(GRACE_S))
        except TimeoutError:
            raise LabError(f"{client.node} or {server.node}: no end within {limit_s + GRACE_S} s") from None
        if served.code != 0:
            raise LabError(_failure(server.node, served))
        return wrote, served

    def _keep(self, name: str, done: Done) -> Done:
        self.raw[name] = f"exit {done.code}\n{done.out}\n[stderr]\n{done.err}"
        return done


async def run_round(bench: Bench, transfers: list[Transfer]) -> list[TransferResult]:
    """All transfers of a round at once: they share no NIC."""
    return list(await asyncio.gather(*(bench.transfer(transfer) for transfer in transfers)))


def _read(end: End, done: Done) -> Perftest:
    try:
        return parse_bandwidth(done.out)
    except ResultFormatError as error:
        raise LabError(f"{end.node}: {error}") from None


def _failure(node: str, done: Done) -> str:
    """One line about a run that ended badly."""
    if done.code == 124:
        return f"{node}: no end in time: no packet arrives, or the peer is gone"
    if done.code == 127:
        return f"{node}: perftest is not installed (package perftest)"
    if done.code is None:
        return f"{node}: the run was killed, or its connection broke"
    said = done.err.strip() or done.out.strip()
    last = said.splitlines()[-1].strip()[:160] if said else "nothing"
    return f"{node}: {cause_of(done.err + done.out) or 'perftest failed'} (exit {done.code}: {last})"

"""Carries a plan out on the real hosts and cluster, and never fails for what it finds there."""

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from components.ssh.connection import Connection, connected
from components.ssh.credentials import Access, Login
from components.ssh.session import run, session
from components.validation.planning.plan import Plan
from components.validation.records import NcclResult, Outcome, RunRecord, TransferResult, summarise
from components.validation.running.remote import HELD, Ports, inspect, lease, parse_ports
from components.validation.running.verbs import Bench, BusyError, run_round
from stacks.base import LabError

AT_ONCE = 64
"""Connections being opened at a time."""
KEEPALIVE_S = 5
"""A host that dies under a test should not hold the others up."""
INSPECT_S = 30
LEASE_S = 15
LEASE_MARGIN_S = 900
"""A lease outlives the estimate by this, and never a lost connection."""

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A finished run: its record, and the raw outputs by name."""

    record: RunRecord
    raw: dict[str, str]


async def measure(plan: Plan, access: Access, say: Say, fingerprint: str = "") -> Run:
    """Carries the plan out. Faults of hosts and cluster are results, never exceptions."""
    started, clock = datetime.now(UTC), time.monotonic()
    run_id = _run_id(started)
    say(f"run {run_id}: {len(plan.rounds)} rounds of {plan.verbs.test}, about {plan.estimate_s:.0f} s")
    raw: dict[str, str] = {}
    notes: list[str] = []
    transfers: list[TransferResult] = []
    nccl: NcclResult | None = None
    try:
        async with _leased(plan, access.login, run_id, notes) as bench:
            raw = bench.raw
            transfers = await _verbs(bench, say)
            if plan.nccl:
                nccl, raw["nccl_all_reduce.log"] = await _nccl(plan, run_id, access, transfers, say)
    except BusyError as error:
        say(f"busy: {error}")
        transfers, nccl = _all(plan, "skipped", f"busy: {error}")
    record = RunRecord(
        run_id=run_id,
        started_at=_rfc3339(started),
        duration_s=round(time.monotonic() - clock, 1),
        simulated=plan.simulated,
        plan_digest=plan.digest,
        fingerprint=fingerprint,
        transfers=tuple(transfers),
        series=summarise(transfers),
        nccl=nccl,
        notes=tuple(notes),
    )
    return Run(record=record, raw=raw)


def all_failed(plan: Plan, reason: str, fingerprint: str) -> Run:
    """The run that could not begin, as a result like any other."""
    started = datetime.now(UTC)
    transfers, nccl = _all(plan, "failed", reason)
    record = RunRecord(
        run_id=_run_id(started),
        started_at=_rfc3339(started),
        duration_s=0,
        simulated=plan.simulated,
        plan_digest=plan.digest,
        fingerprint=fingerprint,
        transfers=tuple(transfers),
        series=summarise(transfers),
        nccl=nccl,
    )
    return Run(record=record, raw={})


async def _verbs(bench: Bench, say: Say) -> list[TransferResult]:
    rounds = bench.plan.rounds
    results: list[TransferResult] = []
    for number, transfers in enumerate(rounds, 1):
        done = await run_round(bench, transfers)
        results += done
        say(f"round {number}/{len(rounds)}: {_in_short(done)}")
    return results


def _in_short(results: list[TransferResult]) -> str:
    """A round in one line: values while they are few, else counts and the slowest."""
    bad = [f"{t.rail} {t.client} to {t.server} {t.outcome}: {t.reasons[0]}" for t in results if t.outcome != "measured"]
    good = [t for t in results if t.outcome == "measured"]
    if len(results) > 4:
        slowest = min((t.value for t in good), default=0.0)
        head = [f"{len(good)} of {len(results)} measured, slowest {slowest:.2f} Gbit/s"]
    else:
        head = [f"{t.rail} {t.client} to {t.server} {t.value:.3g} Gbit/s" for t in good]
    return ", ".join([*head, *bad[:3], *([f"and {len(bad) - 3} more"] if len(bad) > 3 else [])])


async def _nccl(
    plan: Plan, run_id: str, access: Access, transfers: list[TransferResult], say: Say
) -> tuple[NcclResult, str]:
    """The job, unless the rails do not work yet: NCCL would only hang on them until its time is over."""
    if access.kubeconfig is None:
        return NcclResult(outcome="skipped", reasons=("no kubeconfig",)), ""
    if any(transfer.outcome != "measured" for transfer in transfers):
        return NcclResult(outcome="skipped", reasons=(f"{plan.verbs.test} did not pass on every rail",)), ""
    from components.validation.running.mpijob import run_nccl  # noqa: PLC0415  # loads the Kubernetes client, a second

    stop = threading.Event()
    try:
        result, log = await asyncio.to_thread(run_nccl, plan, run_id, access.kubeconfig, say, stop)
    finally:
        stop.set()  # cancelled: the thread sees it within a second and deletes the job
    shown = f"{result.busbw_gbyte_s:.2f} GB/s" if result.busbw_gbyte_s is not None else "; ".join(result.reasons)
    say(f"nccl_all_reduce {result.outcome}{' (replayed)' if result.replayed else ''}: {shown}")
    return result, log


@asynccontextmanager
async def _leased(plan: Plan, login: Login, run_id: str, notes: list[str]) -> AsyncIterator[Bench]:
    """The hosts of the plan, connected, leased and looked at; all of it ends with the block.

    Raises:
        BusyError: when another run or program uses the fabric.
    """
    nodes = sorted({end.node for rail in plan.rails for end in rail.ends})
    async with AsyncExitStack() as stack:
        connections: dict[str, Connection] = {}
        unreachable: dict[str, str] = {}
        gate, keys = asyncio.Semaphore(AT_ONCE), login.keys

        async def connect(node: str) -> None:
            try:
                async with gate:
                    connections[node] = await stack.enter_async_context(
                        connected(login.endpoints[node], keys, name=node, keepalive_s=KEEPALIVE_S)
                    )
            except LabError as error:
                unreachable[node] = str(error)

        await asyncio.gather(*(connect(node) for node in nodes))
        limit_s = int(plan.estimate_s) + LEASE_MARGIN_S
        reachable = [node for node in nodes if node in connections]
        # the first host decides between two runs that start at once; behind it the order does not matter
        for group in (reachable[:1], reachable[1:]):
            held = (_lease(stack, connections[node], node, run_id, limit_s) for node in group)
            faults = await asyncio.gather(*held)
            unreachable |= {node: fault for node, fault in zip(group, faults, strict=True) if fault}
        ports = await asyncio.gather(
            *(_inspect(plan, connections[node], node) for node in reachable if node not in unreachable)
        )
        found = {node: port for node, port in ports if isinstance(port, Ports)}
        unreachable |= {node: port for node, port in ports if isinstance(port, str)}
        if users := [f"{node}: {user}" for node, port in found.items() for user in port.users]:
            raise BusyError(f"queue pairs are open on {users[0]}" + (f" and {len(users) - 1} more" * (len(users) > 1)))
        notes += sorted({port.version for port in found.values()})
        yield Bench(plan=plan, connections=connections, ports=found, unreachable=unreachable)


async def _lease(stack: AsyncExitStack, connection: Connection, node: str, run_id: str, limit_s: int) -> str:
    """Takes a host's lease until the stack ends; returns why it has none, if not because another run has it."""
    try:
        holder = await stack.enter_async_context(session(connection, lease(run_id, limit_s)))
        said = await holder.first_line(LEASE_S)
        if said == "held":
            return ""
        done = await holder.done(LEASE_S)
    except (LabError, TimeoutError) as error:
        return f"{node}: no lease: {str(error) or 'no answer'}"
    if done.code == HELD:
        raise BusyError(f"run {said or '?'} holds {node}")
    return (
        f"{node}: no lease: {said or done.err.strip()[:160] or f'exit {done.code}'} (sudo asks for no password there?)"
    )


async def _inspect(plan: Plan, connection: Connection, node: str) -> tuple[str, Ports | str]:
    ends = [end for rail in plan.rails for end in rail.ends if end.node == node]
    try:
        done = await run(connection, inspect(plan.verbs.test, ends), INSPECT_S)
    except LabError as error:
        return node, f"{node}: {error}"
    ports = parse_ports(done.out)
    if not ports.version:
        return node, f"{node}: {plan.verbs.test} is not installed (package perftest)"
    return node, ports


def _all(plan: Plan, outcome: Outcome, reason: str) -> tuple[list[TransferResult], NcclResult | None]:
    """The same outcome for everything that was planned."""
    transfers = [
        TransferResult(rail=t.rail, client=t.client, server=t.server, outcome=outcome, reasons=(reason,))
        for transfers in plan.rounds
        for t in transfers
    ]
    return transfers, NcclResult(outcome=outcome, reasons=(reason,)) if plan.nccl else None


def _run_id(started: datetime) -> str:
    return f"{started:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")

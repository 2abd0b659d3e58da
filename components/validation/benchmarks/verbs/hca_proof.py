"""Counters of the physical ports below PVRDMA machines: speed alone cannot tell RDMA from TCP."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from components.ssh.credentials import Setting
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.plan import Stage, Transfer
from components.validation.benchmarks.verbs.run import Bench, Hcas, Look, run_round
from components.validation.records import HcaCount, TransferResult
from stacks.base import LabError
from stacks.lab import Lab

Way = Literal["sent", "received"]


class Unreadable:
    """A vCenter that refuses the login: no HCA is known, and the run goes ahead without them."""

    def __init__(self, why: str) -> None:
        self._why = why

    def look(self, _machines: Iterable[tuple[str, str]]) -> Look:
        """Fails with the reason why the vCenter cannot be read."""
        raise LabError(self._why)


@contextmanager
def hcas_of(lab: Lab, plan: Plan, setting: Setting, root: Path) -> Iterator[Hcas | None]:
    """The HCAs of a lab with PVRDMA rails; None for other labs, or without a vCenter."""
    if lab.fabric is None or not any(rail.pvrdma for rail in plan.rails):
        yield None
        return
    # pyVmomi takes a second, which other labs need not pay
    from components.fabric.hcas import opened  # noqa: PLC0415

    with ExitStack() as stack:
        try:
            hcas: Hcas = stack.enter_context(opened(lab.fabric, setting, root))
        except LabError as error:
            hcas = Unreadable(str(error))
        yield hcas


async def proven_round(
    bench: Bench, stage: Stage, transfers: list[Transfer], tag: str = ""
) -> list[TransferResult]:
    """Runs a round and, for bandwidths over PVRDMA, reads what the HCAs below both ends counted.

    Two machines on the same host are left out: they copy memory. All traffic through an HCA counts
    together, because no counter separates the bytes of machines.
    """
    rails = {rail.name for rail in bench.plan.rails if rail.pvrdma}
    below = [(t.rail, node) for t in transfers if t.rail in rails for node in (t.client, t.server)]
    if not below:
        return await run_round(bench, stage, transfers, tag=tag)
    before, why = await _look(bench.hcas, below)
    hosts = {t.flow: _one_host(t, before) for t in transfers}
    alone = {flow: host for flow, host in hosts.items() if host}
    ran = await run_round(bench, stage, [t for t in transfers if t.flow not in alone], tag=tag)
    done = {result.flow: result for result in ran}
    watched = stage.bandwidth and stage.shape == "one_way"
    after, later = await _look(bench.hcas, below) if watched and before else ({}, why)
    sums = _sums(bench.plan, stage, done.values(), before)
    results = []
    for t in transfers:
        if t.flow in alone:
            why_not = (
                f"both run on {alone[t.flow]}: they would copy memory, and the fabric would "
                "not be used"
            )
            left_out = stage.result(t.flow, "skipped", why_not)
            results.append(left_out.replace(same_host=alone[t.flow]))
        elif watched and t.rail in rails and done[t.flow].outcome == "measured":
            ends = _ends(stage, t.client, t.server)
            counts = tuple(
                _count(t.rail, node, way, (before, after), sums, why or later) for node, way in ends
            )
            results.append(done[t.flow].replace(hcas=counts))
        else:
            results.append(done[t.flow])
    return results


async def _look(hcas: Hcas | None, machines: list[tuple[str, str]]) -> tuple[Look, str]:
    """The HCAs, or the reason why they cannot be read."""
    if hcas is None:
        return {}, "the lab has no vCenter to ask (fabric)"
    try:
        return await asyncio.to_thread(hcas.look, machines), ""
    except LabError as error:
        return {}, str(error)


def _one_host(transfer: Transfer, look: Look) -> str:
    """The host that both machines run on; empty if they do not, or if it is unknown."""
    ends = []
    for node in (transfer.client, transfer.server):
        ends.append(look.get((transfer.rail, node)))
    hosts = {end.host if end else "" for end in ends}
    return hosts.pop() if len(hosts) == 1 else ""


def _ends(stage: Stage, client: str, server: str) -> tuple[tuple[str, Way], tuple[str, Way]]:
    """Sender and receiver of the data."""
    sender, receiver = (server, client) if stage.program.server_sends else (client, server)
    return (sender, "sent"), (receiver, "received")


Sums = dict[tuple[str, str, Way], int]


def _sums(plan: Plan, stage: Stage, done: Iterable[TransferResult], look: Look) -> Sums:
    """Payload through each HCA in the round, by host, device and direction."""
    sums: Sums = {}
    for result in done:
        for node, way in _ends(stage, result.client, result.server):
            if (where := look.get((result.rail, node))) is not None:
                key = (where.host, where.device, way)
                sums[key] = sums.get(key, 0) + _written(plan, stage, result)
    return sums


def _written(plan: Plan, stage: Stage, result: TransferResult) -> int:
    """Payload of a transfer with its repeats; of a test by time, computed from the bandwidth."""
    if (duration_s := plan.verbs.duration_of(stage)) is not None:
        return round(sum(result.samples) * 1e9 / 8 * duration_s)
    return stage.message_bytes * stage.iterations * (result.queue_pairs or 1) * len(result.samples)


def _count(  # noqa: PLR0913, PLR0917  # one end of one transfer, in two looks
    rail: str,
    node: str,
    way: Way,
    looks: tuple[Look, Look],
    sums: Sums,
    why: str,
) -> HcaCount:
    count = HcaCount(machine=node, way=way)
    before, after = (look.get((rail, node)) for look in looks)
    if before is None or after is None:
        return count.replace(why=why or "the vCenter reports no counters for it")
    count = count.replace(hca=f"{before.host} {before.device}".strip())
    if (before.host, before.device) != (after.host, after.device):
        return count.replace(why=f"it moved to {after.host or 'an unknown host'}")
    was, is_now = before.received_bytes, after.received_bytes
    if way == "sent":
        was, is_now = before.sent_bytes, after.sent_bytes
    if was is None or is_now is None:
        return count.replace(why=before.why or after.why or "not readable")
    written = sums.get((before.host, before.device, way), 0)
    return count.replace(written_bytes=written, counted_bytes=is_now - was)

"""Reboots of hosts that wait for one: a canary, then batches, each proven before the next; the first failure stops."""

import asyncio
import re
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface

from components.hosts.calls import Report, announced
from components.hosts.drain import Drainer, DrainError
from components.hosts.records import HostRecord
from components.hosts.repair import Crew, Outcome, Result, result_of
from components.ssh.connection import Endpoint, NoAnswerError
from stacks.hosts import HostPolicy

REBOOT = "exec sudo -n systemd-run --quiet --collect --on-active=1 systemctl reboot"
"""Detached, so the answer to this command still arrives."""
UNIT_STATE = "systemctl show -p ActiveState -p ExecMainExitTimestampMonotonic rocelab-rdma.service || true"
"""The time is 0 until the unit has run once since the boot: before and after it, its state is inactive."""
PAUSE_S = 3.0
ASKED_PEERS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Roll:
    """A roll over hosts of one lab."""

    crew: Crew
    records: Mapping[str, HostRecord]
    """All active hosts: those that reboot, and their peers on the rails."""
    drainer: Drainer | None
    """None: the lab has no cluster."""

    async def run(self, names: Sequence[str], outcome: Outcome) -> None:
        """Reboots these hosts and replaces their results."""
        deadline = time.monotonic() + self.crew.policy.reboot_budget_s
        stopped = ""
        for batch in batches(names, self.crew.policy, _control_planes(self.records)):
            if not stopped and time.monotonic() > deadline:
                stopped = "partial: the reboot budget is used up; the next run continues"
            if stopped:
                for name in batch:
                    outcome.results[name] = {**outcome.results[name], "hint": stopped}
                continue
            results = await asyncio.gather(*(self._one(name, outcome) for name in batch))
            bad = [name for name, result in zip(batch, results, strict=True) if result["status"] != "ready"]
            if bad:
                stopped = f"partial: the roll stopped at {bad[0]}"

    async def _one(self, name: str, outcome: Outcome) -> Result:
        record = self.records[name]
        closed = False
        try:
            closed = await self._emptied(name)
            report = await self._rebooted(name, record)
            result = result_of(name, record, report, None, self.crew.policy)
            if result["status"] == "ready":
                await self._reaches_a_peer(name, record)
                if self.drainer is not None and closed:
                    await asyncio.to_thread(self.drainer.uncordon, name)
            seen = record if result["status"] == "ready" else record.model_copy(update={"fields": report.fields})
            outcome.note(name, seen, result, report)
        except (NoAnswerError, DrainError) as error:
            reason = f"{error}{'; it stays cordoned' if closed else ''}"
            result = {"status": "failed", "step": "reboot", "reason": reason, "hint": "fix it, then run again"}
            outcome.note(name, record.model_copy(update={"trouble": reason}), result)
        return result

    async def _emptied(self, name: str) -> bool:
        """Drains the node; returns whether it must be uncordoned later. If that fails, it is uncordoned at once."""
        if self.drainer is None:
            return False
        self.crew.say(f"{name}: cordoned and drained")
        was_open = await asyncio.to_thread(self.drainer.cordon, name)
        try:
            async with announced(lambda: f"{name}: waits until its pods are gone", self.crew.say):
                await asyncio.to_thread(self.drainer.empty, name)
        except DrainError:
            if was_open:
                await asyncio.to_thread(self.drainer.uncordon, name)
            raise
        return was_open

    async def _rebooted(self, name: str, record: HostRecord) -> Report:
        call = self.crew.hosts.call
        # read again: since its report in this run a drain took minutes, and a crash in them would pass for this reboot
        before = (await call(record.endpoint, "probe", record.document)).facts.get("boot_id")
        self.crew.say(f"{name}: reboots")
        await self.crew.hosts.run(record.endpoint, REBOOT, answer_s=60)
        deadline = time.monotonic() + self.crew.policy.reboot_wait_s
        last: NoAnswerError | None = None
        async with announced(lambda: f"{name}: is not back after its reboot ({last or 'same boot'})", self.crew.say):
            while time.monotonic() < deadline:
                await asyncio.sleep(PAUSE_S)
                try:
                    report = await call(record.endpoint, "probe", record.document)
                except NoAnswerError as error:
                    last = error
                    continue
                settled = all(report.fields.get(key) == value for key, value in record.fields.items())
                if report.facts.get("boot_id") != before and (settled or await self._unit_has_ended(record.endpoint)):
                    self.crew.say(f"{name}: is back")
                    return report if settled else await call(record.endpoint, "probe", record.document)
        raise NoAnswerError(f"not back {self.crew.policy.reboot_wait_s} s after its reboot ({last or 'same boot'})")

    async def _unit_has_ended(self, endpoint: Endpoint) -> bool:
        """Whether the boot unit has ended, so further waiting is pointless."""
        said = (await self.crew.hosts.run(endpoint, UNIT_STATE, answer_s=60)).split()
        has_run = any(re.match(r"ExecMainExit\w+=[1-9]", word) for word in said)
        return "ActiveState=failed" in said or (has_run and "ActiveState=activating" not in said)

    async def _reaches_a_peer(self, name: str, record: HostRecord) -> None:
        for interface, peers in rail_peers(name, self.records):
            try:
                await self.crew.hosts.run(record.endpoint, reach_command(interface, peers), answer_s=60)
            except NoAnswerError:
                raise NoAnswerError(f"no peer answers on {interface} ({', '.join(peers[:ASKED_PEERS])})") from None


def reach_command(interface: str, peers: Sequence[str]) -> str:
    """Succeeds when one of the first peers answers: one is proof enough, and another may be down."""
    tries = " || ".join(f"sudo -n ping -c1 -W2 -I {interface} {peer}" for peer in peers[:ASKED_PEERS])
    return f"({tries}) >/dev/null"


def batches(names: Sequence[str], policy: HostPolicy, alone: Container[str] = ()) -> Iterator[list[str]]:
    """The hosts that reboot together: one canary, then as many as the policy allows.

    Args:
        names: hosts that wait for a reboot.
        policy: how many may be down at once.
        alone: hosts that reboot last and never together: two control planes down lose the quorum.
    """
    others = [name for name in names if name not in alone]
    if others:
        yield others[:1]
    for first in range(1, len(others), policy.max_unavailable):
        yield others[first : first + policy.max_unavailable]
    yield from ([name] for name in names if name in alone)


def _control_planes(records: Mapping[str, HostRecord]) -> set[str]:
    sections = {name: record.document.get("kubernetes") for name, record in records.items()}
    return {name for name, found in sections.items() if isinstance(found, dict) and found["role"] == "control_plane"}


def rail_peers(name: str, records: Mapping[str, HostRecord]) -> Iterator[tuple[str, list[str]]]:
    """Per PF of a host, the addresses of the other hosts on the same rail; PFs without a peer are left out."""
    links = {
        host: [(str(pf["interface"]), IPv4Interface(str(pf["address"]))) for pf in record.pfs]
        for host, record in records.items()
        if record.state == "active"
    }
    for interface, address in links.get(name, []):
        others = (other for host, found in links.items() if host != name for _, other in found)
        if peers := [str(other.ip) for other in others if other.network == address.network]:
            yield interface, peers

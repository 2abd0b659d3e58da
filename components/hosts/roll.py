"""Reboots hosts: a canary, then batches, each proven before the next; the first failure stops."""

import asyncio
import re
import time
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from ipaddress import IPv4Interface, IPv4Network

from components.hosts.calls import Crew, Report, announced
from components.hosts.drain import DrainError, NodeDrainer
from components.hosts.records import Document, HostRecord, Records, as_mapping
from components.hosts.repair import Outcome, result_of
from components.ssh.connection import Endpoint, NoAnswerError
from stacks.frozen import frozen
from stacks.hosts import HostPolicy

REBOOT = "exec sudo -n systemd-run --quiet --collect --on-active=1 systemctl reboot"
"""Detached, so the answer to this command still arrives."""
UNIT_STATE = (
    "systemctl show -p ActiveState -p ExecMainExitTimestampMonotonic rocelab-rdma.service || true"
)
"""The time is 0 until the unit has run once since the boot; before and after, it is inactive."""
PAUSE_S = 3.0
ASKED_PEERS = 3


@frozen
class Roll:
    """A roll over hosts of one lab."""

    crew: Crew
    records: Records
    """All active hosts: those that reboot, and their peers on the rails."""
    drainer: NodeDrainer | None
    """None: the lab has no cluster."""

    async def reopen(self, names: Sequence[str]) -> None:
        """Uncordons those that an earlier roll cordoned and gave up on: they have come back since.

        The gate names those that stay cordoned.
        """
        if self.drainer is None:
            return
        for name in names:
            with suppress(DrainError):
                await asyncio.to_thread(self.drainer.reopen, name)

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
            await asyncio.gather(*(self._one(name, outcome) for name in batch))
            bad = [name for name in batch if outcome.results[name]["status"] != "ready"]
            if bad:
                stopped = f"partial: the roll stopped at {bad[0]}"

    async def _one(self, name: str, outcome: Outcome) -> None:
        record = self.records[name]
        closed = False
        try:
            closed = await self._emptied(name)
            report = await self._rebooted(name, record)
            result = result_of(name, record, report, None, self.crew.policy)
            current = record.with_changes(fields=report.fields)
            if result["status"] == "ready":
                await self._reaches_a_peer(name, record)
                if self.drainer is not None and closed:
                    await asyncio.to_thread(self.drainer.uncordon, name)
                current = record
            outcome.note(name, current, result, report)
        except (NoAnswerError, DrainError) as error:
            reason = f"{error}{'; it stays cordoned' if closed else ''}"
            result = {
                "status": "failed",
                "step": "reboot",
                "reason": reason,
                "hint": "fix it, then run again",
            }
            outcome.note(name, record.with_changes(trouble=reason), result)

    async def _emptied(self, name: str) -> bool:
        """Drains the node; returns whether it must be uncordoned later. If that fails, it is
        uncordoned at once.
        """
        if self.drainer is None:
            return False
        self.crew.say(f"{name}: cordoned and drained")
        was_open = await asyncio.to_thread(self.drainer.cordon, name)
        try:
            async with announced(lambda: f"{name}: waiting for its pods to end", self.crew.say):
                await asyncio.to_thread(self.drainer.empty, name)
        except DrainError:
            if was_open:
                await asyncio.to_thread(self.drainer.uncordon, name)
            raise
        return was_open

    async def _rebooted(self, name: str, record: HostRecord) -> Report:
        call = self.crew.hosts.call
        # read again: the drain took minutes, and a crash in them would pass for this reboot
        before = (await call(record.endpoint, "probe", record.document)).facts.get("boot_id")
        self.crew.say(f"{name}: reboots")
        await self.crew.hosts.run(record.endpoint, REBOOT, answer_s=60)
        deadline = time.monotonic() + self.crew.policy.reboot_wait_s
        last: NoAnswerError | None = None
        async with announced(
            lambda: f"{name}: not back from its reboot yet ({last or 'same boot'})", self.crew.say
        ):
            while time.monotonic() < deadline:
                await asyncio.sleep(PAUSE_S)
                try:
                    report = await call(record.endpoint, "probe", record.document)
                except NoAnswerError as error:
                    last = error
                    continue
                if report.facts.get("boot_id") == before:
                    continue
                settled = not record.deviating(report.fields)
                if settled or await self._unit_has_ended(record.endpoint):
                    self.crew.say(f"{name}: is back")
                    if settled:
                        return report
                    return await call(record.endpoint, "probe", record.document)
        waited_s = self.crew.policy.reboot_wait_s
        raise NoAnswerError(f"not back {waited_s} s after its reboot ({last or 'same boot'})")

    async def _unit_has_ended(self, endpoint: Endpoint) -> bool:
        """Whether the boot unit has ended, so further waiting is pointless."""
        state = (await self.crew.hosts.run(endpoint, UNIT_STATE, answer_s=60)).split()
        has_run = any(re.match(r"ExecMainExit\w+=[1-9]", word) for word in state)
        return "ActiveState=failed" in state or (has_run and "ActiveState=activating" not in state)

    async def _reaches_a_peer(self, name: str, record: HostRecord) -> None:
        for interface, peers in rail_peers(name, self.records):
            command = reach_command(interface, peers)
            try:
                await self.crew.hosts.run(record.endpoint, command, answer_s=60)
            except NoAnswerError:
                pinged = ", ".join(peers[:ASKED_PEERS])
                raise NoAnswerError(f"no peer answers on {interface} ({pinged})") from None


def reach_command(interface: str, peers: Sequence[str]) -> str:
    """Succeeds when one of the first peers answers: one is enough, and another may be down."""
    pings = [f"sudo -n ping -c1 -W2 -I {interface} {peer}" for peer in peers[:ASKED_PEERS]]
    return f"({' || '.join(pings)}) >/dev/null"


def batches(
    names: Sequence[str], policy: HostPolicy, alone: Container[str] = ()
) -> Iterator[list[str]]:
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


def _control_planes(records: Records) -> set[str]:
    roles = {name: as_mapping(host.document.get("kubernetes")) for name, host in records.items()}
    return {name for name, section in roles.items() if section.get("role") == "control_plane"}


def rail_peers(name: str, records: Records) -> Iterator[tuple[str, list[str]]]:
    """Per PF of a host with peers, the addresses of the other active hosts on the same rail."""
    rails: dict[IPv4Network, list[str]] = {}
    for other, record in records.items():
        if record.state == "active" and other != name:
            for address in map(_address, record.pfs):
                rails.setdefault(address.network, []).append(str(address.ip))
    if name not in records or records[name].state != "active":
        return
    for pf in records[name].pfs:
        if peers := rails.get(_address(pf).network):
            yield str(pf["interface"]), peers


def _address(pf: Document) -> IPv4Interface:
    return IPv4Interface(str(pf["address"]))

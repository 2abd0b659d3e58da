"""Observe, repair, reboot and undo hosts. A host's failure is data, never an exception."""

import asyncio
import re
import time
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Interface
from types import MappingProxyType

from pydantic import JsonValue

from components.hosts.calls import HostCalls, Report, Say, StuckError, announced, each
from components.hosts.changes import follows_a_reboot, may_repair, repair_class, shorten
from components.hosts.drain import Drainer, DrainError
from components.hosts.records import (
    Facts,
    HostRecord,
    kept,
    qos_limits,
    record_before,
    warnings_of,
)
from components.ssh.connection import Endpoint, NoAnswerError
from stacks.hosts import HostPolicy

Result = dict[str, str]

UNDO_S = 240
"""Bound on the undo of one host: a host that hangs must not hang a destroy."""
STUCK = "see what hangs there (ps, dmesg) and run again, or set its state to drained to leave it as it is"
REBOOT_HINTS = {
    "never": "nothing is set; set hosts.reboot: stage and reboot it yourself, or hosts.reboot: roll",
    "stage": "what is set holds from the next boot on: drain and reboot it, then pulumi up --refresh",
    "roll": "it will be rebooted in the rolling reboot",
}
"""What follows for a host that waits for a reboot, by `hosts.reboot`."""
STAYS = "its VFs, links, /etc drop-ins and unit rocelab-rdma.service stay on it"


@dataclass(frozen=True, kw_only=True, slots=True)
class Crew:
    """How hosts are called, what the lab allows, and where progress goes."""

    hosts: HostCalls
    policy: HostPolicy
    say: Say


@dataclass
class Outcome:
    """The hosts after the work, by name."""

    records: dict[str, HostRecord] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)
    reports: dict[str, Report] = field(default_factory=dict)
    """What each host reported last; of these facts the state keeps only some."""
    repaired: set[str] = field(default_factory=set)
    """Hosts that were repaired: earlier measurements on them are obsolete."""
    found_wrong: dict[str, list[str]] = field(default_factory=dict)
    """Per host the fields that deviated when it was first read."""

    def note(self, name: str, record: HostRecord, result: Result, report: Report | None = None) -> None:
        self.records[name], self.results[name] = record, result
        if report is not None:
            self.reports[name], self.facts[name] = report, kept(report)


def unreachable(name: str, error: NoAnswerError) -> Result:
    return {
        "status": "unreachable",
        "reason": str(error),
        "hint": f"fix it and run again, or set nodes.{name}.state: drained to leave it out",
    }


async def observe(hosts: HostCalls, records: Mapping[str, HostRecord], facts: Facts) -> dict[str, HostRecord]:
    """The records with current fields; the record of a host that does not answer says so.

    Args:
        hosts: how they are called.
        records: what was.
        facts: receives what the hosts report.
    """
    seen = dict(records)

    async def look(name: str, record: HostRecord) -> None:
        if record.state != "active":
            return
        try:
            report = await hosts.call(record.endpoint, "probe", record.document)
        except NoAnswerError as error:
            seen[name] = record.model_copy(update={"trouble": str(error)})
            return
        facts[name] = kept(report)
        failed = report.failed["reason"] if report.failed else ""
        fields = record.fields if failed else report.fields
        seen[name] = record.model_copy(update={"fields": fields, "trouble": failed or _outside(record, report)})

    await each(records, look)
    return seen


def _outside(record: HostRecord, report: Report) -> str:
    """Reports a host that has left the cluster that rocelab made. No field shows that, because no step repairs it."""
    membership = report.facts.get("kubernetes")
    if "kubernetes" not in record.document or not isinstance(membership, dict):
        return ""
    return "" if membership["role"] else "it is in no cluster"


async def converge(
    crew: Crew,
    olds: Mapping[str, HostRecord],
    news: Mapping[str, HostRecord],
    facts: Facts,
    reports: Mapping[str, Report] = MappingProxyType({}),
) -> Outcome:
    """Repairs the hosts as far as the policy allows, and undoes those that left.

    Args:
        crew: how hosts are called, and the policy.
        olds: the hosts of the last run.
        news: the hosts of the lab.
        facts: what hosts reported before.
        reports: of hosts whose command ran and was confirmed in this run; they are not called again.
    """
    outcome = Outcome()

    async def keep(name: str, new: HostRecord) -> None:
        if new.state == "drained":
            outcome.note(name, new, {"status": "drained"})
        elif new.state == "active":
            old = record_before(olds, name, new)
            await _bring_up(crew, name, old, new, outcome, reports.get(name))

    await each(news, keep)
    machines = {str(known.get("machine_id")) for known in outcome.facts.values()}
    formerly = {new.formerly for new in news.values()}
    leaving = {name: old for name, old in olds.items() if name not in news and name not in formerly}
    leaving |= {name: new for name, new in news.items() if new.state == "absent"}

    async def go(name: str, record: HostRecord) -> None:
        if record.state == "drained":
            outcome.results[name] = {"status": "left", "reason": f"it was drained, so {STAYS}"}
            return
        result = await leave(crew, name, record, _machine_id(facts, name), machines)
        outcome.results[name] = result
        if name in news:
            # the next run tries again what could not be undone
            trouble = "" if result["status"] == "undone" else result["reason"]
            outcome.records[name] = record.model_copy(update={"trouble": trouble})

    await each(leaving, go)
    for line in [*qos_limits(outcome.facts), *warnings_of(outcome.facts)]:
        crew.say(line)
    for name, warning in (await silent_peers(crew.hosts, news, outcome.facts)).items():
        crew.say(f"{name}: {warning}")
        outcome.results[name] = {**outcome.results[name], "warning": warning}
    return outcome


async def leave(crew: Crew, name: str, record: HostRecord, machine_id: str, kept: set[str]) -> Result:
    """Undoes a host, unless another machine now answers at its address, or the machine stays under another name."""
    try:
        async with asyncio.timeout(UNDO_S):
            looked = await crew.hosts.call(record.endpoint, "probe", record.document)
            found = str(looked.facts.get("machine_id", ""))
            if not found:
                return _nameless(looked)
            if found in kept:
                return {"status": "undone", "reason": "the same machine is kept under another name: nothing was undone"}
            if machine_id not in ("", found):
                return {"status": "undone", "reason": "another machine answers at its address: nothing was undone"}
            crew.say(f"{name}: is undone")
            report = await crew.hosts.call(record.endpoint, "undo", record.document)
    except (NoAnswerError, TimeoutError) as error:
        return _left_behind(error)
    if _is_anothers(report):
        return {"status": "undone", **(report.failed or {})}
    return {"status": "failed", **report.failed} if report.failed else {"status": "undone"}


def _left_behind(error: NoAnswerError | TimeoutError) -> Result:
    """A host that is off cannot fail a destroy, or none would ever end; one that hangs must."""
    if isinstance(error, NoAnswerError) and not isinstance(error, StuckError):
        hint = "list it once more with state: absent to try again"
        return {"status": "unreachable", "reason": f"{error}: {STAYS}", "hint": hint}
    late = str(error) or f"no end within {UNDO_S} s"
    return {"status": "failed", "reason": f"{late}, although its SSH answers: {STAYS}", "hint": STUCK}


def _nameless(looked: Report) -> Result:
    failed = looked.failed or {"reason": "it does not report its machine ID"}
    if _cannot_run(looked):
        return {"status": "left", "reason": f"{failed['reason']}: nothing can be undone there"}
    return {"status": "failed", **failed}


async def undo_all(crew: Crew, records: Mapping[str, HostRecord], facts: Facts) -> dict[str, Result]:
    """Undoes every host that is not drained."""
    results: dict[str, Result] = {}

    async def go(name: str, record: HostRecord) -> None:
        if record.state == "drained":
            results[name] = {"status": "left", "reason": f"it is drained, so {STAYS}"}
        elif record.state == "active":
            results[name] = await leave(crew, name, record, _machine_id(facts, name), set())

    await each(records, go)
    return results


def result_of(name: str, new: HostRecord, report: Report, failed: dict[str, str] | None, policy: HostPolicy) -> Result:
    wrong = {key: value for key, value in new.fields.items() if report.fields.get(key) != value}
    if not wrong and report.failed is None:
        return {"status": "ready"}
    if _only_waits(report, wrong):
        return {"status": "needs_reboot", "reason": "; ".join(report.needs_reboot), "hint": REBOOT_HINTS[policy.reboot]}
    if failed or report.failed:
        return {"status": "failed", **(failed or report.failed or {})}
    key, value = next(iter(wrong.items()))
    undone = reverted(report, list(wrong))
    return {
        "status": "failed",
        "step": "drift",
        "reason": f"{key} is {shorten(report.fields.get(key))}, expected {shorten(value)}{undone and f'; {undone}'}",
        "hint": f"its repair has class {repair_class(key)}, but hosts.repair is {policy.repair}; "
        f"raise hosts.repair, or repair {name} by hand",
    }


def _only_waits(report: Report, wrong: Collection[str]) -> bool:
    """Whether a pending reboot explains every field that deviates."""
    return bool(report.needs_reboot) and all(follows_a_reboot(key) for key in wrong)


def reverted(report: Report, wrong: Sequence[str]) -> str:
    """Names the links that the host itself has reverted."""
    links = report.facts.get("reverted")
    found = (
        [link for link in links if any(key.startswith(f"{link}.") for key in wrong)] if isinstance(links, list) else []
    )
    return (
        f"its change of {', '.join(map(str, found))} was reverted: no new connection confirmed it in time"
        if found
        else ""
    )


async def _bring_up(  # noqa: PLR0913, PLR0917  # one host of the above
    crew: Crew, name: str, old: HostRecord | None, new: HostRecord, outcome: Outcome, reported: Report | None
) -> None:
    call, document = crew.hosts.call, new.document
    failed = None
    # what the lab file changed is carried out; what has drifted is repaired as far as the policy allows
    deploys = old is None or old.state != "active" or old.document != document or old.unfinished
    try:
        # over a new connection, which is the confirmation that a pending revert waits for
        report = reported or await call(new.endpoint, "confirm", document)
        wrong = [key for key, value in new.fields.items() if report.fields.get(key) != value]
        outcome.found_wrong[name] = wrong
        if undone := reverted(report, wrong):
            crew.say(f"{name}: {undone}")
        only = [key for key in new.fields if deploys or may_repair(key, crew.policy.repair)]
        # the command of this run has tried it, or done all that can be done before the reboot
        done = reported is not None and (reported.failed is not None or _only_waits(report, wrong))
        if set(wrong) & set(only) and not (done or _is_anothers(report) or _cannot_run(report)):
            crew.say(f"{name}: repairs {', '.join(key for key in wrong if key in only)}")
            outcome.repaired.add(name)
            failed = (await call(new.endpoint, "apply", {**document, "only": list[JsonValue](only)})).failed
            report = await call(new.endpoint, "confirm", document)
    except NoAnswerError as error:
        seen = new.model_copy(update={"trouble": str(error), "unfinished": deploys})
        outcome.note(name, seen, unreachable(name, error))
        return
    result = result_of(name, new, report, failed, crew.policy)
    if result["status"] == "ready":
        outcome.note(name, new, result, report)
    else:
        seen = new.model_copy(update={"fields": report.fields, "unfinished": deploys})
        outcome.note(name, seen, result, report)


def _is_anothers(report: Report) -> bool:
    """Whether the host belongs to another stack; it reports that before anything changes."""
    return report.failed is not None and report.failed["step"] == "owner"


def _cannot_run(report: Report) -> bool:
    """Whether the host's python3 is too old for the program, so nothing was read and nothing can be done."""
    return report.failed is not None and report.failed["step"] == "program"


def _machine_id(facts: Facts, name: str) -> str:
    known = facts.get(name)
    return str(known.get("machine_id", "")) if isinstance(known, dict) else ""


async def silent_peers(hosts: HostCalls, records: Mapping[str, HostRecord], facts: dict[str, Facts]) -> dict[str, str]:
    """Per host the peers that did not answer, or not to full frames: a cable, a VLAN, an MTU, or a host that is down.

    A peer may have been under repair when it was pinged, so a host without an answer pings once more.

    Args:
        hosts: how they are called.
        records: the hosts of the lab.
        facts: what the hosts reported; receives the new reports.
    """
    names = {str(pf["address"]).partition("/")[0]: name for name, record in records.items() for pf in record.pfs}

    async def ask(name: str, record: HostRecord) -> None:
        with suppress(NoAnswerError):
            facts[name] = kept(await hosts.call(record.endpoint, "probe", record.document))

    await each({name: records[name] for name in _unheard(facts, names) if name in records}, ask)
    return _unheard(facts, names)


def _unheard(facts: Mapping[str, Facts], names: Mapping[str, str]) -> dict[str, str]:
    """Per host the peers that did not answer; `names` has the host of each address on a rail."""
    found = {}
    for host, known in sorted(facts.items()):
        network = known.get("guest_network")
        answers = network.get("ping") if isinstance(network, dict) else None
        lines = []
        for interface, answer in sorted(answers.items()) if isinstance(answers, dict) else ():
            address, _, said = str(answer).partition(" ")
            if said != "answers":
                lines.append(f"{interface} to {names.get(address, 'a host')} ({address}): {said}")
        if lines:
            found[host] = "; ".join(lines)
    return found


# -- reboots: a canary, then batches, each proven before the next; the first failure stops

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

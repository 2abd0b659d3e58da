"""Observe, repair, reboot and undo hosts. A host's failure is data, never an exception."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import cast

from pydantic import JsonValue

from components.hosts.calls import Crew, HostCalls, Report, StuckError, each
from components.hosts.program.steps import STEPS
from components.hosts.records import (
    Facts,
    HostRecord,
    Records,
    as_list,
    as_mapping,
    kept,
    qos_limits,
    record_before,
    shorten,
    warnings_of,
)
from components.ssh.connection import NoAnswerError
from stacks.hosts import HostPolicy, RepairClass

UNDO_S = 240
"""Bound on the undo of one host: a host that hangs must not hang a destroy."""
STUCK = (
    "see what hangs there (ps, dmesg) and run again, or set its state to drained to leave it as "
    "it is"
)
REBOOT_HINTS = {
    "never": "not applied yet; set hosts.reboot: stage and reboot it yourself, or "
    "hosts.reboot: roll",
    "stage": "the new values apply from the next boot on: drain and reboot it, then pulumi up "
    "--refresh",
    "roll": "it will be rebooted in the rolling reboot",
}
"""What follows for a host that waits for a reboot, by `hosts.reboot`."""
STAYS = "its VFs, links, /etc drop-ins and unit rocelab-rdma.service stay on it"

ORDER: tuple[RepairClass, ...] = ("none", "link", "service", "reboot")
"""From a repair without disruption to one that reboots the host."""

REPAIRS: dict[str, str] = {}
"""How disruptive the repair of a field is, by the last part of its name."""
for step in STEPS:
    REPAIRS.update({**step.effects, **step.repairs})

WAITING = frozenset(field for step in STEPS if step.waits_for for field in step.effects)
"""Fields of steps that wait for a pending reboot: until then they deviate, and that is not a
failure."""


def repair_class(field: str) -> RepairClass:
    """How disruptive the repair of a field is."""
    return cast("RepairClass", REPAIRS[field.rpartition(".")[2]])


def may_repair(field: str, policy: RepairClass) -> bool:
    """Whether the lab allows the repair of a field."""
    return ORDER.index(repair_class(field)) <= ORDER.index(policy)


def follows_a_reboot(field: str) -> bool:
    """Whether a pending reboot explains that a field deviates."""
    return repair_class(field) == "reboot" or field.rpartition(".")[2] in WAITING


Result = dict[str, str]


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
    deviations: dict[str, list[str]] = field(default_factory=dict)
    """Per host the fields that deviated when it was first read."""

    def note(
        self, name: str, record: HostRecord, result: Result, report: Report | None = None
    ) -> None:
        self.records[name], self.results[name] = record, result
        if report is not None:
            self.reports[name], self.facts[name] = report, kept(report)


def unreachable(name: str, error: NoAnswerError) -> Result:
    return {
        "status": "unreachable",
        "reason": str(error),
        "hint": f"fix it and run again, or set nodes.{name}.state: drained to leave it out",
    }


async def observe(hosts: HostCalls, records: Records, facts: Facts) -> dict[str, HostRecord]:
    """The records with current fields; the record of a host that does not answer says so.

    Args:
        hosts: how they are called.
        records: what was.
        facts: receives what the hosts report.
    """
    current = dict(records)

    async def look(name: str, record: HostRecord) -> None:
        if record.state != "active":
            return
        try:
            report = await hosts.call(record.endpoint, "probe", record.document)
        except NoAnswerError as error:
            current[name] = record.with_changes(trouble=str(error))
            return
        facts[name] = kept(report)
        if report.failed:
            current[name] = record.with_changes(trouble=report.failed["reason"])
        else:
            trouble = _outside(record, report)
            current[name] = record.with_changes(fields=report.fields, trouble=trouble)

    await each(records, look)
    return current


def _outside(record: HostRecord, report: Report) -> str:
    """Reports a host that has left the cluster that rocelab made. No field shows that, because no
    step repairs it.
    """
    membership = report.facts.get("kubernetes")
    if "kubernetes" not in record.document or not isinstance(membership, dict):
        return ""
    return "" if membership["role"] else "it is in no cluster"


async def converge(
    crew: Crew,
    olds: Records,
    news: Records,
    facts: Facts,
    reports: Mapping[str, Report] = MappingProxyType({}),
) -> Outcome:
    """Repairs the hosts as far as the policy allows, and undoes those that left.

    Args:
        crew: how hosts are called, and the policy.
        olds: the hosts of the last run.
        news: the hosts of the lab.
        facts: what hosts reported before.
        reports: of hosts whose command ran and was confirmed in this run; they are not called
            again.
    """
    outcome = Outcome()

    async def keep(name: str, new: HostRecord) -> None:
        if new.state == "drained":
            outcome.note(name, new, {"status": "drained"})
        elif new.state == "active":
            old = record_before(olds, name, new)
            await _bring_up(crew, name, old, new, outcome, reports.get(name))

    await each(news, keep)
    await _undo_leaving(crew, olds, news, facts, outcome)
    for line in [*qos_limits(outcome.facts), *warnings_of(outcome.facts)]:
        crew.say(line)
    for name, warning in (await silent_peers(crew.hosts, news, outcome.facts)).items():
        crew.say(f"{name}: {warning}")
        outcome.results[name] = {**outcome.results[name], "warning": warning}
    return outcome


async def _undo_leaving(
    crew: Crew,
    olds: Records,
    news: Records,
    facts: Facts,
    outcome: Outcome,
) -> None:
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
            outcome.records[name] = record.with_changes(trouble=trouble)

    await each(leaving, go)


async def leave(
    crew: Crew, name: str, record: HostRecord, machine_id: str, kept: set[str]
) -> Result:
    """Undoes a host, unless another machine answers there, or it stays under another name."""
    try:
        async with asyncio.timeout(UNDO_S):
            report = await crew.hosts.call(record.endpoint, "probe", record.document)
            answering = str(report.facts.get("machine_id", ""))
            if not answering:
                return _nameless(report)
            if answering in kept:
                return _not_undone("the same machine is kept under another name")
            if machine_id not in ("", answering):
                return _not_undone("another machine answers at its address")
            crew.say(f"{name}: is undone")
            report = await crew.hosts.call(record.endpoint, "undo", record.document)
    except (NoAnswerError, TimeoutError) as error:
        return _left_behind(error)
    if _failed_in(report, "owner"):
        return {"status": "undone", **(report.failed or {})}
    return {"status": "failed", **report.failed} if report.failed else {"status": "undone"}


def _not_undone(why: str) -> Result:
    return {"status": "undone", "reason": f"{why}: nothing was undone"}


def _left_behind(error: NoAnswerError | TimeoutError) -> Result:
    """A host that is off cannot fail a destroy, or none would ever end; one that hangs must."""
    if isinstance(error, NoAnswerError) and not isinstance(error, StuckError):
        hint = "list it once more with state: absent to try again"
        return {"status": "unreachable", "reason": f"{error}: {STAYS}", "hint": hint}
    late = str(error) or f"no end within {UNDO_S} s"
    return {
        "status": "failed",
        "reason": f"{late}, although its SSH answers: {STAYS}",
        "hint": STUCK,
    }


def _nameless(report: Report) -> Result:
    failed = report.failed or {"reason": "it does not report its machine ID"}
    if _failed_in(report, "program"):
        return {"status": "left", "reason": f"{failed['reason']}: nothing can be undone there"}
    return {"status": "failed", **failed}


async def undo_all(crew: Crew, records: Records, facts: Facts) -> dict[str, Result]:
    """Undoes every host that is not drained."""
    results: dict[str, Result] = {}

    async def go(name: str, record: HostRecord) -> None:
        if record.state == "drained":
            results[name] = {"status": "left", "reason": f"it is drained, so {STAYS}"}
        elif record.state == "active":
            results[name] = await leave(crew, name, record, _machine_id(facts, name), set())

    await each(records, go)
    return results


def result_of(
    name: str, new: HostRecord, report: Report, failed: dict[str, str] | None, policy: HostPolicy
) -> Result:
    wrong = new.deviating(report.fields)
    if not wrong and report.failed is None:
        return {"status": "ready"}
    if _only_waits(report, wrong):
        return {
            "status": "needs_reboot",
            "reason": "; ".join(report.needs_reboot),
            "hint": REBOOT_HINTS[policy.reboot],
        }
    if failed or report.failed:
        return {"status": "failed", **(failed or report.failed or {})}
    key = wrong[0]
    reason = f"{key} is {shorten(report.fields.get(key))}, expected {shorten(new.fields[key])}"
    if undone := reverted(report, wrong):
        reason += f"; {undone}"
    return {
        "status": "failed",
        "step": "drift",
        "reason": reason,
        "hint": f"its repair has class {repair_class(key)}, but hosts.repair is {policy.repair}; "
        f"raise hosts.repair, or repair {name} by hand",
    }


def _only_waits(report: Report, wrong: Collection[str]) -> bool:
    """Whether a pending reboot explains every field that deviates."""
    return bool(report.needs_reboot) and all(follows_a_reboot(key) for key in wrong)


def reverted(report: Report, wrong: Sequence[str]) -> str:
    """Names the links that the host itself has reverted."""
    deviating = {key.rpartition(".")[0] for key in wrong}
    links = [str(link) for link in as_list(report.facts.get("reverted")) if link in deviating]
    if not links:
        return ""
    return f"its change of {', '.join(links)} was reverted: no new connection confirmed it in time"


async def _bring_up(  # noqa: PLR0913, PLR0917  # one host of the above
    crew: Crew,
    name: str,
    old: HostRecord | None,
    new: HostRecord,
    outcome: Outcome,
    reported: Report | None,
) -> None:
    call, document = crew.hosts.call, new.document
    failed = None
    # what the lab file changed is applied; what has drifted is repaired as the policy allows
    deploys = old is None or old.state != "active" or old.document != document or old.unfinished
    try:
        # over a new connection, which is the confirmation that a pending revert waits for
        report = reported or await call(new.endpoint, "confirm", document)
        wrong = new.deviating(report.fields)
        outcome.deviations[name] = wrong
        if undone := reverted(report, wrong):
            crew.say(f"{name}: {undone}")
        only = [key for key in new.fields if deploys or may_repair(key, crew.policy.repair)]
        # the command of this run has tried it, or done all that can be done before the reboot
        done = reported is not None and (reported.failed is not None or _only_waits(report, wrong))
        repairs = ", ".join(key for key in wrong if key in only)
        refused = _failed_in(report, "owner") or _failed_in(report, "program")
        if repairs and not (done or refused):
            crew.say(f"{name}: repairs {repairs}")
            outcome.repaired.add(name)
            limited = {**document, "only": list[JsonValue](only)}
            failed = (await call(new.endpoint, "apply", limited)).failed
            report = await call(new.endpoint, "confirm", document)
    except NoAnswerError as error:
        silent = new.with_changes(trouble=str(error), unfinished=deploys)
        outcome.note(name, silent, unreachable(name, error))
        return
    result = result_of(name, new, report, failed, crew.policy)
    current = new
    if result["status"] != "ready":
        current = new.with_changes(fields=report.fields, unfinished=deploys)
    outcome.note(name, current, result, report)


def _failed_in(report: Report, step: str) -> bool:
    """Whether the host refused at once.

    As `owner` it belongs to another stack; as `program` its python3 is too old.
    """
    return report.failed is not None and report.failed["step"] == step


def _machine_id(facts: Facts, name: str) -> str:
    return str(as_mapping(facts.get(name)).get("machine_id", ""))


async def silent_peers(
    hosts: HostCalls, records: Records, facts: dict[str, Facts]
) -> dict[str, str]:
    """Per host the peers that did not answer, or not to full frames.

    The reason is a cable, a VLAN, an MTU, or a host that is down. A peer may have been under repair
    when it was pinged, so a host without an answer pings once more.

    Args:
        hosts: how they are called.
        records: the hosts of the lab.
        facts: what the hosts reported; receives the new reports.
    """
    names = {}
    for name, record in records.items():
        for pf in record.pfs:
            names[str(pf["address"]).partition("/")[0]] = name

    async def ask(name: str, record: HostRecord) -> None:
        with suppress(NoAnswerError):
            facts[name] = kept(await hosts.call(record.endpoint, "probe", record.document))

    await each({name: records[name] for name in _unheard(facts, names) if name in records}, ask)
    return _unheard(facts, names)


def _unheard(facts: Mapping[str, Facts], names: Mapping[str, str]) -> dict[str, str]:
    """Per host the peers that did not answer; `names` has the host of each address on a rail."""
    silent = {}
    for host, known in sorted(facts.items()):
        pings = as_mapping(as_mapping(known.get("guest_network")).get("ping"))
        lines = []
        for interface, ping in sorted(pings.items()):
            address, _, answer = str(ping).partition(" ")
            if answer != "answers":
                peer = names.get(address, "a host")
                lines.append(f"{interface} to {peer} ({address}): {answer}")
        if lines:
            silent[host] = "; ".join(lines)
    return silent

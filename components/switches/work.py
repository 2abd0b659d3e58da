"""A change on a switch: read, refuse ports of others, back up, change, verify, revert what came out
wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from components.ssh.connection import NoAnswerError
from components.switches.backup import FirstTouch
from components.switches.dialect import (
    AnswerError,
    ConfigSession,
    Dialect,
    PendingChange,
    RefusedError,
    UnconfirmedError,
)
from components.switches.settings import (
    Cable,
    Difference,
    PortFacts,
    PortSettings,
    completed,
    differences,
    wrong_cable,
)
from components.switches.talk import Talk
from stacks.base import LabError
from stacks.frozen import frozen


async def cleared(talk: Talk, switch: str, session: ConfigSession) -> ConfigSession:
    """Ends changes of this lab's earlier runs.

    Returns the session with a name that is free on the switch.

    Call this before reading settings: an unconfirmed change looks permanent, and staged lines of an
    interrupted run would be committed with this one's. The engine locks the stack, so no other run
    of this lab is active.

    Raises:
        UnconfirmedError: when another user's change waits for its confirmation; nothing was
            changed.
    """
    pending = session.pending
    if pending is None:
        return session
    left = pending.read(await talk.ask(pending.listing), pending.mark)
    for change in left:
        if change.state == "unconfirmed" and not change.ours:
            raise UnconfirmedError(
                f"{switch}: nothing was changed. Change {change.name} of another user "
                f"({change.description}) is active but not confirmed, and would mix with "
                "rocelab's. Confirm it on the switch, revert it "
                f"(`{pending.drop.format(change.name)}`) or wait until it expires; then run again"
            )
    for change in left:
        if change.state != "ended":
            await talk.ask(pending.drop.format(change.name))
    if session.name:
        return _with_name(session, _free(session.name, {change.name for change in left}))
    return session


async def unconfirmed(talk: Talk, switch: str, session: ConfigSession) -> list[str]:
    """A warning per unconfirmed change: the switch may revert what is read now."""
    pending = session.pending
    if pending is None:
        return []
    left = pending.read(await talk.ask(pending.listing), pending.mark)
    changes = []
    for change in left:
        if change.state == "unconfirmed":
            changes.append(f"{switch}: change {change.name} {_whose(change)}")
    return changes


def _whose(change: PendingChange) -> str:
    if change.ours:
        return (
            "of an interrupted run is active but was never confirmed; the next up reverts it first"
        )
    return (
        f"of another user ({change.description}) is not confirmed; pulumi up changes nothing "
        "until it is confirmed or reverted"
    )


def _free(name: str, known: set[str]) -> str:
    """A session name that is not in the switch's list, where ended sessions stay for a while."""
    number, free = 1, name
    while free in known:
        number += 1
        free = f"{name}-{number}"
    return free


def _with_name(session: ConfigSession, name: str) -> ConfigSession:
    def renamed(commands: Sequence[str]) -> list[str]:
        return [command.replace(session.name, name) for command in commands]

    return replace(
        session,
        name=name,
        begin=renamed(session.begin),
        confirm=renamed(session.confirm),
        abandon=renamed(session.abandon),
    )


LAYER_2 = ("access", "trunk", "tagged-only")
MOST_SHOWN = 10
OWNER_FIELD = "description"
"""The field of a port that holds the owner's mark."""

Backup = Callable[[str], None]
"""Receives the running configuration before the first change."""


class NotOursError(LabError):
    """Ports belong to another lab, or have other cables than the map."""


class WrongValueError(LabError):
    """A switch accepted a command, but has another value."""


@frozen
class Task:
    """The work on one switch."""

    lab: str
    switch: str
    dialect: Dialect
    session: ConfigSession
    ports: Mapping[str, PortSettings]
    """Settings in the lab, by port."""
    cables: Sequence[Cable] = ()
    """For the comparison with LLDP."""
    interfaces: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By node of the lab, its PFs."""
    vlans: Sequence[int] = ()
    global_lines: Sequence[str] = ()
    """Switch-wide commands to send this time."""
    save: bool = True


@frozen
class SwitchOutcome:
    """The result of `configure`."""

    before: Mapping[str, PortSettings]
    """Settings by port before the change, of the declared fields."""
    facts: Mapping[str, PortFacts]
    changed: tuple[str, ...]
    """`1/1 mtu_bytes 1500 => 9216` for each change that was made."""


async def observe(
    talk: Talk, dialect: Dialect, ports: Mapping[str, PortSettings]
) -> dict[str, PortFacts]:
    """Reads these ports. A switch may refuse to list its LLDP neighbors, for example because LLDP
    is off.

    Raises:
        AnswerError: when an answer cannot be read.
        RefusedError: when the switch refuses another question.
    """
    # the same question may concern several ports
    answers = {}
    for command in dict.fromkeys(dialect.questions(list(ports))):
        answers[command] = await talk.ask(command)
    refusal = ""
    if dialect.lldp_table and dialect.lldp_table not in answers:
        try:
            answers[dialect.lldp_table] = await talk.ask(dialect.lldp_table)
        except RefusedError as error:
            refusal = str(error)
    facts = {}
    for port, settings in ports.items():
        facts[port] = replace(
            dialect.facts(port, answers, settings),
            neighbour=dialect.neighbour(port, answers),
            lldp_refusal=refusal,
        )
    return facts


def unheard(switch: str, facts_by_port: Mapping[str, PortFacts]) -> list[str]:
    """A warning if the switch refused to list its LLDP neighbors: the map of cables is then
    trusted.
    """
    reasons = dict.fromkeys(
        facts.lldp_refusal for facts in facts_by_port.values() if facts.lldp_refusal
    )
    warnings = []
    for reason in reasons:
        warnings.append(
            f"{switch}: no cable was compared with LLDP, because {reason}. switches[].ports is "
            "trusted: turn LLDP on, or compare the cables yourself"
        )
    return warnings


def refusals(task: Task, facts_by_port: Mapping[str, PortFacts]) -> list[str]:
    """Why rocelab must not change these ports, each with its remedy."""
    reasons = []
    ports_of: dict[str, list[str]] = {}
    for port, facts in facts_by_port.items():
        owner = facts.settings.owner
        if owner not in (None, task.lab):
            reasons.append(
                f"{port} belongs to lab {owner} (its description is {facts.settings.description}); "
                "remove it from that lab, or clear the description on the switch"
            )
        elif facts.settings.mode not in LAYER_2 and not (
            port in task.ports and task.ports[port].mode is None
        ):
            reasons.append(
                f"{port} is in mode {facts.settings.mode}, which has no VLANs; make it a switch "
                "port first"
            )
        for fault in facts.faults:
            ports_of.setdefault(fault, []).append(port)
    reasons += [f"{', '.join(ports)}: {fault}" for fault, ports in ports_of.items()]
    return reasons + _wrong_cables(task, facts_by_port)


def _wrong_cables(task: Task, facts_by_port: Mapping[str, PortFacts]) -> list[str]:
    reasons = []
    for cable in task.cables:
        if cable.port in facts_by_port:
            wrong = wrong_cable(cable, facts_by_port[cable.port].neighbour, task.interfaces)
            if wrong:
                reasons.append(f"{wrong}; correct switches[].ports, or move the cable")
    return reasons


async def configure(
    talk: Talk, task: Task, keep: Backup, first: FirstTouch | None = None
) -> SwitchOutcome:
    """Configures the ports; sends only what differs.

    Args:
        talk: connection to the switch.
        task: the settings.
        keep: receives the running configuration.
        first: remembers the earlier settings, for a run that finds no state.

    Raises:
        NotOursError: before anything is changed.
        WrongValueError: when a value differs afterwards; the old values are restored first.
        RefusedError: when the switch refuses a command; likewise.
    """
    task = replace(task, session=await cleared(talk, task.switch, task.session))
    facts_by_port = await observe(talk, task.dialect, task.ports)
    if reasons := refusals(task, facts_by_port):
        raise NotOursError(
            f"{task.switch}: nothing was changed.\n" + "\n".join(f"  {line}" for line in reasons)
        )
    known = first.read() if first else {}
    before, needed = {}, {}
    for port, facts in facts_by_port.items():
        before[port] = _as_before_us(facts.settings, task.ports[port], known.get(port))
        different = list(differences(task.ports[port], facts.settings))
        if different:
            needed[port] = different
    if not needed and not task.global_lines:
        return SwitchOutcome(before=before, facts=facts_by_port, changed=())
    keep(await talk.ask(task.dialect.backup()))
    if first:
        touched = [
            port for port in needed if port in known or not facts_by_port[port].settings.owner
        ]
        first.add({port: before[port] for port in touched})
    fields = {}
    for port, different in needed.items():
        fields[port] = frozenset(difference.field for difference in different)
    lines = _lines(task, {port: task.ports[port] for port in needed}, fields)
    try:
        await _send(talk, task.session, lines)
        after = await _verified(talk, task, task.ports)
    except (RefusedError, WrongValueError, AnswerError) as error:
        # the last running values; `before` has those before the lab, for the day when it releases
        # the port
        running = {port: _running(task, port, facts_by_port[port]) for port in needed}
        back = await _take_back(talk, task, running, fields, error)
        raise type(error)(f"{error}\n{back}") from None
    await _keep_for_good(talk, task)
    return SwitchOutcome(before=before, facts=after, changed=_changes(needed))


def _running(task: Task, port: str, facts: PortFacts) -> PortSettings:
    """The declared fields of a port as they were."""
    return facts.settings.narrowed(frozenset(task.ports[port].fields()))


def _changes(needed: Mapping[str, Sequence[Difference]]) -> tuple[str, ...]:
    lines = []
    for port, different in needed.items():
        for difference in different:
            change = f"{difference.field} {difference.actual} => {difference.expected}"
            lines.append(f"{port} {change}")
    return tuple(lines)


async def restore(talk: Talk, task: Task, before: Mapping[str, PortSettings]) -> list[str]:
    """Restores the settings before rocelab, except of ports that another lab has taken. A line per
    restored port.

    Raises:
        WrongValueError: when a value differs afterwards.
    """
    task = replace(task, session=await cleared(talk, task.switch, task.session))
    facts = await observe(talk, task.dialect, before)
    ours = {port: old for port, old in before.items() if facts[port].settings.owner == task.lab}
    fields = {}
    for port, old in ours.items():
        fields[port] = frozenset(
            difference.field for difference in differences(old, facts[port].settings)
        )
    needed = {port: ours[port] for port, names in fields.items() if names}
    if not needed:
        return []
    await _send(talk, task.session, _lines_back(task, needed, fields))
    await _verified(talk, task, needed)
    await _keep_for_good(talk, task)
    return [f"{port}: restored" for port in needed]


def merged(
    before: Mapping[str, PortSettings], now: Mapping[str, PortSettings]
) -> dict[str, PortSettings]:
    """The earliest known settings per port."""
    return {port: completed(before.get(port), settings) for port, settings in now.items()}


def _as_before_us(
    actual: PortSettings, declared: PortSettings, known: PortSettings | None
) -> PortSettings:
    """What to restore later. For a port with our marker but no state: what the file remembers,
    if anything.
    """
    declared_part = actual.narrowed(frozenset(declared.fields()))
    if not declared_part.owner:
        return declared_part
    if known:
        return completed(known, declared_part)
    return declared_part.model_copy(update={"description": ""})


def _lines(
    task: Task, declared: Mapping[str, PortSettings], fields: Mapping[str, frozenset[str]]
) -> list[str]:
    names = frozenset(name for port_fields in fields.values() for name in port_fields)
    lines = []
    if "vlans" in names:
        lines = task.dialect.vlan_lines(task.vlans)
    if names - {"description", "vlans", "mtu_bytes"}:
        lines += task.dialect.shared_lines(task.lab, list(declared.values()))
    return [*lines, *task.global_lines, *_port_lines(task, declared, fields)]


def _port_lines(
    task: Task, declared: Mapping[str, PortSettings], fields: Mapping[str, frozenset[str]]
) -> list[str]:
    lines = []
    for port, settings in declared.items():
        lines += task.dialect.port_lines(task.lab, port, settings, fields[port])
    return lines


def _lines_back(
    task: Task, old: Mapping[str, PortSettings], fields: Mapping[str, frozenset[str]]
) -> list[str]:
    """The owner's mark goes last: where a run stops halfway, the next one must still know the
    ports as the lab's.
    """
    marks = {port: names & {OWNER_FIELD} for port, names in fields.items()}
    others = {port: names - {OWNER_FIELD} for port, names in fields.items()}
    lines = []
    for part in (others, marks):
        lines += _port_lines(task, {port: old[port] for port in old if part[port]}, part)
    return lines


async def _send(talk: Talk, session: ConfigSession, lines: Sequence[str]) -> None:
    try:
        for line in (*session.begin, *lines, *session.commit, *session.end):
            await talk.ask(line)
    except RefusedError:
        for line in session.cancel:
            await talk.ask(line)
        raise


async def _take_back(
    talk: Talk,
    task: Task,
    running: Mapping[str, PortSettings],
    fields: Mapping[str, frozenset[str]],
    error: LabError,
) -> str:
    """Restores the last running values after a failure; says whether that worked."""
    if task.session.commit and isinstance(error, RefusedError):
        return "The switch refused it before anything took effect."
    try:
        if task.session.abandon:
            for command in task.session.abandon:
                await talk.ask(command)
        else:
            await _send(talk, task.session, _lines_back(task, running, fields))
    except (RefusedError, NoAnswerError) as again:
        return f"The old values could not be restored ({again})."
    return "The old values were restored."


async def _verified(
    talk: Talk, task: Task, ports: Mapping[str, PortSettings]
) -> dict[str, PortFacts]:
    """The ports, read again.

    Raises:
        WrongValueError: when a value differs from these settings.
    """
    facts = await observe(talk, task.dialect, ports)
    wrong = []
    for port, of in ports.items():
        for difference in differences(of, facts[port].settings):
            wrong.append(f"  {port} {difference}")
    if wrong:
        more = []
        if len(wrong) > MOST_SHOWN:
            more = [f"  and {len(wrong) - MOST_SHOWN} more"]
        text = f"{task.switch} accepted the commands, but its settings differ:"
        raise WrongValueError("\n".join([text, *wrong[:MOST_SHOWN], *more]))
    return facts


async def _keep_for_good(talk: Talk, task: Task) -> None:
    """Confirms a verified change, and saves it for reboots unless the lab file forbids that."""
    for command in (*task.session.confirm, *(task.session.save if task.save else ())):
        await talk.ask(command)

"""What is done on a switch: look, refuse what is not ours, back up, change, verify, take back what came out wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from components.ssh.connection import NoAnswerError
from components.switches.backup import FirstTouch
from components.switches.dialect import AnswerError, Dialect, Left, RefusedError, Sitting, UnconfirmedError
from components.switches.settings import (
    Cable,
    PortFacts,
    PortSettings,
    completed,
    differences,
    wrong_cable,
)
from components.switches.talk import Talk
from stacks.base import LabError


async def cleared(talk: Talk, switch: str, sitting: Sitting) -> Sitting:
    """Ends what this lab's earlier runs left; the same sitting, under a name that the switch does not know.

    To be asked before anything is read: a change that waits for its confirmation looks as if it were there to stay,
    and staged lines of a killed run would be committed with those of this one. The engine locks the stack, so no other
    run of this lab is at work there.

    Raises:
        UnconfirmedError: when somebody else's change waits for its confirmation; nothing was changed.
    """
    sessions = sitting.sessions
    if sessions is None:
        return sitting
    left = sessions.read(await talk.ask(sessions.listing), sessions.mark)
    for one in left:
        if one.state == "unconfirmed" and not one.ours:
            raise UnconfirmedError(
                f"{switch}: nothing was changed. Change {one.name} of another user ({one.said}) is active but not "
                "confirmed, and would mix with rocelab's. Confirm it on the switch, revert it "
                f"(`{sessions.drop.format(one.name)}`) or wait until it expires; then run again"
            )
    for one in left:
        if one.state != "ended":
            await talk.ask(sessions.drop.format(one.name))
    return _with_name(sitting, _free(sitting.session, {one.name for one in left})) if sitting.session else sitting


async def unconfirmed(talk: Talk, switch: str, sitting: Sitting) -> list[str]:
    """Of each change that is in force and may be taken back at any moment, a warning: what is read may not last."""
    sessions = sitting.sessions
    if sessions is None:
        return []
    left = sessions.read(await talk.ask(sessions.listing), sessions.mark)
    return [f"{switch}: change {one.name} {_whose(one)}" for one in left if one.state == "unconfirmed"]


def _whose(one: Left) -> str:
    if one.ours:
        return "of an interrupted run is active but was never confirmed; the next up reverts it first"
    return f"of another user ({one.said}) is not confirmed; no up changes anything until it is confirmed or reverted"


def _free(name: str, known: set[str]) -> str:
    """A session name that is not in the switch's list, where ended sessions stay for a while."""
    numbered = (f"{name}-{number}" for number in range(2, len(known) + 3))
    return next(one for one in (name, *numbered) if one not in known)


def _with_name(sitting: Sitting, name: str) -> Sitting:
    def renamed(commands: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            " ".join(name if word == sitting.session else word for word in command.split(" ")) for command in commands
        )

    return replace(
        sitting,
        session=name,
        begin=renamed(sitting.begin),
        confirm=renamed(sitting.confirm),
        abandon=renamed(sitting.abandon),
    )


LAYER_2 = ("access", "trunk", "tagged-only")
MOST_SHOWN = 10

Backup = Callable[[str], None]
"""Takes the running configuration before the first change."""


class NotOursError(LabError):
    """Ports that belong to another lab, or hang on other cables than the map says."""


class WrongValueError(LabError):
    """A switch accepted a command, but has another value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """The work on one switch."""

    lab: str
    switch: str
    dialect: Dialect
    sitting: Sitting
    ports: Mapping[str, PortSettings]
    """Wanted settings by port."""
    cables: Sequence[Cable] = ()
    """For the comparison with LLDP."""
    interfaces: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By node of the lab, its PFs."""
    vlans: Sequence[int] = ()
    global_lines: Sequence[str] = ()
    """Switch-wide commands to send this time."""
    save: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The result of `configure`."""

    before: Mapping[str, PortSettings]
    """By port, what was there before the change; of the asked fields."""
    found: Mapping[str, PortFacts]
    changed: tuple[str, ...]
    """`1/1 mtu_bytes 1500 => 9216` for each change that was made."""


async def observe(talk: Talk, dialect: Dialect, ports: Mapping[str, PortSettings]) -> dict[str, PortFacts]:
    """What the switch tells of these ports.

    Raises:
        AnswerError: when it cannot be read.
    """
    # the same question may concern several ports
    answers = {command: await talk.ask(command) for command in dict.fromkeys(dialect.questions(list(ports)))}
    return {port: dialect.facts(port, answers, wanted) for port, wanted in ports.items()}


def refusals(task: Task, found: Mapping[str, PortFacts]) -> list[str]:
    """Why rocelab must not change these ports, each with its remedy."""
    said = []
    for port, facts in found.items():
        owner = facts.settings.owner
        if owner not in (None, task.lab):
            said.append(
                f"{port} belongs to lab {owner} (its description is {facts.settings.description}); "
                "remove it from that lab, or clear the description on the switch"
            )
        elif facts.settings.mode not in LAYER_2 and not (port in task.ports and task.ports[port].mode is None):
            said.append(f"{port} is in mode {facts.settings.mode}, which has no VLANs; make it a switch port first")
        said += [f"{port} {fault}" for fault in facts.faults]
    heard = [(cable, found[cable.port].neighbour) for cable in task.cables if cable.port in found]
    wrong = [text for cable, neighbour in heard if (text := wrong_cable(cable, neighbour, task.interfaces))]
    return said + [f"{text}; correct switches[].ports, or move the cable" for text in wrong]


async def configure(talk: Talk, task: Task, keep: Backup, first: FirstTouch | None = None) -> Outcome:
    """Makes the ports as wanted; sends only what differs.

    Args:
        talk: with the switch.
        task: what is wanted.
        keep: takes the running configuration.
        first: remembers what was there before, for a next run that finds no state.

    Raises:
        NotOursError: before anything is changed.
        WrongValueError: when a value is not what was asked for afterwards; the old ones are put back first.
        RefusedError: when the switch does not take a command; likewise.
    """
    task = replace(task, sitting=await cleared(talk, task.switch, task.sitting))
    found = await observe(talk, task.dialect, task.ports)
    if said := refusals(task, found):
        raise NotOursError(f"{task.switch}: nothing was changed.\n" + "\n".join(f"  {line}" for line in said))
    known = first.read() if first else {}
    before = {port: _as_before_us(facts.settings, task.ports[port], known.get(port)) for port, facts in found.items()}
    needed = {port: list(differences(task.ports[port], facts.settings)) for port, facts in found.items()}
    needed = {port: each for port, each in needed.items() if each}
    if not needed and not task.global_lines:
        return Outcome(before=before, found=found, changed=())
    keep(await talk.ask(task.dialect.backup()))
    if first:
        first.add({port: before[port] for port in needed if port in known or not found[port].settings.owner})
    fields = {port: frozenset(each.field for each in found_) for port, found_ in needed.items()}
    lines = _lines(task, {port: task.ports[port] for port in needed}, fields)
    try:
        await _send(talk, task.sitting, lines)
        after = await _verified(talk, task)
    except (RefusedError, WrongValueError, AnswerError) as error:
        # what ran until now: `before` is what was there before the lab, for the day when it gives the port up
        running = {port: found[port].settings.narrowed(frozenset(task.ports[port].fields())) for port in needed}
        back = await _take_back(talk, task, running, fields, error)
        raise type(error)(f"{error}\n{back}") from None
    for command in (*task.sitting.confirm, *(task.sitting.save if task.save else ())):
        await talk.ask(command)
    changed = tuple(f"{port} {each.field} {each.found} => {each.asked}" for port, of in needed.items() for each in of)
    return Outcome(before=before, found=after, changed=changed)


async def restore(talk: Talk, task: Task, before: Mapping[str, PortSettings]) -> list[str]:
    """Puts ports back to what was there before us; those that another lab has taken meanwhile stay. What was done.

    Raises:
        WrongValueError: when a port does not come back.
    """
    task = replace(task, sitting=await cleared(talk, task.switch, task.sitting))
    found = await observe(talk, task.dialect, before)
    ours = {port: old for port, old in before.items() if found[port].settings.owner == task.lab}
    fields = {
        port: frozenset(each.field for each in differences(old, found[port].settings)) for port, old in ours.items()
    }
    needed = {port: ours[port] for port, names in fields.items() if names}
    if not needed:
        return []
    plain = _port_lines(task.dialect, needed, fields)
    await _send(talk, task.sitting, plain)
    after = await observe(talk, task.dialect, needed)
    _refuse_wrong(task.switch, needed, after)
    for command in (*task.sitting.confirm, *(task.sitting.save if task.save else ())):
        await talk.ask(command)
    return [f"{port}: restored" for port in needed]


def merged(before: Mapping[str, PortSettings], now: Mapping[str, PortSettings]) -> dict[str, PortSettings]:
    """The earliest known settings per port."""
    return {port: completed(before.get(port), settings) for port, settings in now.items()}


def _as_before_us(found: PortSettings, wanted: PortSettings, known: PortSettings | None) -> PortSettings:
    """What to put back one day. Our marker without a state: what it replaced is remembered, or nobody knows it."""
    asked = found.narrowed(frozenset(wanted.fields()))
    if not asked.owner:
        return asked
    return completed(known, asked) if known else asked.model_copy(update={"description": ""})


def _lines(task: Task, wanted: Mapping[str, PortSettings], fields: Mapping[str, frozenset[str]]) -> list[str]:
    names = frozenset(name for each in fields.values() for name in each)
    lines = task.dialect.vlan_lines(task.vlans) if "vlans" in names else []
    lines += task.dialect.shared_lines(list(wanted.values())) if names - {"description", "vlans", "mtu_bytes"} else []
    return [*lines, *task.global_lines, *_port_lines(task.dialect, wanted, fields)]


def _port_lines(
    dialect: Dialect, wanted: Mapping[str, PortSettings], fields: Mapping[str, frozenset[str]]
) -> list[str]:
    return [line for port, settings in wanted.items() for line in dialect.port_lines(port, settings, fields[port])]


async def _send(talk: Talk, sitting: Sitting, lines: Sequence[str]) -> None:
    try:
        for line in (*sitting.begin, *lines, *sitting.commit, *sitting.end):
            await talk.ask(line)
    except RefusedError:
        for line in sitting.cancel:
            await talk.ask(line)
        raise


async def _take_back(
    talk: Talk, task: Task, running: Mapping[str, PortSettings], fields: Mapping[str, frozenset[str]], error: LabError
) -> str:
    """Puts the values that ran until now back after a failure; in words, whether that worked."""
    if task.sitting.commit and isinstance(error, RefusedError):
        return "The switch refused it before anything took effect."
    try:
        if task.sitting.abandon:
            for command in task.sitting.abandon:
                await talk.ask(command)
        else:
            await _send(talk, task.sitting, _port_lines(task.dialect, running, fields))
    except (RefusedError, NoAnswerError) as again:
        return f"The old values could not be restored ({again}); they are in the backup."
    return "The old values were restored."


async def _verified(talk: Talk, task: Task) -> dict[str, PortFacts]:
    found = await observe(talk, task.dialect, task.ports)
    _refuse_wrong(task.switch, task.ports, found)
    return found


def _refuse_wrong(switch: str, asked: Mapping[str, PortSettings], found: Mapping[str, PortFacts]) -> None:
    wrong = [f"  {port} {each}" for port, of in asked.items() for each in differences(of, found[port].settings)]
    if wrong:
        more = [f"  and {len(wrong) - MOST_SHOWN} more"] if len(wrong) > MOST_SHOWN else []
        text = f"{switch} accepted the commands, but its settings differ:"
        raise WrongValueError("\n".join([text, *wrong[:MOST_SHOWN], *more]))

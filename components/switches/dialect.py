"""The base of every switch OS, errors of its dialogue, and what several OSes print alike."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import ClassVar, Literal

from pydantic import JsonValue

from components.switches.settings import (
    WATCHDOG,
    Announcement,
    Ecn,
    LearnedMac,
    PortFacts,
    PortSettings,
)
from stacks.base import LabError
from stacks.frozen import frozen
from stacks.qos import Qos
from stacks.switches import Switch

LLDPCTL = "sudo lldpctl -f json"

PERCENT = re.compile(r"^ *% *(.+)$", re.MULTILINE)
"""A refusal as Onyx and EOS print it: a line that begins with `%`."""

Object = dict[str, JsonValue]


class AnswerError(LabError):
    """A switch gave an answer that rocelab cannot read."""


def unmentioned(command: str, port: str, answer: str = "") -> AnswerError:
    """The error for an answer about a port that does not mention it."""
    shown = f": {answer.strip()[:80]!r}" if answer.strip() else ""
    return AnswerError(
        f"{command}: the answer does not mention {port}{shown}; "
        "check that the switch has a port of this name"
    )


class RefusedError(LabError):
    """A switch refused a command."""


class UnconfirmedError(LabError):
    """Another user's change waits for its confirmation."""


@frozen
class PendingChange:
    """An unfinished change, as the switch lists it."""

    name: str
    """How the switch identifies it: the name of a session, the number of a revision."""
    state: Literal["staged", "unconfirmed", "ended"]
    """unconfirmed: active, and reverted by the switch unless it is confirmed in time."""
    ours: bool = True
    """Whether an earlier run of this lab started it."""
    description: str = ""
    """User and message of the change."""


@frozen
class PendingChanges:
    """How unfinished changes are listed and ended."""

    listing: str
    drop: str
    """With `{}` for the name."""
    mark: str
    """Identifies changes of this lab."""
    read: Callable[[str, str], Sequence[PendingChange]]
    """Reads the relevant changes from the printed list; the mark identifies those of this lab."""


@frozen
class ConfigSession:
    """The commands around a change.

    They are sent in this order: hello, begin, the lines, commit, end; then, once the ports have
    been read again and are right, confirm and save.
    """

    talk: Literal["cli", "shell"]
    """cli: one interactive session, command by command; an answer is a refusal if `refusal` matches
    its first lines. shell: each command is a program of its own; an exit code other than 0 is a
    refusal."""
    refusal: re.Pattern[str] = PERCENT
    """cli: how the system refuses a command; the first group is the reason."""
    hello: Sequence[str] = ()
    """At the start of every session."""
    begin: Sequence[str] = ()
    commit: Sequence[str] = ()
    """Activates the change; the switch reverts it unless `confirm` follows in time."""
    confirm: Sequence[str] = ()
    end: Sequence[str] = ()
    """Leaves the configuration mode of a system without commit."""
    cancel: Sequence[str] = ()
    """Abandons a change after a refused command. Without `commit`, it must leave the configuration
    mode that `begin` entered, as in `onyx.py`: rocelab then sends the old values from the start."""
    abandon: Sequence[str] = ()
    """Reverts a committed change that is not confirmed. Empty: the system cannot, so rocelab sends
    the old values."""
    save: Sequence[str] = ()
    """Makes it survive a reboot."""
    name: str = ""
    """Name of the session in these commands; empty: the system has no names."""
    pending: PendingChanges | None = None
    """None: the system has no pending changes."""
    notes: Sequence[str] = field(default=())
    """Hints for a person who applies the text by hand."""


class Dialect(ABC):
    r"""One switch OS. Pure: text in, text out.

    What is not abstract is optional. `rocelab look` asks `port_list`, `lldp_table` and `mac_table`:
    what an OS leaves out is unknown in the inventory, with the reason.

    >>> class Toy(Dialect):
    ...     title = "Toy OS"
    ...     port_list = "show ports"
    ...
    ...     def listed_ports(self, answer):
    ...         return numbered(r"toy\d+", answer.split())
    ...
    ...     def vlan_lines(self, vlans):
    ...         return [f"vlan {vlan}" for vlan in vlans]

    What it still has to say:

    >>> sorted(Toy.__abstractmethods__)
    ['backup', 'checks', 'facts', 'global_lines', 'port_lines', 'questions', 'session']
    """

    title: ClassVar[str]
    """As people call the OS."""
    comment: ClassVar[str] = "#"
    """Begins a line that the OS ignores."""
    port_list: ClassVar[str] = ""
    """The command that lists all ports."""
    lldp_table: ClassVar[str] = ""
    """The command that shows the LLDP neighbors of all ports."""
    mac_table: ClassVar[str] = ""
    """The command that shows which MACs are learned on which ports."""
    knows_paused_priorities: ClassVar[bool] = True
    """Whether `facts` knows which priorities are paused, and not only that some are."""

    def __init__(self, switch: Switch) -> None:
        """An OS with settings of its own takes them from its model here."""
        self.allow_global = switch.allow_global

    @abstractmethod
    def session(self, lab: str, confirm_s: int) -> ConfigSession:
        """How a change begins, takes effect and ends."""

    @abstractmethod
    def vlan_lines(self, vlans: Sequence[int]) -> list[str]:
        """Creates VLANs, which may exist already."""

    @abstractmethod
    def port_lines(
        self, lab: str, port: str, settings: PortSettings, fields: frozenset[str]
    ) -> list[str]:
        """Sets these fields of a port. They have the names of `PortSettings.fields()`, such as
        `vlans` or `ecn_tc3`.

        On an OS with named profiles, the port refers to `settings.profiles` if `facts` read them:
        these are the earlier ones, empty for none, and the change is an undo. Otherwise it refers
        to the lab's own, as in `sonic.py`.
        """

    def usual(self, settings: PortSettings) -> frozenset[str]:
        """Fields that every switch has so from the start: the text leaves them out, the
        verification does not.
        """
        if settings.watchdog:
            return frozenset()
        return frozenset({WATCHDOG})

    def shared_lines(self, lab: str, settings: Sequence[PortSettings]) -> list[str]:
        """Creates named profiles that only the lab's ports use."""
        del lab, settings
        return []

    @abstractmethod
    def global_lines(self, qos: Qos) -> list[str]:
        """Switch-wide settings, sent only with `allow_global`."""

    def requirements(self, qos: Qos | None) -> list[str]:
        """What must be true of the switch before a person pastes the text. `facts` refuses what it
        can read of it.
        """
        del qos
        return []

    @abstractmethod
    def questions(self, ports: Sequence[str]) -> list[str]:
        """The commands whose answers `facts` reads."""

    @abstractmethod
    def facts(self, port: str, answers: Mapping[str, str], declared: PortSettings) -> PortFacts:
        """A port's settings; `declared` names the traffic classes and priorities to look at.

        Raises:
            AnswerError: naming the command, when its answer is not what this OS is known to print.
        """

    @abstractmethod
    def backup(self) -> str:
        """The command that prints the running configuration."""

    @abstractmethod
    def checks(self, ports: Sequence[str]) -> list[str]:
        """Commands for the person who applies the text by hand: the result, and the counters."""

    def listed_ports(self, answer: str) -> list[str]:
        """The ports in the answer to `port_list`."""
        del answer
        return []

    def chassis_id(self, answer: str) -> str:
        """The switch's own LLDP chassis ID in the answer to `port_list`; empty if it is not
        there.
        """
        del answer
        return ""

    def announcements(self, answer: str, port: str) -> list[Announcement]:
        """What LLDP heard on a port, from the answer to `lldp_table`."""
        del answer, port
        return []

    def neighbour(self, port: str, answers: Mapping[str, str]) -> Announcement | None:
        """The first neighbor on a port that announces its name.

        Raises:
            AnswerError: when the answer to `lldp_table` is not what this OS is known to print.
        """
        answer = answers.get(self.lldp_table, "")
        try:
            heard = []
            if answer.strip():
                heard = self.announcements(answer, port)
        except (ValueError, LookupError, TypeError, AttributeError, StopIteration) as error:
            raise AnswerError(f"{self.lldp_table}: the answer lacks {error}") from None
        for announcement in heard:
            if announcement.system:
                return announcement
        return None

    def learned_macs(self, answer: str) -> list[LearnedMac]:
        """The entries in the answer to `mac_table`."""
        del answer
        return []

    def speed_mbit_s(self, port: str, answers: Mapping[str, str]) -> int | None:
        """Speed of a port; None if the answers do not include it."""
        del port, answers
        return None


def ranges(text: str) -> list[str]:
    """The parts of `111,200-210`."""
    return [part for part in text.replace(" ", "").split(",") if part]


def normal_ranges(numbers: Sequence[int]) -> str:
    """Numbers as sorted text with ranges, so that the same VLANs are the same text."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def numbers_in(text: str) -> list[int]:
    """All numbers of `111,200-210`; empty for what names none, as `none` or `N/A`."""
    numbers: list[int] = []
    for part in ranges(text):
        first, _, last = part.partition("-")
        if first.isdigit():
            end = last if last.isdigit() else first
            numbers += range(int(first), int(end) + 1)
    return numbers


def numbered(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that match, in the order of their numbers."""
    return sorted((name for name in names if re.fullmatch(pattern, name)), key=by_numbers)


def by_numbers(name: str) -> list[int]:
    """Sorts ports: `Ethernet2` is before `Ethernet10`."""
    return [int(number) for number in re.findall(r"\d+", name)]


def json_in(answers: Mapping[str, str], command: str) -> JsonValue:
    """The answer to a command as JSON; an empty answer is an empty object."""
    text = answers.get(command, "")
    try:
        document: JsonValue = json.loads(text) if text.strip() else {}
    except ValueError:
        raise AnswerError(f"{command}: answers {text.strip()[:80]!r} instead of JSON") from None
    return document


def number_of(value: JsonValue, where: str) -> int:
    """The number that a value such as `1500` or `1500 KB` begins with.

    Raises:
        AnswerError: with the value and `where`, the command and the key.
    """
    digits = re.match(r"\d+", str(value))
    if digits is None:
        raise AnswerError(f"{where} is {value!r} instead of a number")
    return int(digits[0])


def thresholds(profile: Object, low: str, high: str, command: str) -> Ecn:
    """The thresholds that a marking profile has in bytes, under these keys."""
    kbytes = []
    for key in (low, high):
        kbytes.append(number_of(profile.get(key, 0), f"{command}: {key}") // 1000)
    return Ecn(min_kbytes=kbytes[0], max_kbytes=kbytes[1])


def object_at(data: JsonValue, *path: str) -> Object:
    """The object at a path; an empty one when it is not there."""
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def lldpctl_announcements(text: str, port: str) -> list[Announcement]:
    """All that `lldpctl -f json` heard on a port."""
    interfaces = []
    if text.strip():
        interfaces = json.loads(text)["lldp"].get("interface", [])
    announcements = []
    # one interface is an object, several are a list of objects; the same for the neighbors of one
    for by_interface in interfaces if isinstance(interfaces, list) else [interfaces]:
        if port not in by_interface:
            continue
        chassis, about = by_interface[port]["chassis"], by_interface[port]["port"]
        # a chassis without a name has no name around it
        system, of = ("", chassis) if "id" in chassis else next(iter(chassis.items()))
        announcements.append(
            Announcement(
                system=str(system),
                chassis_id=str(of.get("id", {}).get("value", "")),
                port_id=str(about["id"]["value"]),
                port_description=str(about.get("descr", "")),
            )
        )
    return announcements

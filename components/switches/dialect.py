"""What a switch's operating system must be able to say, and the errors of talking to it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from components.switches.settings import PortFacts, PortSettings
from stacks.base import LabError
from stacks.qos import Qos


class AnswerError(LabError):
    """An answer of a switch that cannot be read."""


class RefusedError(LabError):
    """A command that a switch does not take."""


class UnconfirmedError(LabError):
    """A change of somebody else that is in force for a while only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """A change that was begun on a switch, as the switch lists it."""

    name: str
    """By which the switch knows it: a session's name, a revision's number."""
    state: Literal["staged", "unconfirmed", "ended"]
    """unconfirmed: in force, and taken back by the switch unless somebody confirms it in time."""
    ours: bool = True
    """Whether an earlier run of this lab began it."""
    said: str = ""
    """What whoever began it wrote to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sessions:
    """How changes that were begun are listed, and ended from outside."""

    listing: str
    drop: str
    """With `{}` for the name."""
    mark: str
    """By which ours are known."""
    read: Callable[[str, str], Sequence[Left]]
    """Those of a printed list that matter here; the mark tells which are ours."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sitting:
    """The commands around a change."""

    talk: Literal["cli", "shell"]
    """cli: one interactive session, command by command. shell: each command is a program of its own."""
    hello: Sequence[str] = ()
    """At the begin of every session."""
    begin: Sequence[str] = ()
    commit: Sequence[str] = ()
    """Puts the change in force; the switch takes it back by itself unless `confirm` follows in time."""
    confirm: Sequence[str] = ()
    end: Sequence[str] = ()
    """Leaves the configuration mode where there is no commit."""
    cancel: Sequence[str] = ()
    """Leaves a change in the middle, after a command that was refused."""
    abandon: Sequence[str] = ()
    """Drops a committed change that is not confirmed. Empty: the system cannot, so the old values are sent."""
    save: Sequence[str] = ()
    """Makes it survive a reboot."""
    session: str = ""
    """Name of the session in these commands; empty: the system's sessions have none."""
    sessions: Sessions | None = None
    """None: the system keeps no change apart from what is in force."""
    notes: Sequence[str] = field(default=())
    """What whoever applies the text by hand should know."""


class Dialect(Protocol):
    """One operating system. Pure: text in, text out."""

    def sitting(self, lab: str, confirm_s: int) -> Sitting:
        """How a change begins, comes into force, and ends."""

    def vlan_lines(self, vlans: Sequence[int]) -> list[str]:
        """Makes VLANs that may be there already."""

    def port_lines(self, port: str, settings: PortSettings, fields: frozenset[str]) -> list[str]:
        """Makes these fields of a port so."""

    def usual(self, settings: PortSettings) -> frozenset[str]:
        """Fields that every switch has so from the start: the text leaves them out, the verification does not."""

    def shared_lines(self, settings: Sequence[PortSettings]) -> list[str]:
        """Named profiles that only our ports refer to."""

    def global_lines(self, qos: Qos) -> list[str]:
        """What concerns the whole switch: only with `allow_global`."""

    def questions(self, ports: Sequence[str]) -> list[str]:
        """The commands whose answers `facts` reads."""

    def facts(self, port: str, answers: Mapping[str, str], wanted: PortSettings) -> PortFacts:
        """What the answers tell of a port; `wanted` names traffic classes and priorities.

        Raises:
            AnswerError: when an answer is not what this system is known to print.
        """

    def backup(self) -> str:
        """The command that prints the running configuration."""

    def checks(self, ports: Sequence[str]) -> list[str]:
        """What whoever applies the text by hand looks at afterwards, counters included."""


def ranges(text: str) -> list[str]:
    """`111,200-210` by its parts."""
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
    found: list[int] = []
    for part in ranges(text):
        first, _, last = part.partition("-")
        if first.isdigit():
            found += range(int(first), int(last if last.isdigit() else first) + 1)
    return found

"""The Onyx command line, as far as a RoCE lab needs it. Pure, except for its panel."""

import re
from collections.abc import Callable

from simulator.part import SimulatorError
from simulator.switch import onyx_show
from simulator.switch.panel import Kept, Panel, Quality

Setter = Callable[["Console", str, re.Match[str]], None]

LARGEST_MTU_BYTES = 9216


class RefusedError(Exception):
    """An error that Onyx prints after a percent sign."""


class Console:
    """One session with its configuration mode."""

    def __init__(self, panel: Panel, name: str = "sim-sw1") -> None:
        self._panel = panel
        self._name = name
        self._enabled = False
        self._modes: list[str] = []
        """Configuration modes, the innermost last: `config`, `vlan 111`, `interface ethernet 1/1`."""
        self.closed = False

    @property
    def prompt(self) -> str:
        """As Onyx has it."""
        mode = "" if not self._modes else f"({' '.join(['config', *self._modes[1:][-1:]])}) "
        return f"{self._name} [simulated: master] {mode}{'#' if self._enabled else '>'} "

    def answer(self, line: str) -> str:
        """The output of a line, which ends with a newline unless it is empty."""
        words = " ".join(line.split())
        try:
            said = self._act(words) if words else ""
        except (RefusedError, SimulatorError) as error:
            return f"% {error}\n"
        return f"{said}\n" if said else ""

    def _act(self, words: str) -> str:
        if words.startswith("show "):
            self._needs(self._enabled, words)
            return onyx_show.answer(self._panel, words)
        if words in ("enable", "exit", "configure terminal") or words.startswith(("no cli ", "cli ", "terminal ")):
            self._move(words)
            return ""
        self._needs(bool(self._modes) or words == "configuration write", words)
        self._configure(words)
        return ""

    def _move(self, words: str) -> None:
        if words == "enable":
            self._enabled = True
        elif words == "configure terminal":
            self._needs(self._enabled, words)
            self._modes = ["config"]
        elif words == "exit":
            self.closed = not self._modes
            self._modes = self._modes[:-1]

    def _configure(self, words: str) -> None:
        mode = self._modes[-1] if self._modes else ""
        if mode.startswith("interface ethernet") and not words.startswith("interface "):
            words = f"{mode} {words}"
        if found := re.fullmatch(r"(no )?interface ethernet (\d+/\d+)(?:-(\d+/\d+))?(?: (.+))?", words):
            self._interface(found)
            return
        kept = self._panel.kept()
        self._switch_wide(words, kept)
        kept.saved = words == "configuration write"
        self._panel.keep(kept)

    def _interface(self, found: re.Match[str]) -> None:
        numbers = self._range(found[2], found[3] or found[2])
        if found[4] is None:
            self._modes = ["config", f"interface ethernet {found[2]}"]
            return
        line = f"no {found[4]}" if found[1] else found[4]
        for pattern, act in SETTINGS:
            if matched := re.fullmatch(pattern, line):
                for number in numbers:
                    act(self, number, matched)
                return
        raise RefusedError(f'Unrecognized command "{line}"')

    def _range(self, first: str, last: str) -> list[str]:
        low, high = int(first.split("/")[1]), int(last.split("/")[1])
        numbers = [f"1/{number}" for number in range(low, high + 1)]
        if unknown := [number for number in numbers if number not in self._panel.ports()]:
            raise RefusedError(f"Invalid interface ethernet {unknown[0]}")
        return numbers

    def _switch_wide(self, words: str, kept: Kept) -> None:
        if found := re.fullmatch(r"vlan (\d+)", words):
            if not 1 <= int(found[1]) <= 4094:
                raise RefusedError(f"VLAN {found[1]} is not in the range 1 to 4094")
            kept.vlans = sorted({*kept.vlans, int(found[1])})
            self._modes = ["config", f"vlan {found[1]}"]
        elif words in ("lldp", "no lldp"):
            kept.lldp = words == "lldp"
        elif words in ("dcb priority-flow-control enable force", "no dcb priority-flow-control enable force"):
            kept.pfc_enabled = not words.startswith("no ")
        elif found := re.fullmatch(r"dcb priority-flow-control priority ([0-7]) enable", words):
            kept.pfc_priorities = sorted({*kept.pfc_priorities, int(found[1])})
        elif re.fullmatch(r"traffic pool \S+ (type \S+|memory percent [\d.]+|map switch-priority [0-7])", words):
            kept.extra = sorted({*kept.extra, words})
        elif words != "configuration write":
            raise RefusedError(f'Unrecognized command "{words}"')

    def _needs(self, allowed: bool, words: str) -> None:
        if not allowed:
            raise RefusedError(f'Unrecognized command "{words}"')

    def change(self, number: str, edit: Callable[[Quality], None]) -> None:
        """Changes a port's stored settings."""
        kept = self._panel.kept()
        edit(kept.ports.setdefault(number, Quality()))
        kept.saved = False
        self._panel.keep(kept)

    def carry(self, number: str, **change: object) -> None:
        """Changes what moves frames."""
        self._panel.set(number, **change)

    def tagged(self, number: str) -> set[int]:
        """The VLANs that a port carries tagged."""
        return set(self._panel.ports()[number].config.tagged_vlans)

    def known_vlan(self, vlan: int) -> int:
        """The VLAN, if it exists."""
        if vlan not in onyx_show.known_vlans(self._panel):
            raise RefusedError(f"VLAN {vlan} does not exist")
        return vlan


def _mode(console: Console, number: str, found: re.Match[str]) -> None:
    if found[1] == "access":
        console.carry(number, tagged_vlans=[])
    console.change(number, lambda port: setattr(port, "mode", found[1]))


def _native(console: Console, number: str, found: re.Match[str]) -> None:
    console.carry(number, native_vlan=console.known_vlan(int(found[1])))


def _allowed(console: Console, number: str, found: re.Match[str]) -> None:
    how, what = found[1], found[2]
    first, _, last = what.partition("-")
    named = (
        {console.known_vlan(vlan) for vlan in range(int(first), int(last or first) + 1)} if what != "none" else set()
    )
    before = console.tagged(number)
    now = before | named if how == "add " else before - named if how == "remove " else named
    console.carry(number, tagged_vlans=sorted(now))


def _mtu(console: Console, number: str, found: re.Match[str]) -> None:
    if not found[2]:
        raise RefusedError("The port must be shut down to change its MTU; use force")
    if not 1500 <= int(found[1]) <= LARGEST_MTU_BYTES:
        raise RefusedError(f"MTU {found[1]} is not in the range 1500 to {LARGEST_MTU_BYTES}")
    console.carry(number, mtu_bytes=int(found[1]))


def _describe(console: Console, number: str, found: re.Match[str]) -> None:
    text = "" if found[0] == "no description" else found[1]
    console.change(number, lambda port: setattr(port, "description", text))


def _trust(console: Console, number: str, found: re.Match[str]) -> None:
    console.change(number, lambda port: setattr(port, "trust", found[1]))


def _map(console: Console, number: str, found: re.Match[str]) -> None:
    console.change(number, lambda port: port.dscp.update({found[1]: int(found[2])}))


def _mark(console: Console, number: str, found: re.Match[str]) -> None:
    low, high = int(found[2]), int(found[3])
    if low > high:
        raise RefusedError("minimum threshold is larger than the maximum one")
    console.change(number, lambda port: port.ecn.update({found[1]: (low, high)}))


def _mark_not(console: Console, number: str, found: re.Match[str]) -> None:
    def edit(port: Quality) -> None:
        port.ecn.pop(found[1], None)

    console.change(number, edit)


def _pause(console: Console, number: str, found: re.Match[str]) -> None:
    console.change(number, lambda port: setattr(port, "pfc", not found[0].startswith("no ")))


def _schedule(console: Console, number: str, found: re.Match[str]) -> None:
    console.change(number, lambda port: port.scheduling.update({found[1]: found[2]}))


SETTINGS: tuple[tuple[str, Setter], ...] = (
    (r"switchport mode (access|hybrid)", _mode),
    (r"switchport access vlan (\d+)", _native),
    (r"switchport hybrid allowed-vlan (add |remove |)(\d+|\d+-\d+|none)", _allowed),
    (r"mtu (\d+)( force)?", _mtu),
    (r"description (\S{1,63})|no description", _describe),
    (r"qos trust (L2|L3|both|port)", _trust),
    (r"qos map dscp ([0-9]|[1-5][0-9]|6[0-3]) to switch-priority ([0-7])", _map),
    (r"traffic-class ([0-7]) congestion-control ecn minimum-absolute (\d+) maximum-absolute (\d+)", _mark),
    (r"no traffic-class ([0-7]) congestion-control", _mark_not),
    (r"dcb priority-flow-control mode on force|no dcb priority-flow-control mode force", _pause),
    (r"traffic-class ([0-7]) dcb ets (strict|wrr \d+)", _schedule),
)
"""The settings of a port and their functions."""

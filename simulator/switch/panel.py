"""The front panel: ports by the numbers that Onyx gives them, and what is set on them.

VLANs and MTU are the frame switch's own and work. Everything else is kept and shown, and has no effect on frames.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from simulator.switch.client import PortState

PORTS_A_NODE = 4
"""A node has at most four NICs, so its ports keep their numbers whatever the lab."""
TRAFFIC_CLASSES = range(8)
DEFAULT_WEIGHT = 12


@dataclass
class Quality:
    """What a port keeps and shows: emulated."""

    description: str = ""
    mode: str = ""
    """Empty: nobody has set it, so it follows from the VLANs."""
    trust: str = "L2"
    dscp: dict[str, int] = field(default_factory=dict)
    """Code points that are not mapped by their upper three bits."""
    ecn: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By traffic class, the thresholds in KB."""
    pfc: bool = False
    scheduling: dict[str, str] = field(default_factory=dict)
    """By traffic class, `strict` or `wrr <weight>`."""


@dataclass
class Kept:
    """What the switch keeps beside the frame switch's ports."""

    vlans: list[int] = field(default_factory=list)
    pfc_enabled: bool = False
    pfc_priorities: list[int] = field(default_factory=list)
    lldp: bool = True
    extra: list[str] = field(default_factory=list)
    """Switch-wide lines that are kept as they came."""
    ports: dict[str, Quality] = field(default_factory=dict)
    saved: bool = False


class Frames(Protocol):
    """The part that moves frames."""

    def show(self) -> list[PortState]:
        """All ports."""

    def set(self, node: str, nic: str, **change: object) -> PortState:
        """Changes a port."""


class Panel:
    """Ports by number. What is kept lies in a file, so that it outlives the process and a reset only removes it."""

    def __init__(self, frames: Frames, file: Path) -> None:
        self._frames = frames
        self._file = file

    def ports(self) -> dict[str, PortState]:
        """The frame switch's ports by number, as `1/5` for the first NIC of the second machine."""
        seen: dict[str, int] = {}
        found = {}
        for port in self._frames.show():
            position = seen[port.node] = seen.get(port.node, 0) + 1
            number = int("".join(letter for letter in port.node if letter.isdigit()) or 1)
            found[f"1/{PORTS_A_NODE * (number - 1) + position}"] = port
        return found

    def set(self, number: str, **change: object) -> None:
        """Changes what moves frames."""
        port = self.ports()[number]
        self._frames.set(port.node, port.nic, **change)

    def kept(self) -> Kept:
        """What is kept."""
        try:
            content: dict[str, Any] = json.loads(self._file.read_text())
        except FileNotFoundError:
            return Kept()
        ports = {
            name: Quality(**{**one, "ecn": {tc: tuple(of) for tc, of in one["ecn"].items()}})
            for name, one in content.pop("ports").items()
        }
        return Kept(**content, ports=ports)

    def keep(self, kept: Kept) -> None:
        """Keeps it."""
        unfinished = self._file.with_suffix(".partial")
        unfinished.write_text(json.dumps(asdict(kept)))
        unfinished.replace(self._file)

    def quality(self, number: str) -> Quality:
        """What is kept of a port."""
        return replace(self.kept().ports.get(number, Quality()))

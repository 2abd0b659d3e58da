"""The front panel: ports by Onyx's numbers, and their settings.

VLANs and MTU work: the frame switch applies them. All other settings are stored and shown, without effect on frames.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from simulator.switch.client import PortState

PORTS_A_NODE = 4
"""A node has at most four NICs, so port numbers do not depend on the lab."""
TRAFFIC_CLASSES = range(8)
DEFAULT_WEIGHT = 12


@dataclass
class Quality:
    """Emulated settings of a port: stored and shown."""

    description: str = ""
    mode: str = ""
    """Empty if not set; then it follows from the VLANs."""
    trust: str = "L2"
    dscp: dict[str, int] = field(default_factory=dict)
    """Code points with another mapping than by their upper three bits."""
    ecn: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Thresholds in KB by traffic class."""
    pfc: bool = False
    scheduling: dict[str, str] = field(default_factory=dict)
    """`strict` or `wrr <weight>` by traffic class."""


@dataclass
class Kept:
    """Stored settings other than those of the frame switch."""

    vlans: list[int] = field(default_factory=list)
    pfc_enabled: bool = False
    pfc_priorities: list[int] = field(default_factory=list)
    lldp: bool = True
    extra: list[str] = field(default_factory=list)
    """Switch-wide lines, stored unchanged."""
    ports: dict[str, Quality] = field(default_factory=dict)
    saved: bool = False


class Frames(Protocol):
    """The part that moves frames."""

    def show(self) -> list[PortState]:
        """All ports."""

    def set(self, node: str, nic: str, **change: object) -> PortState:
        """Changes a port."""


class Panel:
    """Ports by number. Stored settings are in a file, which outlives the process; a reset removes the file."""

    def __init__(self, frames: Frames, file: Path) -> None:
        self._frames = frames
        self._file = file

    def ports(self) -> dict[str, PortState]:
        """The frame switch's ports by number: `1/5` is the first NIC of the second machine."""
        seen: dict[str, int] = {}
        found = {}
        for port in self._frames.show():
            position = seen[port.node] = seen.get(port.node, 0) + 1
            number = int("".join(letter for letter in port.node if letter.isdigit()) or 1)
            found[f"1/{PORTS_A_NODE * (number - 1) + position}"] = port
        return found

    def set(self, number: str, **change: object) -> None:
        """Changes a port of the frame switch."""
        port = self.ports()[number]
        self._frames.set(port.node, port.nic, **change)

    def kept(self) -> Kept:
        """The stored settings."""
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
        """Stores settings."""
        unfinished = self._file.with_suffix(".partial")
        unfinished.write_text(json.dumps(asdict(kept)))
        unfinished.replace(self._file)

    def quality(self, number: str) -> Quality:
        """The stored settings of a port."""
        return replace(self.kept().ports.get(number, Quality()))

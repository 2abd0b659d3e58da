"""A client of the running switch."""

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from simulator.part import SimulatorError
from simulator.switch.commands import config_as_json, config_of
from simulator.switch.ports import PortConfig

_TIMEOUT_S = 10
FRONT_KEY, FRONT_KEPT = "host_key", "front.json"
"""Files of the SSH server, named here because its module takes half a second to import."""


@dataclass(frozen=True)
class PortState:
    """A port as the switch reports it."""

    node: str
    nic: str
    config: PortConfig
    changed: bool
    """Whether it differs from the lab's configuration."""
    counters: dict[str, int]
    stations: tuple[str, ...]
    lldp: dict[str, str] | None = None
    """The node's LLDP announcement: chassis, port, port_description and system."""


@dataclass(frozen=True)
class SwitchClient:
    """Sends requests over the control socket in the switch's folder."""

    folder: Path

    def show(self) -> list[PortState]:
        """All ports."""
        return _states(self._ask({"verb": "show"}))

    def ensure(self, ports: dict[tuple[str, str], PortConfig]) -> list[str]:
        """Sends the switch the lab's ports by node and NIC; returns the names of new ports."""
        entries = [{"node": node, "nic": nic, "home": config_as_json(home)} for (node, nic), home in ports.items()]
        return cast("list[str]", self._ask({"verb": "ensure", "ports": entries})["added"])

    def set(self, node: str, nic: str, **change: object) -> PortState:
        """Changes a port; the keywords are fields of `PortConfig`."""
        return _states(self._ask({"verb": "set", "node": node, "nic": nic, "change": change}))[0]

    def reset(self) -> None:
        """Resets every port to the lab's configuration."""
        self._ask({"verb": "reset"})

    def answers(self) -> bool:
        """Whether the switch runs and answers."""
        try:
            self.show()
        except SimulatorError:
            return False
        return True

    def _ask(self, request: dict[str, object]) -> dict[str, object]:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_TIMEOUT_S)
                directory = os.open(self.folder, os.O_PATH | os.O_DIRECTORY)
                try:  # a socket's path has at most 107 bytes
                    connection.connect(f"/proc/self/fd/{directory}/control.sock")
                finally:
                    os.close(directory)
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile("rb") as lines:
                    answer = cast("dict[str, object]", json.loads(lines.readline()))
        except (OSError, ValueError) as error:
            raise SimulatorError(f"the switch does not answer ({error}). Start it: sim up") from error
        if "error" in answer:
            raise SimulatorError(f"switch: {answer['error']}")
        return answer


def _states(answer: dict[str, object]) -> list[PortState]:
    return [
        PortState(
            node=port["node"],
            nic=port["nic"],
            config=config_of(port["config"]),
            changed=port["changed"],
            counters=port["counters"],
            stations=tuple(port["stations"]),
            lldp=port["lldp"],
        )
        for port in answer["ports"]  # type: ignore[attr-defined]  # sent by our own switch
    ]

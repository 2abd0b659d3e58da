"""Injects faults into the simulated vCenter over its control socket."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from simulator.part import SimulatorError

SOCKET = "control.sock"
ANSWER_S = 10


@dataclass(frozen=True)
class Guest:
    """A VM that is on, with the data that its guest sees."""

    name: str
    address: str
    guestinfo: Mapping[str, str]


class _UnixConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ANSWER_S)
        self._path = path

    def connect(self) -> None:
        """Connects to the socket's path instead of a host."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(ANSWER_S)
        self.sock.connect(str(self._path))


class Control:
    """Controls a simulated vCenter outside its API."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fault(self, kind: str, **given: object) -> None:
        """Injects a fault: expire [method]; slow method, seconds; refuse method, privilege.

        Faults that stop a run half-way: meanwhile method, does: another user acts before a call (`host`: a change as
        below, `delete`: a VM, `leave`: host and switch); untold: a copy succeeds, but a timeout is reported;
        customise: a guest gets no name and addresses. `times` limits the number of affected calls.
        """
        self._ask("POST", "/faults", {"kind": kind, **given})

    def change_host(self, name: str, **given: object) -> None:
        """Changes a host as its administrator could: build, nic with link_mbit or nic_switch, and others."""
        self._ask("POST", "/hosts", {"name": name, **given})

    def clear(self) -> None:
        """Ends all faults; changes to hosts stay."""
        self._ask("DELETE", "/faults")

    def hold(self, method: str) -> None:
        """Holds calls of that name before they do anything, so that the caller can be killed during one."""
        self._ask("PUT", f"/holds/{method}")

    def held(self) -> dict[str, int]:
        """The number of held calls by name."""
        return {str(name): int(count) for name, count in json.loads(self._ask("GET", "/holds")).items()}

    def release(self) -> None:
        """Ends all holds. Held calls are refused, not executed, because their callers may be gone."""
        self._ask("DELETE", "/holds")

    def calls(self) -> dict[str, int]:
        """The number of calls by name since the start."""
        return {str(name): int(count) for name, count in json.loads(self._ask("GET", "/calls")).items()}

    def guests(self) -> list[Guest]:
        """The VMs that are on and have an address."""
        return [Guest(**found) for found in json.loads(self._ask("GET", "/guests"))]

    def _ask(self, verb: str, path: str, given: Mapping[str, object] | None = None) -> str:
        connection = _UnixConnection(self._path)
        try:
            connection.request(verb, path, json.dumps(given) if given is not None else None)
            answer = connection.getresponse()
            text = answer.read().decode()
        except OSError as error:
            raise SimulatorError(
                f"the simulated vCenter does not answer on {self._path} ({error}). Run: sim up"
            ) from None
        finally:
            connection.close()
        if answer.status != 200:
            raise SimulatorError(f"the simulated vCenter refuses it: {text.strip()}")
        return text

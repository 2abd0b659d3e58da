"""Asks the simulated vCenter to go wrong, over the unix socket that it listens on for that."""

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
    """A VM that is on, as its guest sees it."""

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
    """What may be done to a simulated vCenter beside its API."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fault(self, kind: str, **given: object) -> None:
        """Asks for one fault: expire [method]; slow method, seconds; refuse method, privilege; revoke privilege.

        Or for what stops a run half-way: meanwhile method, does: somebody else is quicker than a call (`host`: a change
        as below, `delete`: a VM, `leave`: host and switch); untold: a copy is made, and a timeout told; customise: a
        guest gets no name and addresses. `times` limits how many calls it meets.
        """
        self._ask("POST", "/faults", {"kind": kind, **given})

    def change_host(self, name: str, **given: object) -> None:
        """Does to a host what an administrator did: build, nic with link_mbit or nic_switch, and others."""
        self._ask("POST", "/hosts", {"name": name, **given})

    def clear(self) -> None:
        """Ends all faults; hosts stay as they were changed."""
        self._ask("DELETE", "/faults")

    def hold(self, method: str) -> None:
        """Keeps calls of that name waiting before anything is done, so that their caller can be killed within one."""
        self._ask("PUT", f"/holds/{method}")

    def held(self) -> dict[str, int]:
        """How many calls wait, by the names that are held."""
        return {str(name): int(count) for name, count in json.loads(self._ask("GET", "/holds")).items()}

    def release(self) -> None:
        """Holds nothing more. Calls that were held are refused, not done: their callers may be gone."""
        self._ask("DELETE", "/holds")

    def calls(self) -> dict[str, int]:
        """How often each call was made since the start."""
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

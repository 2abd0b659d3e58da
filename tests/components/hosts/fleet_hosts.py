"""Hosts of a fleet: their records, what each answers, and one run over them."""

import asyncio
import json
from typing import Any

from components.hosts.calls import Crew, Report
from components.hosts.fleet import Fleet, FleetInputs, FleetState
from components.hosts.records import HostRecord
from components.hosts.repair import Outcome, converge
from components.provider.base import Failure, ProviderConfig
from components.ssh.connection import Endpoint, NoAnswerError
from simulator.hosts.fields import conforming
from stacks.hosts import HostPolicy


def record(name: str, number: int, state: str = "active", **changes: Any) -> HostRecord:
    document = {
        "schema": 1,
        "lab": "lab",
        "host": name,
        "management_interface": "enp0s3",
        "modules": ["ib_umad"],
        "rdma_namespaces": changes.pop("rdma_namespaces", "shared"),
        "revert_after_s": 120,
        "pfs": [
            {
                "interface": "enp5s0",
                "driver": "igb",
                "address": f"10.10.11.{number}/24",
                "mtu_bytes": changes.pop("mtu_bytes", 9000),
                "vfs": 4,
                "rdma_device": "rxe0",
                "soft_roce": True,
            }
        ],
    }
    where = Endpoint(address="127.0.0.1", port=2200 + number, user="nvidia", host_key="ssh-ed25519 AAAA")
    return HostRecord(state=state, endpoint=where, fields=conforming(document), document=document, **changes)


TOO_OLD = {"step": "program", "reason": "python3 is 3.6 here, and this program needs 3.8", "hint": "install one"}


class FakeHosts:
    """Hosts by port: what each reports, and what was asked of them."""

    def __init__(self) -> None:
        self.fields: dict[int, dict[str, Any]] = {}
        self.machine: dict[int, str] = {}
        self.boots: dict[int, int] = {}
        self.silent: set[int] = set()
        self.stubborn: dict[int, dict[str, str]] = {}
        self.pending_reboot: set[int] = set()
        self.calls: list[tuple[str, int, Any]] = []
        self.peers_answer = True
        self.facts: dict[int, dict[str, Any]] = {}
        self.too_old: set[int] = set()
        """Hosts whose python3 runs no program of ours: their answer is all that there is."""

    def knows(self, one: HostRecord, **drift: Any) -> None:
        port = one.endpoint.port
        self.fields[port] = {**one.fields, **drift}
        self.machine.setdefault(port, f"machine-{port}")
        self.boots[port] = 0

    async def call(self, endpoint: Endpoint, verb: str, document: dict[str, Any]) -> Report:
        port = endpoint.port
        self.calls.append((verb, port, document.get("only")))
        if port in self.silent:
            raise NoAnswerError(f"127.0.0.1:{port} gave no answer in time")
        if port in self.too_old:
            return Report(host="", failed=TOO_OLD)
        failed = None
        if verb == "apply":
            failed = self.stubborn.get(port)
            if failed is None:
                target = conforming(document)
                only = set(document["only"]) - ({"rdma_namespaces"} if port in self.pending_reboot else set())
                self.fields[port].update({key: value for key, value in target.items() if key in only})
        if verb == "undo":
            failed = self.stubborn.get(port)
        waits = port in self.pending_reboot and self.fields[port]["rdma_namespaces"] != document["rdma_namespaces"]
        return Report(
            host=str(document["host"]),
            needs_reboot=["rdma_namespaces shared => exclusive"] if waits else [],
            facts={
                "machine_id": self.machine.get(port, ""),
                "boot_id": str(self.boots.get(port)),
                "carrier": {},
                **self.facts.get(port, {}),
            },
            fields=dict(self.fields.get(port, {})),
            failed=failed,
        )

    async def run(self, endpoint: Endpoint, command: str, sent: str = "", answer_s: float = 0) -> str:
        port = endpoint.port
        self.calls.append(("run", port, command.split()[3] if "sudo" in command else command))
        if "reboot" in command:
            self.boots[port] += 1
            self.pending_reboot.discard(port)
            self.fields[port]["rdma_namespaces"] = "exclusive"
        if "ping" in command and not self.peers_answer:
            raise NoAnswerError("no reply")
        return "active\n"

    def verbs(self, port: int) -> list[str]:
        return [verb for verb, asked, _ in self.calls if asked == port]


def crew(hosts: FakeHosts, said: list[str], **policy: Any) -> Crew:
    return Crew(hosts=hosts, policy=HostPolicy(**policy), say=said.append)  # type: ignore[arg-type]


def converged(crew_: Crew, olds: dict[str, HostRecord], news: dict[str, HostRecord], facts: Any = None) -> Outcome:
    return asyncio.run(converge(crew_, olds, news, facts or {}))


class FleetRun:
    """The Fleet as the server calls it: what it returns travels as plain properties."""

    def __init__(self, settings: dict[str, object] | None = None) -> None:
        self._fleet = Fleet(ProviderConfig(settings or {}))

    def check(self, old: FleetInputs | None, new: FleetInputs) -> list[Failure]:
        return asyncio.run(self._fleet.check(old, new))

    def diff(self, old: FleetState, new: FleetInputs) -> list[str]:
        return asyncio.run(self._fleet.diff(old, new))

    def create(self, new: FleetInputs) -> FleetState:
        return stored(asyncio.run(self._fleet.create(new)))

    def read(self, old: FleetState) -> tuple[FleetState, FleetInputs]:
        state = asyncio.run(self._fleet.read(old))
        return stored(state), self._fleet.inputs_of(state)

    def update(self, old: FleetState, new: FleetInputs) -> FleetState:
        return stored(asyncio.run(self._fleet.update(old, new)))

    def delete(self, old: FleetState) -> None:
        asyncio.run(self._fleet.delete(old))


def stored(state: FleetState) -> FleetState:
    """The state as the next run reads it."""
    return FleetState.model_validate(json.loads(json.dumps(state.plain())))


def inputs(*records: HostRecord, **policy: Any) -> FleetInputs:
    hosts = {str(one.document["host"]): one for one in records}
    return FleetInputs(hosts=hosts, policy=HostPolicy(**policy), vf_layout="abc")


def unread(new: FleetInputs) -> FleetState:
    """The state of hosts that conform, without facts."""
    return FleetState(**dict(new), results={}, facts={})

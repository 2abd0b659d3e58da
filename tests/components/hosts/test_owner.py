"""A host that a second stack asks to change: refused by the host itself, with the owner's name."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document
from components.hosts.program.main import perform
from components.hosts.program.places import OWNER_FILE, copy_of
from stacks.lab import Lab
from tests.components.hosts.fleet_hosts import FakeHosts, converged, crew, record
from tests.components.hosts.kernel import FakeHost

OURS, THEIRS = "lab lab of stack lab", "lab other of stack dgx"


@pytest.fixture
def machine(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path)


@pytest.fixture
def document(lab: Lab) -> dict[str, Any]:
    return {**host_document(lab, lab.nodes[0]), "owner": OURS}


def asked(machine: FakeHost, verb: str, document: dict[str, Any]) -> dict[str, Any]:
    return perform(verb, machine, json.dumps(document), b"program")


def test_the_first_stack_that_changes_a_host_is_its_owner(machine: FakeHost, document: dict[str, Any]) -> None:
    assert asked(machine, "apply", document)["failed"] is None

    assert machine.read(OWNER_FILE) == OURS
    assert asked(machine, "apply", document)["failed"] is None


def test_a_stack_that_is_refused_leaves_the_owners_program_and_a_newer_one_of_the_owner_takes_it_away(
    machine: FakeHost, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "nvidia")
    machine.put("/etc/passwd", "nvidia:x:1000:1000::/home/nvidia:/bin/bash\n")
    home = "/home/nvidia"
    ours, newer = (f"{home}/{copy_of(hashlib.sha256(text).hexdigest())}" for text in (b"program", b"newer"))
    for path in (ours, newer, f"{home}/notes"):
        machine.put(path, "x")
    perform("apply", machine, json.dumps(document), b"program")
    machine.put(newer, "x")

    perform("apply", machine, json.dumps({**document, "owner": THEIRS}), b"newer")
    assert machine.exists(ours)

    perform("apply", machine, json.dumps(document), b"newer")
    assert [machine.exists(path) for path in (ours, newer, f"{home}/notes")] == [False, True, True]


@pytest.mark.parametrize("verb", ["apply", "confirm", "undo"])
def test_another_stack_is_refused_with_the_owners_name_before_anything_changes(
    machine: FakeHost, document: dict[str, Any], verb: str
) -> None:
    asked(machine, "apply", document)
    state = {path: path.read_bytes() for path in machine.folder.rglob("*") if path.is_file()}
    machine.commands.clear()

    report = asked(machine, verb, {**document, "owner": THEIRS})

    assert report["failed"]["step"] == "owner"
    assert OURS in report["failed"]["reason"]
    assert OWNER_FILE in report["failed"]["hint"]
    assert machine.commands == []
    assert {path: path.read_bytes() for path in machine.folder.rglob("*") if path.is_file()} == state


def test_looking_is_allowed_to_everybody(machine: FakeHost, document: dict[str, Any]) -> None:
    asked(machine, "apply", document)

    assert asked(machine, "probe", {**document, "owner": THEIRS})["failed"] is None


def test_a_host_that_was_handed_over_belongs_to_the_next_and_keeps_what_was_before_both(
    machine: FakeHost, document: dict[str, Any]
) -> None:
    asked(machine, "apply", document)
    machine.remove(OWNER_FILE)

    assert asked(machine, "apply", {**document, "owner": THEIRS})["failed"] is None
    assert asked(machine, "undo", {**document, "owner": THEIRS})["failed"] is None

    assert machine.links["enp5s0"]["mtu"] == 1500
    assert not machine.exists(OWNER_FILE)


def test_what_runs_at_boot_needs_no_owner(machine: FakeHost, document: dict[str, Any]) -> None:
    asked(machine, "apply", {**document, "owner": THEIRS})
    asked(machine, "confirm", {**document, "owner": THEIRS})

    assert asked(machine, "boot", document)["failed"] is None


class Foreign(FakeHosts):
    """Hosts of another stack."""

    async def call(self, endpoint: Any, verb: str, document: Any) -> Any:
        report = await super().call(endpoint, verb, document)
        if verb != "probe":
            report = type(report)(host=report.host, failed={"step": "owner", "reason": f"belongs to {THEIRS}"})
        return report


def test_the_fleet_asks_a_foreign_host_once_and_reports_its_owner() -> None:
    hosts, one = Foreign(), record("gpu01", 1)
    hosts.knows(one)

    outcome = converged(crew(hosts, []), {}, {"gpu01": one})

    assert hosts.verbs(2201) == ["confirm"]
    assert outcome.results["gpu01"]["status"] == "failed"
    assert THEIRS in outcome.results["gpu01"]["reason"]


def test_a_foreign_host_that_leaves_holds_no_destroy_up() -> None:
    hosts, one = Foreign(), record("gpu01", 1)
    hosts.knows(one)

    outcome = converged(crew(hosts, []), {"gpu01": one}, {})

    assert outcome.results["gpu01"]["status"] == "undone"
    assert THEIRS in outcome.results["gpu01"]["reason"]

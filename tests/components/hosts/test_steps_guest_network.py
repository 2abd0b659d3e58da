"""A rail's address in the guest's own configuration, with each of the tools that guests have.

What netplan renders was recorded from netplan 0.106; how the services answer is written after their manuals.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document
from components.hosts.program import guest
from components.hosts.program.machine import Done
from components.hosts.program.main import perform
from components.hosts.program.places import NETWORK_MANAGER_FILE, REVERT_FILE
from components.hosts.program.revert import revert
from components.hosts.records import target_fields
from stacks.lab import Lab
from tests.components.hosts.kernel import addresses
from tests.components.hosts.network_guest import ADDRESS, OTHERS, NetworkGuest
from tests.messages import states


@pytest.fixture(params=["netplan-networkd", "netplan-NetworkManager", "nmcli"])
def machine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NetworkGuest:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return NetworkGuest(tmp_path, request.param)


@pytest.fixture
def document(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = host_document(lab, lab.nodes[0])
    section = {"tool": "auto", "peers": {"enp5s0": "10.10.11.12"}}
    return {**found, "pfs": found["pfs"][:1], "guest_network": section}


def run(verb: str, machine: NetworkGuest, document: dict[str, Any]) -> dict[str, Any]:
    return perform(verb, machine, json.dumps(document), b"program")


def made(machine: NetworkGuest, document: dict[str, Any]) -> None:
    assert run("apply", machine, document)["failed"] is None
    run("confirm", machine, document)


def ours(machine: NetworkGuest) -> list[Path]:
    folders = (guest.NETPLAN, guest.PROFILES, guest.RUN_NETWORKS, guest.RUN_PROFILES)
    files = [path for folder in folders for path in (machine.folder / folder[1:]).glob("*")]
    return [path for path in files if "rocelab" in path.read_text() or "netplan-enp5s0" in path.name]


def test_network_manager_hears_that_the_rail_is_its_own_now(machine, document):
    machine.file("/usr/sbin/NetworkManager", "")
    made(machine, {key: value for key, value in document.items() if key != "guest_network"})
    assert "enp5s0" in machine.read(NETWORK_MANAGER_FILE), "our unit alone sets it, so nobody else is to touch it"

    made(machine, document)

    assert not machine.exists(NETWORK_MANAGER_FILE)
    taken = next((i for i, done in enumerate(machine.commands) if "connection up" in done), len(machine.commands))
    assert machine.commands.index("nmcli device set enp5s0 managed yes") < taken
    assert run("probe", machine, document)["fields"] == target_fields(document)


@pytest.mark.row("C 252-265")
def test_the_guest_keeps_the_address_and_a_second_run_finds_it_so(machine, document):
    made(machine, document)

    probed = run("probe", machine, document)
    assert probed["fields"] == target_fields(document)
    assert probed["fields"]["enp5s0.kept"] == "10.10.11.11/24 mtu 9000"
    assert addresses(machine.links["enp5s0"]) == [ADDRESS]
    assert probed["facts"]["guest_network"] == {"tool": machine.tool, "ping": {"enp5s0": "10.10.11.12 answers"}}
    assert run("apply", machine, document)["changed"] == []


def test_files_of_others_stay_as_they_are_and_no_command_is_for_another_interface(machine, document):
    path, text = OTHERS[machine.tool]

    made(machine, document)

    assert machine.content(path) == text.encode()
    assert "netplan apply" not in machine.commands, "it would set the management interface anew"
    assert [line for line in machine.commands if "enp0s3" in line] == []


def test_only_root_reads_what_root_alone_needs(machine, document):
    made(machine, document)

    for path in ours(machine):
        networkd = path.parent.as_posix().endswith(guest.RUN_NETWORKS)
        assert path.stat().st_mode & 0o777 == (0o644 if networkd else 0o600)


@pytest.mark.row("C 240")
def test_without_a_word_of_confirmation_files_and_address_go_again(machine, document):
    """The Bitfusion article's `netplan try`: 120 s, then everything is as before."""
    run("apply", machine, document)
    assert ours(machine)
    assert json.loads(machine.read(REVERT_FILE))["deadline_s"] > machine.now_s()

    machine.clock_s += 121
    assert revert(machine) == 0

    assert ours(machine) == []
    assert addresses(machine.links["enp5s0"]) == []
    assert machine.links["enp5s0"]["mtu"] == 1500


def test_an_unconfirmed_change_goes_back_to_the_address_that_was_confirmed(machine, document):
    made(machine, document)
    pf = {**document["pfs"][0], "address": "10.10.11.77/24"}
    assert run("apply", machine, {**document, "pfs": [pf]})["failed"] is None
    assert addresses(machine.links["enp5s0"]) == ["10.10.11.77/24"]

    machine.clock_s += 121
    revert(machine)

    assert addresses(machine.links["enp5s0"]) == [ADDRESS]
    assert "10.10.11.77" not in "".join(path.read_text() for path in ours(machine))


def test_a_file_altered_by_hand_is_seen_and_put_right(machine, document):
    made(machine, document)
    path = guest.plan_for(machine.tool, document["pfs"][0]).path
    machine.file(path, machine.read(path).replace("9000", "1500"))

    assert "altered" in run("probe", machine, document)["fields"]["enp5s0.kept"]
    made(machine, document)
    assert run("probe", machine, document)["fields"] == target_fields(document)


def test_what_is_ours_goes_with_the_host_and_with_the_wish(machine, document):
    made(machine, document)
    without = {key: value for key, value in document.items() if key != "guest_network"}

    assert run("apply", machine, without)["failed"] is None
    assert ours(machine) == []
    made(machine, document)
    assert run("undo", machine, document)["failed"] is None
    assert ours(machine) == []
    assert machine.exists(OTHERS[machine.tool][0])


def test_a_boot_leaves_the_guest_s_own_tool_alone(machine, document):
    made(machine, document)
    machine.commands.clear()

    assert run("boot", machine, document)["failed"] is None
    assert [line for line in machine.commands if re.match(r"netplan|nmcli (?!-t)|networkctl|ping", line)] == []


def test_a_tool_that_does_not_do_it_is_a_failure_with_the_way_back(machine, document):
    def lose(folder: str, pattern: str, other: str = "") -> Done:
        machine.links["enp5s0"]["addr_info"] = []
        return Done(0, "", "")

    machine._take = lose

    failed = run("apply", machine, document)["failed"]

    assert failed["step"] == "guest_network"
    assert f"received {ADDRESS}" in failed["reason"]
    assert states(failed["hint"], "removed", "confirmed")


@pytest.mark.row("C 236-239")
@pytest.mark.parametrize(
    "text",
    [
        "network:\n  ethernets:\n    enp5s0:\n      dhcp4: true\n",
        'network:\n  ethernets:\n    rails:\n      match: {macaddress: "52:54:00:00:01:05"}\n',
        "network:\n  ethernets:\n    rails:\n      match:\n        name: enp5*\n",
    ],
)
def test_an_interface_that_another_netplan_file_defines_is_refused(tmp_path, document, monkeypatch, text):
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    machine = NetworkGuest(tmp_path, "netplan-networkd")
    machine.file("/sys/class/net/enp5s0/address", "52:54:00:00:01:05\n")
    machine.file(
        "/etc/netplan/60-site.yaml", text.replace("match: {macaddress", "match:\n        macaddress").replace("}", "")
    )

    failed = run("apply", machine, document)["failed"]

    assert failed["step"] == "guest_network"
    assert states(failed["reason"], "/etc/netplan/60-site.yaml", "enp5s0")
    assert ours(machine) == []


def test_the_management_interface_is_never_given_to_a_tool(machine, document):
    pf = {**document["pfs"][0], "interface": "enp0s3"}

    failed = run("apply", machine, {**document, "pfs": [pf], "guest_network": {"tool": "auto", "peers": {}}})["failed"]

    assert failed["step"] == "link"
    assert states(failed["reason"], "enp0s3", "management interface")
    assert ours(machine) == []


def test_a_guest_with_none_of_the_tools_says_so(tmp_path, document, monkeypatch):
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    machine = NetworkGuest(tmp_path, "nmcli")
    machine.tool = "ifupdown"

    failed = run("apply", machine, document)["failed"]

    assert failed["step"] == "guest_network"
    assert states(failed["reason"], "netplan", "nmcli")


@pytest.mark.parametrize(
    ("answers", "frame_bytes", "told"),
    [
        (set(), 9000, ["not answer"]),
        ({"10.10.11.12"}, 1500, ["9000 bytes", "MTU"]),
    ],
)
def test_a_silent_peer_is_reported_and_fails_nothing(machine, document, answers, frame_bytes, told):
    """The other machine may be configured a second later than this one."""
    machine.peers, machine.frame_bytes = answers, frame_bytes

    assert run("apply", machine, document)["failed"] is None
    pinged = run("confirm", machine, document)["facts"]["guest_network"]["ping"]
    assert list(pinged) == ["enp5s0"]
    assert states(pinged["enp5s0"], "10.10.11.12", *told)

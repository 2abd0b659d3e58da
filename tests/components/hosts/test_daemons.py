"""The distribution's network daemons are told to leave rails alone: only where they are, and only what is needed."""

from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document
from components.hosts.program.daemons import drop_ins
from components.hosts.program.host import Host
from components.hosts.program.machine import Done
from components.hosts.program.places import (
    DAEMON_FILES,
    NETWORK_MANAGER_FILE,
    NETWORKD_DROP_INS,
    NETWORKD_FILE,
    REVERT_FILE,
)
from stacks.lab import Lab
from tests.components.hosts.host_runs import differing, made, run
from tests.components.hosts.router import Router, routed
from tests.messages import states

NETWORK_MANAGER = "/usr/sbin/NetworkManager"
NETWORKD = "/lib/systemd/systemd-networkd"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Router:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return Router(tmp_path)


def document_of(lab: Lab, *gateways: str | None) -> dict[str, Any]:
    changed = routed(lab, *gateways)
    return host_document(changed, changed.nodes[0])


def test_a_host_without_such_a_daemon_gets_no_file(machine: Router, lab: Lab) -> None:
    made(machine, document_of(lab, "10.10.11.1"))

    assert not [path for path in DAEMON_FILES if machine.exists(path)]


def test_network_manager_leaves_pfs_and_vfs_alone_when_they_appear(machine: Router, lab: Lab) -> None:
    """The rule was tried on Debian 12: NetworkManager 1.42.4 left new VFs, and PFs at boot, unmanaged by it."""
    machine.file(NETWORK_MANAGER, "")

    made(machine, document_of(lab))

    names = "enp5s0|enp5s0v*|enp132s0|enp132s0v*"
    assert machine.read(NETWORK_MANAGER_FILE).splitlines()[1:] == [
        f'ACTION!="remove", SUBSYSTEM=="net", NAME=="{names}", ENV{{NM_UNMANAGED}}="1"',
        f'ACTION!="remove", SUBSYSTEM=="net", NAME=="", KERNEL=="{names}", ENV{{NM_UNMANAGED}}="1"',
    ]
    assert not machine.exists(NETWORKD_FILE)
    assert not any("reload NetworkManager" in command for command in machine.commands)


def test_the_rule_is_there_before_a_vf_appears(machine: Router, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.file(NETWORK_MANAGER, "")
    seen = []
    write = machine.write

    def watched(path: str, value: str) -> None:
        if path.endswith("sriov_numvfs"):
            seen.append((machine.exists(NETWORK_MANAGER_FILE), "udevadm control --reload" in machine.commands))
        write(path, value)

    monkeypatch.setattr(machine, "write", watched)
    made(machine, document_of(lab))

    assert set(seen) == {(True, True)}


DEVICES = "enp5s0:connecting (getting IP configuration)\nlo:connected (externally)\nenp0s3:connected\n"
"""`nmcli -t -f DEVICE,STATE device` on a node of the simulator (NetworkManager 1.42.4), while it asked for DHCP on a PF
with its own profile "Wired connection 2" and took rocelab's address off it within ten seconds."""
ASKED = "nmcli -t -f DEVICE,STATE device"


def test_a_pf_that_network_manager_has_is_taken_from_it_and_given_back(machine: Router, lab: Lab) -> None:
    machine.file(NETWORK_MANAGER, "")
    machine.answers[ASKED] = Done(0, DEVICES, "")
    document = document_of(lab)
    assert differing(machine, document)["enp5s0.link"] == "managed by NetworkManager"

    run("apply", machine, document)

    assert machine.commands.count("nmcli device set enp5s0 managed no") == 1
    assert not any("set enp0s3" in command or "set enp132s0" in command for command in machine.commands)
    machine.answers[ASKED] = Done(0, DEVICES.replace("connecting (getting IP configuration)", "unmanaged"), "")
    made(machine, document)
    assert run("undo", machine, document)["failed"] is None
    assert machine.commands.count("nmcli device set enp5s0 managed yes") == 1
    assert "nmcli device set enp132s0 managed yes" not in machine.commands


def test_the_revert_is_armed_before_network_manager_gives_up_a_pf(
    machine: Router, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NetworkManager takes its address off the NIC, and a revert must restore it."""
    machine.file(NETWORK_MANAGER, "")
    machine.answers[ASKED] = Done(0, DEVICES, "")
    armed: list[bool] = []
    must = machine.must

    def note(*words: str, **options: Any) -> str:
        if words[:3] == ("nmcli", "device", "set"):
            armed.append(machine.exists(REVERT_FILE))
        return must(*words, **options)

    monkeypatch.setattr(machine, "must", note)
    run("apply", machine, document_of(lab))

    assert armed == [True]


def test_the_name_of_a_port_is_no_part_of_its_vfs_names(machine: Router, lab: Lab) -> None:
    machine.file(NETWORK_MANAGER, "")
    document = document_of(lab)
    document["pfs"][0]["interface"] = "enp65s0f0np0"

    text = drop_ins(Host(machine, document, b""))[NETWORK_MANAGER_FILE].decode()

    assert "enp65s0f0np0|enp65s0f0v*|" in text


def test_networkd_keeps_rules_and_routes_where_a_rail_is_routed(machine: Router, lab: Lab) -> None:
    machine.file(NETWORKD, "")
    made(machine, document_of(lab))
    assert not machine.exists(NETWORKD_FILE), "without a router there is nothing that it could take"

    made(machine, document_of(lab, "10.10.11.1"))

    assert "ManageForeignRoutingPolicyRules=no" in machine.read(NETWORKD_FILE).splitlines()


def test_a_file_that_is_lost_or_no_longer_needed_is_noticed_and_repaired(machine: Router, lab: Lab) -> None:
    machine.file(NETWORKD, "")
    document = document_of(lab, "10.10.11.1")
    made(machine, document)
    machine.remove(NETWORKD_FILE)
    assert f"{NETWORKD_FILE} missing" in differing(machine, document)["unit"]
    made(machine, document)
    assert machine.exists(NETWORKD_FILE)

    plain = document_of(lab)
    assert states(differing(machine, plain)["unit"], NETWORKD_FILE, "needed")
    made(machine, plain)
    assert not machine.exists(NETWORKD_FILE)


def test_an_undo_leaves_nothing_and_no_others_files_go(machine: Router, lab: Lab) -> None:
    machine.file(NETWORK_MANAGER, "")
    machine.file(NETWORKD, "")
    others = "/etc/NetworkManager/conf.d/10-site.conf"
    machine.file(others, "[main]\n")
    document = document_of(lab, "10.10.11.1")
    made(machine, document)

    assert run("undo", machine, document)["failed"] is None

    assert not [path for path in (*DAEMON_FILES, NETWORKD_DROP_INS) if machine.exists(path)]
    assert machine.read(others) == "[main]"

"""Guests of VMs without QEMU: which node, which key, and what may not happen at the wrong moment."""

import contextlib
import io
import json
import os
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from components.fabric.vms.guestinfo import guestinfo
from simulator.nodes.identity import give_key, given_key, key_file, public_keys
from simulator.nodes.part import Nodes
from simulator.part import SimulatorError
from simulator.vcenter import guests
from simulator.vcenter.guests import host_key, obey, powered
from stacks.host_keys import HostKey
from stacks.host_keys import host_key as derived
from stacks.lab import Lab
from stacks.nodes import VsphereVm
from stacks.read import read_stack_file
from tests.conftest import ROOT
from tests.messages import stating


@pytest.fixture(scope="module")
def lab() -> Lab:
    return read_stack_file(ROOT / "Pulumi.lab-pvrdma.yaml")


@pytest.fixture(scope="module")
def key() -> HostKey:
    return derived("x" * 32, IPv4Address("127.0.12.1"), 2222)


def test_a_guest_takes_the_very_key_that_the_fabric_gives_its_machine(lab: Lab, key: HostKey) -> None:
    machine = lab.nodes[0]
    assert isinstance(machine, VsphereVm)

    assert host_key(guestinfo(machine, key)) == key.private


def test_a_machine_that_receives_nothing_keeps_the_key_of_its_template() -> None:
    assert host_key({}) is None
    assert host_key({"guestinfo.userdata": "#cloud-config\npackages: [x]\n"}) is None


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"guestinfo.userdata": "canary!", "guestinfo.userdata.encoding": "base64"}, "cannot be read: Error"),
        ({"guestinfo.userdata": "ssh_keys: {ed25519_private: canary}"}, "its first line must be #cloud-config"),
        ({"guestinfo.userdata": "#cloud-config\n- canary"}, "is not a cloud-config"),
        ({"guestinfo.userdata": "#cloud-config\na: [canary"}, "cannot be read: ParserError"),
    ],
)
def test_what_cloud_init_could_not_read_is_refused_and_never_quoted(told: dict[str, str], words: str) -> None:
    with pytest.raises(SimulatorError, match=words) as refused:
        host_key(told)

    assert "canary" not in str(refused.value)


def test_plain_text_is_read_as_cloud_init_reads_it() -> None:
    assert host_key({"guestinfo.userdata": "#cloud-config\nssh_keys: {ed25519_private: k}\n"}) == "k"


def test_a_given_key_comes_beside_the_nodes_own_and_goes_again(tmp_path: Path, key: HostKey) -> None:
    (tmp_path / "host_key.pub").write_text("ssh-ed25519 OWN rocelab\n")
    give_key(tmp_path, key.private)

    assert given_key(tmp_path) == key.private
    assert (tmp_path / key_file(tmp_path)).stat().st_mode & 0o077 == 0
    assert public_keys(tmp_path) == ["ssh-ed25519 OWN", key.public], "until it is taken, the own one answers"

    give_key(tmp_path, None)

    assert (given_key(tmp_path), key_file(tmp_path)) == (None, "host_key")
    assert public_keys(tmp_path) == ["ssh-ed25519 OWN"]


def test_what_is_no_key_is_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(SimulatorError, match="ssh-keygen failed"):
        give_key(tmp_path, "canary")

    assert given_key(tmp_path) is None


def test_nodes_of_machines_that_are_off_are_idle_and_no_fault(lab: Lab, tmp_path: Path) -> None:
    nodes = Nodes(lab, tmp_path)

    assert {status.state for status in nodes.status()} == {"idle"}
    nodes.reset(lambda _text: None)  # nothing runs, as it should be
    assert nodes.end_guests() == []


def test_a_machine_at_an_address_of_no_node_has_no_guest(lab: Lab, tmp_path: Path) -> None:
    assert not Nodes(lab, tmp_path).start_guest("10.9.9.9", None, print)


def test_without_a_vcenter_no_machine_is_on(tmp_path: Path) -> None:
    assert powered(tmp_path) == {}
    (tmp_path / "vcenter").mkdir()
    (tmp_path / "vcenter" / "control.sock").touch()  # left by one that was killed
    assert powered(tmp_path) == {}


class FakeNodes(Nodes):
    """Nodes that note what they are asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def start_guest(self, address: str, private_key: str | None, report: Any) -> bool:
        self.asked.append(("start", address, private_key))
        return True

    def end_guests(self, addresses: Any = None) -> list[str]:
        self.asked.append(("end", *addresses))
        return []


def ordered(nodes: Nodes, state: Path, monkeypatch: pytest.MonkeyPatch, **order: object) -> dict[str, str]:
    """What the command prints on an order."""
    printed = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"address": "127.0.12.1", "guestinfo": {}, **order})))
    with contextlib.redirect_stdout(printed):
        obey(nodes, state)
    answer: dict[str, str] = json.loads(printed.getvalue())
    return answer


def test_the_vcenter_knows_where_the_guest_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, told = FakeNodes(), {"guestinfo.userdata": "#cloud-config\nssh_keys: {ed25519_private: k}\n"}

    assert ordered(nodes, tmp_path, monkeypatch, power="on", guestinfo=told) == {"address": "127.0.12.1"}
    assert ordered(nodes, tmp_path, monkeypatch, power="off") == {"address": ""}
    assert nodes.asked == [("start", "127.0.12.1", "k"), ("end", "127.0.12.1")]


def test_an_order_of_a_vcenter_that_has_ended_meanwhile_is_not_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, parents = FakeNodes(), iter([7, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents))

    with pytest.raises(SimulatorError, check=stating("vCenter", "ended")):
        ordered(nodes, tmp_path, monkeypatch, power="on")

    assert nodes.asked == []


def test_the_command_of_the_vcenter_is_one_that_sim_knows() -> None:
    program, *words = guests.command("lab-pvrdma")

    assert (Path(program).name, words) == ("sim", ["vcenter", "--stack", "lab-pvrdma", "guest"])
    assert os.access(program, os.X_OK)

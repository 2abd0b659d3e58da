"""Nodes without QEMU: names, keys, what is recorded, and errors before anything starts."""

import contextlib
import json
import os
import socket
import subprocess
from dataclasses import asdict, replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from simulator.nodes import node as node_module
from simulator.nodes import part as part_module
from simulator.nodes.accelerator import Accelerator
from simulator.nodes.access import give_keys, write_ssh_files
from simulator.nodes.image import Image
from simulator.nodes.machine import machines_of
from simulator.nodes.node import Boot, Node
from simulator.nodes.part import Nodes
from simulator.nodes.qemu import Qemu
from simulator.part import SimulatorError
from stacks.access import read_host_keys
from stacks.lab import Lab
from tests.messages import lines_naming, stating


def record(state: Path, lab: Lab) -> None:
    """Leaves what first boots leave."""
    for machine in machines_of(lab):
        folder = state / "nodes" / machine.name
        folder.mkdir(parents=True)
        (folder / "machine.json").write_text(json.dumps(asdict(machine)))


def renamed(lab: Lab, name: str) -> Lab:
    return lab.model_copy(update={"nodes": (lab.nodes[0], lab.nodes[1].model_copy(update={"name": name}))})


def moved(lab: Lab, octets: tuple[int, int]) -> Lab:
    """The lab at other addresses, so that a test disturbs no running simulator."""
    nodes = tuple(
        node.model_copy(update={"name": f"gpu{octet}", "address": IPv4Address(f"127.0.12.{octet}")})
        for node, octet in zip(lab.nodes, octets, strict=True)
    )
    return lab.model_copy(update={"nodes": nodes})


def test_a_renamed_node_stays_the_machine_that_it_is(lab: Lab, tmp_path: Path):
    record(tmp_path, lab)

    nodes = Nodes(renamed(lab, "worker-b"), tmp_path)

    assert [(machine.name, machine.hostname) for machine in nodes.lab_machines] == [
        ("gpu01", "gpu01"),
        ("gpu02", "gpu02"),
    ]
    assert nodes.node("worker-b").machine.number == 2
    assert nodes.others == []


def test_a_machine_that_left_the_lab_keeps_its_port_and_its_keys(lab: Lab, tmp_path: Path):
    record(tmp_path, lab)

    nodes = Nodes(lab.model_copy(update={"nodes": lab.nodes[:1]}), tmp_path)

    assert [machine.name for machine in nodes.others] == ["gpu02"], "somebody has to undo what is on it"
    assert [machine.name for machine in nodes.machines] == ["gpu01", "gpu02"]


def test_an_unknown_node_is_refused_with_those_that_there_are(lab: Lab, tmp_path: Path):
    with pytest.raises(SimulatorError, check=stating("gpu09", "gpu01, worker-b")):
        Nodes(renamed(lab, "worker-b"), tmp_path).node("gpu09")


def test_keys_are_made_once_and_the_lab_finds_every_host_key(lab: Lab, tmp_path: Path):
    folder, machines = tmp_path / ".sim" / "nodes", machines_of(lab)
    give_keys(folder, machines)
    private = (folder / "id_ed25519").read_text()
    give_keys(folder, machines)
    write_ssh_files(folder, machines, {"127.0.12.2": "worker-b"})

    assert (folder / "id_ed25519").read_text() == private
    assert (folder / "id_ed25519").stat().st_mode & 0o077 == 0
    pinned = read_host_keys(lab.access, lab.endpoints(), tmp_path)
    assert pinned["gpu01"].split()[1] == (folder / "gpu01" / "host_key.pub").read_text().split()[1]
    assert "Host worker-b gpu02\n  HostName 127.0.12.2\n" in (folder / "ssh_config").read_text()


def test_half_a_key_pair_is_created_again(lab: Lab, tmp_path: Path):
    give_keys(tmp_path, machines_of(lab))
    (tmp_path / "gpu01" / "host_key.pub").unlink()

    give_keys(tmp_path, machines_of(lab))

    assert (tmp_path / "gpu01" / "host_key.pub").exists()


def test_nodes_that_were_never_started_are_stopped_and_reset_says_what_to_do(lab: Lab, tmp_path: Path):
    nodes = Nodes(lab, tmp_path)

    assert [(status.name, status.state) for status in nodes.status()] == [("gpu01", "stopped"), ("gpu02", "stopped")]
    with pytest.raises(SimulatorError, check=stating("no node", "sim up")):
        nodes.reset(lambda _: None)


def test_too_little_memory_is_refused_with_both_numbers(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(part_module, "memory_available_mib", lambda: 500)
    monkeypatch.setattr(Nodes, "build", lambda *_: None)

    with pytest.raises(SimulatorError, check=stating("memory", "2 nodes", "896 MiB", "500 MiB")):
        Nodes(lab, tmp_path).up(lambda _: None)


class Rig:
    """A node whose QEMU is a script."""

    def __init__(self, lab: Lab, folder: Path, script: str = "exit 0") -> None:
        machine = machines_of(moved(lab, (57, 58)))[0]
        programs = folder / "programs"
        programs.mkdir()
        for name, text in (
            (
                "qemu-system-x86_64",
                f'if [ "$1" = --version ]; then echo QEMU emulator version 10.0.2; exit; fi\n{script}',
            ),
            ("qemu-img", "if [ $1 = create ]; then touch $9; else echo clean; fi"),
        ):
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        image = folder / "image-1"
        image.mkdir()
        (image / "root").touch()
        give_keys(folder / "nodes", [machine])
        self.boot = Boot(Qemu(programs, (), ()), Image(image), Accelerator("tcg"))
        self.node = Node(machine, folder / "nodes")
        self.said: list[str] = []

    def up(self) -> None:
        self.node.up(self.boot, contextlib.nullcontext(), self.said.append)


def test_a_taken_port_is_named_before_anything_starts(lab: Lab, tmp_path: Path):
    rig = Rig(lab, tmp_path)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.12.57", 2222))
        other.listen()
        with pytest.raises(SimulatorError, check=stating("gpu57:", "another process", "127.0.12.57:2222")):
            rig.up()

    assert not rig.node.was_started


def test_a_qemu_that_ends_by_itself_is_an_error_with_its_last_words(lab: Lab, tmp_path: Path):
    rig = Rig(lab, tmp_path, "echo 'qemu-system-x86_64: no such device' >&2; exit 1")

    with pytest.raises(SimulatorError, check=stating("gpu57:", "QEMU")) as ended:
        rig.up()
    assert lines_naming(str(ended.value), "qemu.log:", "no such device")


def test_what_changed_of_a_running_node_is_reported_by_name(lab: Lab, tmp_path: Path):
    rig = Rig(lab, tmp_path)
    before = rig.node._ingredients(rig.boot)
    (rig.node.folder / "ingredients.json").write_text(json.dumps(before))
    os.utime(rig.boot.image.root, ns=(0, 0))
    newer = replace(rig.boot, accelerator=Accelerator("kvm"))

    assert lines_naming(rig.node._what_changed(before), "first boot")
    assert lines_naming(rig.node._what_changed(rig.node._ingredients(newer)), "image", "accelerator", "hardware")


def test_the_same_ingredients_name_the_same_disk(lab: Lab, tmp_path: Path):
    rig = Rig(lab, tmp_path)

    assert rig.node._ingredients(rig.boot) == rig.node._ingredients(rig.boot)


def test_no_space_for_a_nodes_disk_is_refused(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rig = Rig(lab, tmp_path)
    monkeypatch.setattr(node_module, "DISK_BYTES", 1 << 60)

    with pytest.raises(SimulatorError, check=stating("disk space", "gpu57", f"{1 << 40} MiB")):
        rig.up()


@pytest.mark.parametrize("late", ["containerd", "lab-kubernetes"])
def test_a_new_node_waits_for_both_units_of_its_pods(late: str, tmp_path: Path):
    """As systemd does, this systemctl succeeds if one of the units that it is asked about is active."""
    (tmp_path / "systemctl").write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/asked
for unit in "$@"; do
  case $unit in
    -q | is-active) ;;
    {late}) [ "$(grep -c {late} {tmp_path}/asked)" -lt 3 ] || exit 0 ;;
    *) exit 0 ;;
  esac
done
exit 3
"""
    )
    (tmp_path / "systemctl").chmod(0o755)

    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", node_module._RUNTIME_STARTED], env=environment, check=False)

    assert done.returncode == 0
    assert (tmp_path / "asked").read_text().count(late) == 3

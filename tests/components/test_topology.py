"""Blocks of nodes by their leaves, and that the schedulers' own programs take them."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.cli.topology import heard_in
from components.topology import BLOCK, FORMATS, Topology, heard_by, topology_of
from simulator.nodes.debian import fetched, library_path
from stacks.lab import Lab
from tests.components.audit.spoilt import lab as hardware_lab
from tests.components.inventory.fabricate import changed, changed_pf, fabricate, pci_of

NODES = 64
PORTS = {"os": "sonic", "native_vlans": {"rail-1": 11, "rail-2": 12}}


def cabled(moved: dict[tuple[str, int], str] | None = None, nodes: int = NODES) -> Lab:
    """Two rails, each with a leaf for every 32 nodes; some cables end elsewhere."""
    asked = hardware_lab(hosts=nodes, rails=2).model_dump(mode="json")
    ports: dict[str, dict[str, dict[str, str]]] = {}
    for number in range(1, nodes + 1):
        for rail in (1, 2):
            name = f"gpu{number:02}"
            usual = f"leaf{rail + 2 * ((number - 1) // 32)}"
            leaf = (moved or {}).get((name, rail), usual)
            ports.setdefault(leaf, {}).setdefault(name, {})[f"ens{rail}np0"] = f"Ethernet{8 * number + rail}"
    switches = [
        {**PORTS, "address": f"192.0.2.{200 + at}", "name": leaf, "ports": of}
        for at, (leaf, of) in enumerate(ports.items())
    ]
    return Lab.model_validate({**asked, "switches": switches})


BOTH = {"leaf1.leaf2": ("gpu[01-32]",), "leaf3.leaf4": ("gpu[33-64]",)}


def test_nodes_on_the_same_leaves_are_a_block() -> None:
    assert topology_of(cabled(), {}).blocks == BOTH


def test_a_cable_that_is_declared_or_heard_elsewhere_takes_its_node_out_of_the_block() -> None:
    apart = {"leaf1.leaf2": ("gpu[01-06,08-32]",), "leaf1.leaf4": ("gpu07",), "leaf3.leaf4": ("gpu[33-64]",)}

    assert topology_of(cabled({("gpu07", 2): "leaf4"}), {}).blocks == apart
    facts = {"gpu07": {"leaves": {"ens2np0": ["leaf4", "Ethernet9"]}}, "gpu08": {"boot_id": "1"}}
    assert topology_of(cabled(), heard_by(facts)).blocks == apart


def test_a_name_that_the_lab_does_not_know_does_not_outweigh_the_declared_switch() -> None:
    assert topology_of(cabled(), {"gpu07": {"ens2np0": "spine-of-somebody"}}).blocks == BOTH


def test_without_declared_switches_what_the_hosts_hear_decides() -> None:
    lab = hardware_lab(hosts=3, rails=2)
    heard = {"gpu01": {"ens1np0": "a", "ens2np0": "b"}, "gpu02": {"ens1np0": "a"}}

    found = topology_of(lab, heard)

    assert found.blocks == {"a.b": ("gpu[01-02]",)}, "a port that hears nothing makes no block of its own"
    assert found.unknown == ("gpu03",)


def test_a_storage_nic_on_every_node_is_told_apart() -> None:
    """NVIDIA/topograph#265: it cannot tell storage from compute NICs."""
    inventory, lab = fabricate(4, 3), hardware_lab(hosts=4, rails=2)
    for number in (3, 4):  # the third NIC of each host is on no rail; of half of the hosts it is on another leaf
        elsewhere = inventory.hosts[number - 1].pf(pci_of(3))
        assert elsewhere
        heard = elsewhere.lldp.map(lambda found: tuple(replace(one, system="storage-b") for one in found))
        inventory = changed(
            inventory,
            f"gpu{number:02}",
            lambda host, heard=heard: changed_pf(host, pci_of(3), lambda pf: replace(pf, lldp=heard)),
        )

    assert topology_of(lab, heard_in(inventory, lab)).blocks == {"leaf1.leaf2": ("gpu[01-04]",)}


def test_the_output_of_the_stack_is_small_and_read_again_as_it_was() -> None:
    topology = topology_of(cabled(), {})

    assert len(topology.model_dump_json()) < 200
    assert Topology.model_validate_json(topology.model_dump_json()) == topology


def test_kueue_gets_the_levels_from_the_fabric_to_the_host() -> None:
    document = yaml.safe_load(FORMATS["kueue"](topology_of(cabled(), {})))

    assert document["kind"] == "Topology"
    assert [level["nodeLabel"] for level in document["spec"]["levels"]][1:] == [BLOCK, "kubernetes.io/hostname"]


def test_many_leaves_still_make_a_label() -> None:
    heard = {"gpu01": {f"ens{rail}np0": f"rack17-leaf-of-rail-{rail}" for rail in range(1, 9)}}

    [name] = topology_of(hardware_lab(hosts=1, rails=8), heard).blocks

    assert len(name) <= 63


@contextmanager
def slurm(folder: Path, topology: str) -> Iterator[dict[str, Any]]:
    """A slurmctld of Debian 12 with a topology.conf; how to call its programs."""
    root = fetched(("slurmctld", "slurm-client"), print)
    plugins = f"{root}/usr/lib/x86_64-linux-gnu/slurm-wlm"
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (folder / "state").mkdir()
    (folder / "topology.conf").write_text(topology)
    settings = {
        "ClusterName": "lab",
        "SlurmctldHost": "localhost",
        "SlurmctldPort": port,
        "SlurmUser": "root",
        "AuthType": "auth/none",
        "CredType": "cred/none",
        "MpiDefault": "none",
        "SelectType": "select/linear",
        "StateSaveLocation": folder / "state",
        "SlurmctldPidFile": folder / "pid",
        "PluginDir": plugins,
        "TopologyPlugin": "topology/tree",
    }
    lines = [f"{key}={value}\n" for key, value in settings.items()]
    lines += [
        f"NodeName=gpu[01-{NODES}] NodeAddr=127.0.1.[1-{NODES}] CPUs=1\n",
        "PartitionName=all Nodes=ALL Default=YES\n",
    ]
    (folder / "slurm.conf").write_text("".join(lines))
    call = {
        "env": {
            **os.environ,
            "LD_LIBRARY_PATH": f"{library_path(root)}:{plugins}",
            "SLURM_CONF": f"{folder}/slurm.conf",
        },
        "text": True,
    }
    with (folder / "log").open("w") as log:
        daemon = subprocess.Popen(
            [f"{root}/usr/sbin/slurmctld-wlm", "-D"], stdout=log, stderr=log, start_new_session=True, **call
        )
        try:
            yield {"args": [f"{root}/usr/bin/scontrol", "show", "topology"], "capture_output": True, **call}
        finally:
            os.killpg(daemon.pid, signal.SIGKILL)  # it has a child that starts scripts
            daemon.wait(20)


@pytest.mark.sim
def test_slurms_own_parser_loads_the_file(tmp_path: Path) -> None:
    lab = cabled({("gpu07", 2): "leaf4"})
    with slurm(tmp_path, FORMATS["slurm"](topology_of(lab, {}))) as call:
        end_s = time.monotonic() + 30
        while time.monotonic() < end_s:
            shown = subprocess.run(check=False, **call).stdout
            if "SwitchName" in shown:
                break
            time.sleep(0.5)

    assert "error" not in [
        line.split()[1].rstrip(":") for line in (tmp_path / "log").read_text().splitlines() if "topology" in line
    ]
    switches = {line.split()[0]: line for line in shown.splitlines()}
    assert "Nodes=gpu[01-06,08-32]" in switches["SwitchName=leaf1.leaf2"]
    assert "Nodes=gpu07" in switches["SwitchName=leaf1.leaf4"]
    assert "Level=1" in switches["SwitchName=pod1"]
    assert f"Nodes=gpu[01-{NODES}]" in switches["SwitchName=pod1"]

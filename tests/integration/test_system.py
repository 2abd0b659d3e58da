"""The operating system's section on real nodes: asked for, drifted, repaired, and given up again, in this order."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.integration.conftest import unplugged
from tests.integration.stack import KEY, Stack, on_node, without
from tests.integration.watched import (
    ALERTS_WITHIN_S,
    SCRAPE_S,
    SHOWN_WITHIN_S,
    TEXTFILES,
    Scrapes,
    make_textfile_folders,
)

pytestmark = pytest.mark.sim

NODES = ("gpu01", "gpu02")
USED, UNUSED = "enp5s0", "enp132s0"
PF = "/sys/class/net/enp5s0"
DRIFTS = {
    "hostname": "sudo hostname elsewhere",
    "hosts_file": "sudo sed -i /gpu01/d /etc/hosts",
    "ops.keys": "sudo rm /home/ops/.ssh/authorized_keys",
    "ops.sudo": "sudo rm /etc/sudoers.d/rocelab-ops",
}
WATCH_FILES = "ls -d /etc/systemd/system/{,*/}rocelab-watch* /var/cache/rocelab-watch 2>/dev/null || true"
TIMERS = "systemctl list-units --all --no-legend --plain 'rocelab-watch-*'"


@pytest.fixture(scope="module")
def ops_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private key that nobody has had before; its public half lies beside it."""
    place = tmp_path_factory.mktemp("ops") / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ops@desk", "-f", place], check=True)
    return place


def one_rail(lab: dict[str, Any]) -> None:
    """Leaves each node's second port unused."""
    lab["rails"].pop()
    for node in lab["nodes"]:
        node["pfs"].pop()
    for switch in lab["switches"]:
        switch["native_vlans"].pop("rail-b")
        for ports in switch["ports"].values():
            ports.pop(UNUSED)


@pytest.fixture(scope="module")
def stack(simulator: Path, ops_key: Path) -> Iterator[Stack]:
    """The reference lab's hosts alone, with a routed rail and whatever of the system a simulated node can have."""
    stack = Stack.make(simulator / "tests-system")
    content = yaml.safe_load(stack.file.read_text())
    lab: dict[str, Any] = content["config"][KEY]
    lab.pop("cluster")
    lab.pop("benchmarks")
    one_rail(lab)
    lab["rails"][0]["host_gateway"] = "10.10.11.1"
    key = ops_key.with_suffix(".pub").read_text().strip()
    lab["system"] = {
        "hostname": True,
        "hosts_file": True,
        "cpu_governor": "performance",
        "users": [{"name": "ops", "uid": 1500, "sudo": True, "keys": [key]}],
        "watch": {},
    }
    stack.file.write_text(yaml.safe_dump(content, sort_keys=False))
    make_textfile_folders(NODES)
    yield stack
    stack.pulumi("destroy").succeeded()
    for node in NODES:
        on_node(node, f"sudo rm -r {TEXTFILES}")
        on_node(node, "! getent passwd ops || sudo userdel --remove ops 2>/dev/null")


@pytest.mark.row("A 135", "A 157-176", "A 239-242")
def test_the_operating_system_becomes_what_the_lab_asks_for(stack: Stack, ops_key: Path) -> None:
    stack.up().succeeded()

    assert {name: host["status"] for name, host in stack.outputs()["hosts"].items()} == dict.fromkeys(NODES, "ready")
    for node in NODES:
        assert on_node(node, "cat /etc/hostname /proc/sys/kernel/hostname").split() == [node, node]
    assert on_node("gpu01", "getent hosts gpu02").split() == ["127.0.12.2", "gpu02"]
    options = ["-F", str(ROOT / ".sim/nodes/ssh_config"), "-i", str(ops_key), "-o", "IdentitiesOnly=yes", "-l", "ops"]
    logged_in = subprocess.run(
        ["ssh", *options, "gpu02", "id -u; sudo -n id -u"], capture_output=True, text=True, timeout=60, check=False
    )
    assert logged_in.stdout.split() == ["1500", "0"], logged_in.stderr
    assert "dev enp5s0 table 100" in on_node("gpu01", "ip route get 10.99.0.1 from 10.10.11.11")
    stack.unchanged()


def test_each_drifted_field_is_put_right_on_its_host_alone(stack: Stack) -> None:
    for break_it in DRIFTS.values():
        on_node("gpu02", break_it)

    done = stack.repair().succeeded()

    said = [line for line in done.text.splitlines() if ": repairs " in line]
    assert said, done.text[-4000:]
    assert all("gpu02: repairs" in line for line in said), said
    assert {field for field in DRIFTS if field in said[0]} == set(DRIFTS)
    assert on_node("gpu02", "hostname; sudo grep -c ops@desk /home/ops/.ssh/authorized_keys").split() == ["gpu02", "1"]


def test_the_timer_shows_a_fault_in_time_and_it_raises_its_alert_and_no_other(
    stack: Stack, scrapes: Scrapes, prometheus: Path, tmp_path: Path
) -> None:
    quiet_s = 600
    on_node("gpu02", f"sudo ip link set {UNUSED} up")
    scrapes.until(set(), SHOWN_WITHIN_S)
    sound_s = scrapes.go_on(SCRAPE_S)

    with unplugged("gpu02", UNUSED), unplugged("gpu01", USED):
        on_node("gpu02", "sudo rdma link delete rxe0")
        shown_s = scrapes.until({"up gpu01 rail-a", "rdma_active gpu02 rail-a"}, SHOWN_WITHIN_S)
        broken_s = scrapes.go_on(ALERTS_WITHIN_S)
        on_node("gpu02", f"sudo rdma link add rxe0 type rxe netdev {USED}")
    repaired_s = scrapes.until(set(), SHOWN_WITHIN_S)
    ended_s = scrapes.go_on(SCRAPE_S)
    on_node("gpu02", f"sudo ip link set {UNUSED} down")

    print(f"shown after {shown_s:.0f} s, repaired after {repaired_s:.0f} s")
    ports = [name for name in scrapes.take() if name.startswith("rocelab_port_")]
    assert [name for name in ports if 'rail="rail-a"' not in name] == []
    alerts = {
        sound_s: set(),
        broken_s: {"RocelabLinkDown gpu01 rail-a", "RocelabRdmaGone gpu02 rail-a"},
        ended_s + quiet_s: set(),
    }
    scrapes.assert_alerts(stack.file, prometheus, tmp_path, alerts)


def test_what_the_lab_no_longer_asks_for_and_a_node_that_leaves_are_as_they_were_but_for_the_account(
    stack: Stack,
) -> None:
    content = yaml.safe_load(stack.file.read_text())
    content["config"][KEY] = without(content["config"][KEY], "gpu02")
    del content["config"][KEY]["system"]
    stack.file.write_text(yaml.safe_dump(content, sort_keys=False))

    stack.up().succeeded()

    for node in NODES:
        assert on_node(node, f"{TIMERS}; ls {TEXTFILES}; {WATCH_FILES}") == ""
        assert on_node(node, "cat /etc/hosts /etc/hostname").splitlines() == ["127.0.0.1 localhost", "vm"]
        assert on_node(node, "sudo ls /etc/sudoers.d /home/ops/.ssh").split() == [
            "/etc/sudoers.d:", "README", "lab", "/home/ops/.ssh:",
        ]  # fmt: skip
    assert on_node("gpu01", f"cat {PF}/device/sriov_numvfs") == "4"
    assert on_node("gpu02", f"cat {PF}/device/sriov_numvfs {PF}/mtu").split() == ["0", "1500"]
    assert on_node("gpu02", "systemctl is-enabled rocelab-rdma.service 2>&1 || true") != "enabled"

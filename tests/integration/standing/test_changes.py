"""Nodes that leave, get another name, reboot or have VFs in pods, and an engine killed at work: what is kept."""

import json
import re
from typing import Any

import pytest
import yaml

from components.hosts.changes import WORDS
from tests.integration.stack import KEY, Stack, changes, nodes_named, on_node, wait_for_reboot, without
from tests.messages import lines_naming

pytestmark = [pytest.mark.sim, pytest.mark.whole]

UNIT = "rocelab-rdma.service"
PF = "/sys/class/net/enp5s0"


def test_a_vf_in_a_pods_namespace_is_in_use_and_left_alone(lab_stack: Stack) -> None:
    change = ("gpu01:", "enp5s0.vfs", "4 => 2")

    def fewer(lab: dict[str, Any]) -> None:
        lab["nodes"][0]["pfs"][0]["vfs"] = 2

    with lab_stack.edited(fewer):
        allowed = lab_stack.pulumi("preview", "--diff").succeeded()
    assert lines_naming(allowed.text, *change, WORDS["pods"], "none", "no reboot", "7"), allowed.text[-4000:]
    assert lines_naming(allowed.text, "VFs", "device plugin")

    on_node("gpu01", "sudo ip netns add pod && sudo ip link set enp5s0v0 netns pod")
    try:
        assert nodes_named(lab_stack.drift()) == set(), "a VF in a pod is how it should be"
        with lab_stack.edited(fewer):
            plain = lab_stack.pulumi("preview", "--diff").failed()
            refreshed = lab_stack.pulumi("preview", "--refresh").failed()
            done = lab_stack.up()
        for refused in (plain, refreshed):
            assert lines_naming(refused.text, *change, "1 in use", "VF 0"), refused.text[-4000:]
        assert on_node("gpu01", f"cat {PF}/device/sriov_numvfs") == "4"
        assert on_node("gpu01", "sudo ip netns exec pod ip -br link show enp5s0v0").startswith("enp5s0v0")
        assert "in use" in done.text or "in use" in json.dumps(lab_stack.outputs()["hosts"])
    finally:
        on_node("gpu01", "sudo ip netns del pod")  # the kernel gives its interfaces back in its own time
        on_node("gpu01", f"for i in $(seq 150); do ls -d {PF}/device/virtfn0/net/* && exit 0; sleep 0.2; done; exit 1")
    lab_stack.repair().succeeded()
    assert nodes_named(lab_stack.drift()) == set()


def test_a_reboot_behind_our_back_leaves_no_drift(lab_stack: Stack) -> None:
    before = on_node("gpu02", "cat /proc/sys/kernel/random/boot_id")
    on_node("gpu02", "sudo systemctl reboot || true")
    wait_for_reboot("gpu02", before)

    seen = lab_stack.drift()  # a login comes before our unit ends, which the host's program waits for

    assert nodes_named(seen) == set(), changes(seen)
    assert on_node("gpu02", f"cat {PF}/device/sriov_numvfs") == "4"


def test_a_node_that_leaves_is_undone_and_comes_back_when_added(lab_stack: Stack) -> None:
    content = yaml.safe_load(lab_stack.file.read_text())
    smaller = without(content["config"][KEY], "gpu02")

    with lab_stack.edited(lambda lab: lab.update(smaller)):
        lab_stack.up().succeeded()
        assert on_node("gpu02", f"cat {PF}/device/sriov_numvfs {PF}/mtu").split() == ["0", "1500"]
        assert on_node("gpu02", f"systemctl is-enabled {UNIT} 2>&1 || true") != "enabled"
        assert on_node("gpu01", f"cat {PF}/device/sriov_numvfs") == "4"
    lab_stack.up().succeeded()
    assert on_node("gpu02", f"cat {PF}/device/sriov_numvfs") == "4"


def test_a_renamed_node_is_not_undone(lab_stack: Stack) -> None:
    def rename(lab: dict[str, Any]) -> None:
        lab["nodes"][1].update(name="gpu09", formerly="gpu02")
        ports = lab["switches"][0]["ports"]
        ports["gpu09"] = ports.pop("gpu02")

    with lab_stack.edited(rename):
        lab_stack.up().succeeded()
        assert on_node("gpu02", f"cat {PF}/device/sriov_numvfs") == "4"
        assert on_node("gpu02", f"systemctl is-enabled {UNIT}") == "enabled"

    def back(lab: dict[str, Any]) -> None:
        lab["nodes"][1]["formerly"] = "gpu09"

    with lab_stack.edited(back):
        lab_stack.up().succeeded()
    lab_stack.up().succeeded()
    assert on_node("gpu02", f"cat {PF}/device/sriov_numvfs") == "4"


@pytest.mark.kills
@pytest.mark.parametrize("at_work", ["remote:Command", "hosts:Fleet"])
def test_an_engine_killed_at_any_moment_is_recovered(lab_stack: Stack, at_work: str) -> None:
    """Killed while it measures: tests/integration/test_lab.py."""

    def change(lab: dict[str, Any]) -> None:
        lab["rails"][0]["mtu_bytes"] = 2000

    with lab_stack.edited(change):
        lab_stack.killed(re.compile(rf"{at_work} .*(creating|updating|replacing)"))
        recovered = lab_stack.run("python", "-m", "engine.recover", lab_stack.name, str(lab_stack.folder / "state"))
        assert lines_naming(recovered.succeeded().text, "cleared", "lock")
        lab_stack.up().succeeded()
        lab_stack.unchanged()
    lab_stack.up().succeeded()

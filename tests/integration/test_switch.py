"""The switch on the real engine and real nodes: what is set is felt, drift is seen with both numbers, all is undone."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.switch.client import SwitchClient
from simulator.switch.ports import PortConfig
from tests.conftest import ROOT
from tests.integration.stack import KEY, Stack, announce_by_lldp, on_node
from tests.messages import lines_naming

pytestmark = [pytest.mark.sim, pytest.mark.whole]

UNUSED = PortConfig(native_vlan=1, tagged_vlans=frozenset(), mtu_bytes=1500)
"""A port as it comes out of the box."""
ONCE = "ping -c1 -W3 -M do -s 8972 {} >/dev/null && echo answers || echo silent"
PING = "for i in 1 2 3 4; do ping -c1 -W3 -M do -s %s {} >/dev/null && echo answers && exit; done; echo silent"
LARGE, SMALL = PING % 8972, PING % 1372
PEER_A, PEER_B = "10.10.11.12", "10.10.12.12"


def with_switch(lab: dict[str, Any]) -> None:
    """The reference lab without cluster and benchmarks, and with the simulator's switch applied."""
    for key in ("cluster", "benchmarks"):
        lab.pop(key, None)
    lab["qos"] = {"mode": "lossy"}
    lab["switches"] = [
        {
            "name": "sw1",
            "os": "onyx",
            "address": "127.0.12.250",
            "ssh_port": 2222,
            "apply": True,
            "native_vlans": {"rail-a": 4094, "rail-b": 4093},
            "ports": {
                "gpu01": {"enp5s0": "1/1", "enp132s0": "1/2"},
                "gpu02": {"enp5s0": "1/5", "enp132s0": "1/6"},
            },
        }
    ]


def edited_for_ever(stack: Stack, name: str = "lab") -> Stack:
    content = yaml.safe_load(stack.file.read_text())
    with_switch(content["config"][KEY])
    content["config"][KEY]["name"] = name
    stack.file.write_text(yaml.safe_dump(content, sort_keys=False))
    return stack


@pytest.fixture(scope="module")
def frames(simulator: Path) -> Iterator[SwitchClient]:
    """The frame switch, with ports that nobody has configured; afterwards as it was found."""
    client = SwitchClient(simulator / "switch")
    for port in client.show():
        client.set(port.node, port.nic, native_vlan=1, tagged_vlans=[], mtu_bytes=1500)
    yield client
    client.reset()
    (simulator / "switch" / "front.json").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def lab_stack(simulator: Path, frames: SwitchClient) -> Stack:
    return edited_for_ever(Stack.make(simulator / "tests"))


def configs(frames: SwitchClient) -> dict[str, PortConfig]:
    return {f"{port.node} {port.nic}": port.config for port in frames.show()}


def by_hand(*lines: str) -> str:
    """Somebody's fingers on the switch, over plain ssh."""
    nodes = ROOT / ".sim/nodes"
    done = subprocess.run(
        ["ssh", "-tt", "-F", str(nodes / "ssh_config"), "-o", f"IdentityFile={nodes / 'id_ed25519'}", "-p", "2222",
         "admin@127.0.12.250"],
        input="\n".join(["enable", "configure terminal", *lines, "exit", "exit", ""]),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "% " not in done.stdout, done.stdout
    return done.stdout


def test_a_preview_shows_the_first_change_of_each_port_and_makes_none(lab_stack: Stack, frames: SwitchClient) -> None:
    seen = lab_stack.pulumi("preview").succeeded()

    assert lines_naming(seen.text, "sw1 1/1:", "mtu_bytes", "1500 => 9216"), seen.text[-4000:]
    assert lines_naming(seen.text, "sw1 1/6:", "vlans", "1 => trunk", "untagged 4093", "tagged 112")
    assert set(configs(frames).values()) == {UNUSED}


def test_a_port_that_takes_less_than_it_says_fails_the_stack_with_both_numbers(
    lab_stack: Stack, frames: SwitchClient
) -> None:
    frames.set("gpu02", "enp5s0", most_mtu_bytes=4000)

    failed = lab_stack.pulumi("up", "--target", "**::switches**").failed()

    assert lines_naming(failed.text, "1/5", "mtu_bytes", "9216", "4000"), failed.text[-4000:]
    assert "Traceback" not in failed.text
    frames.set("gpu02", "enp5s0", most_mtu_bytes=9216)
    assert set(configs(frames).values()) == {UNUSED}


@pytest.mark.row("A 14, 48", "A 219-227")
def test_ports_carry_their_rails_and_the_nodes_feel_it(lab_stack: Stack, frames: SwitchClient) -> None:
    lab_stack.up().succeeded()

    rail_a, rail_b = PortConfig(4094, frozenset({111}), 9216), PortConfig(4093, frozenset({112}), 9216)
    # the simulated switch keeps the ports of the lab that was up before
    assert {port: config for port, config in configs(frames).items() if config != UNUSED} == {
        f"{node} {nic}": rail for node in ("gpu01", "gpu02") for nic, rail in (("enp5s0", rail_a), ("enp132s0", rail_b))
    }
    assert on_node("gpu01", LARGE.format(PEER_A)) == "answers"
    assert on_node("gpu01", LARGE.format(PEER_B)) == "answers"
    assert "minimum-absolute 150 maximum-absolute 1500" in by_hand("show running-config")


def test_the_output_names_the_text_and_a_second_up_changes_nothing(lab_stack: Stack) -> None:
    summary = lab_stack.outputs()["switches"]["sw1"]
    command = ("python", "-m", "components.cli", "switches")
    text = lab_stack.run(*command, "--config-file", str(lab_stack.file)).succeeded().text

    assert summary["applied"] is True
    assert summary["simulated"] is True
    assert summary["ports"] == 4
    assert "interface ethernet 1/5 mtu 9216 force" in text
    assert (ROOT / ".sim/backups" / summary["backup"]).is_file()
    lab_stack.unchanged()


def test_a_cable_that_hangs_elsewhere_than_the_map_says_is_refused_and_nothing_changes(
    lab_stack: Stack, frames: SwitchClient
) -> None:
    announce_by_lldp("gpu02", "enp5s0")
    before = configs(frames)

    def swap(lab: dict[str, Any]) -> None:
        ports = lab["switches"][0]["ports"]
        ports["gpu01"]["enp5s0"], ports["gpu02"]["enp5s0"] = "1/5", "1/1"

    with lab_stack.edited(swap):
        refused = lab_stack.pulumi("up", "--target", "**::switches**").failed()

    wrong_cable = ("1/5:", "switches[].ports", "gpu01 enp5s0", "LLDP", "gpu02 enp5s0")
    assert lines_naming(refused.text, *wrong_cable), refused.text[-4000:]
    assert configs(frames) == before


def test_a_wrong_mtu_breaks_large_packets_is_seen_with_both_numbers_and_repaired(
    lab_stack: Stack, frames: SwitchClient
) -> None:
    by_hand("interface ethernet 1/5 mtu 1500 force")
    assert on_node("gpu01", SMALL.format(PEER_A)) == "answers"
    assert on_node("gpu01", ONCE.format(PEER_A)) == "silent", "the switch drops what is longer than its port takes"

    seen = lab_stack.drift()
    lab_stack.repair().succeeded()

    assert lines_naming(seen.text, "sw1 1/5:", "mtu_bytes", "1500 => 9216"), seen.text[-4000:]
    assert "sw1 1/1: " not in seen.text
    assert configs(frames)["gpu02 enp5s0"].mtu_bytes == 9216
    assert on_node("gpu01", LARGE.format(PEER_A)) == "answers"


def test_a_second_lab_is_refused_with_the_name_of_the_first(lab_stack: Stack, simulator: Path) -> None:
    del lab_stack  # it owns the ports
    second = edited_for_ever(Stack.make(simulator / "tests-second"), "other")

    refused = second.pulumi("preview").failed()

    assert lines_naming(refused.text, "1/1", "lab lab", "description"), refused.text[-4000:]
    assert "Traceback" not in refused.text


def test_destroy_gives_the_ports_back_as_they_were(lab_stack: Stack, frames: SwitchClient) -> None:
    lab_stack.pulumi("destroy").succeeded()

    assert set(configs(frames).values()) == {UNUSED}
    assert "rocelab:" not in by_hand("show running-config")
    assert (
        json.loads(lab_stack.run("pulumi", "stack", "export").succeeded().text)["deployment"].get("resources", []) == []
    )

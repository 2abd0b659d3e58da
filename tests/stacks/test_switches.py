"""Switches in a lab file: what must not be accepted, by path and with a remedy."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from stacks.base import LabError
from tests.components.switches.labs import REFERENCE, switch_entry
from tests.labs import lab_of
from tests.messages import stating
from tests.stacks.refusals import has_fault

Edit = Callable[[dict[str, Any]], object]


def parsed(edit: Edit = lambda _: None, os: str = "onyx", **changes: Any) -> Any:
    lab = copy.deepcopy(REFERENCE)
    lab["switches"] = [switch_entry(os, **changes)]
    edit(lab)
    return lab_of(lab)


def ports(lab: dict[str, Any]) -> dict[str, Any]:
    return lab["switches"][0]["ports"]


def second(lab: dict[str, Any], **changes: Any) -> None:
    lab["switches"].append(switch_entry(**{"name": "sw2", "address": "127.0.12.251", "ports": {}, **changes}))


CASES: dict[str, tuple[Edit, dict[str, Any], str, list[str | int]]] = {
    "a port used twice": (
        lambda lab: ports(lab)["gpu02"].update(enp5s0="1/1"),
        {},
        "switches[0].ports.gpu02.enp5s0",
        ["1/1", "switches[0].ports.gpu01.enp5s0"],
    ),
    "a PF on two switches": (
        lambda lab: second(lab, ports={"gpu01": {"enp5s0": "1/9"}}),
        {},
        "switches[1].ports.gpu01.enp5s0",
        ["gpu01 enp5s0", "switches[0].ports.gpu01.enp5s0"],
    ),
    "an unknown node": (
        lambda lab: ports(lab).update(gpu09={"enp5s0": "1/9"}),
        {},
        "switches[0].ports.gpu09",
        ["gpu09", "gpu01, gpu02"],
    ),
    "an unknown interface": (
        lambda lab: ports(lab)["gpu01"].update(enp6s0="1/9"),
        {},
        "switches[0].ports.gpu01.enp6s0",
        ["gpu01", "enp6s0", "enp5s0, enp132s0"],
    ),
    "a PF without a port": (
        lambda lab: ports(lab)["gpu02"].pop("enp132s0"),
        {},
        "nodes[1].pfs[1].interface",
        ["enp132s0", "switches[].ports.gpu02"],
    ),
    "an MTU that is too small": (
        lambda _: None,
        {"mtu_bytes": 9000},
        "switches[0].mtu_bytes",
        [9000, 9022],
    ),
    "a native VLAN that pods have": (
        lambda _: None,
        {"native_vlans": {"rail-a": 112}},
        "switches[0].native_vlans",
        ["rail-a", "VLAN 112", "rail-b"],
    ),
    "a native VLAN of no rail": (
        lambda _: None,
        {"native_vlans": {"rail-c": 7}},
        "switches[0].native_vlans.rail-c",
        ["rail-c", "rail-a, rail-b"],
    ),
    "a name given twice": (lambda lab: second(lab, name="sw1"), {}, "switches[1].name", ["sw1", "switches[0].name"]),
    "an address given twice": (
        lambda lab: second(lab, address="127.0.12.250"),
        {},
        "switches[1].address",
        ["127.0.12.250 port 22", "switches[0].address"],
    ),
    "a node's address": (
        lambda _: None,
        {"address": "127.0.12.1", "ssh_port": 2222},
        "switches[0].address",
        ["127.0.12.1 port 2222", "nodes[0].address"],
    ),
    "a port of another system": (
        lambda lab: ports(lab)["gpu01"].update(enp5s0="swp1"),
        {},
        "switches[0].ports.gpu01.enp5s0",
        ["'swp1'"],
    ),
    "a system that nobody knows": (
        lambda lab: lab["switches"][0].update(os="ios"),
        {},
        "switches[0]",
        ["'ios'", "'onyx', 'nvue', 'sonic', 'eos'"],
    ),
    "apply to a real switch in a virtual lab": (
        lambda _: None,
        {"apply": True, "address": "10.0.0.9"},
        "switches[0].apply",
        ["onyx", "10.0.0.9", "loopback"],
    ),
    "lossless Onyx without switch-wide commands": (
        lambda lab: lab.update(qos={"mode": "lossless"}),
        {"apply": True},
        "switches[0].allow_global",
        ["false", "onyx", "lossless"],
    ),
    "names too long for a description": (
        lambda lab: lab.update(name="a" * 40) or lab["rails"][0].update(name="b" * 16),
        {"native_vlans": {}},
        "switches[0]",
        [f"rocelab:{'a' * 40}:{'b' * 16}", 65, 63],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_by_path_with_a_remedy(name: str) -> None:
    edit, changes, path, facts = CASES[name]

    with pytest.raises(LabError) as refused:
        parsed(edit, **{"os": "onyx", **changes})
    assert has_fault(str(refused.value), path, *facts)


def test_sonic_wants_a_vlan_for_untagged_frames() -> None:
    with pytest.raises(LabError, check=stating("rail-b", "sonic", "VLAN 1"), match=r"native_vlans: "):
        parsed(os="sonic", native_vlans={"rail-a": 4094})


def test_the_largest_mtu_of_eos_is_9214() -> None:
    assert parsed(os="eos").switches[0].mtu_bytes == 9214
    with pytest.raises(LabError, match=r"switches\[0\].mtu_bytes: .*\b9216\b.*\b9214\b"):
        parsed(os="eos", mtu_bytes=9216)


@pytest.mark.parametrize("state", ["drained", "absent"])
def test_a_node_that_is_not_active_needs_no_port(state: str) -> None:
    def edit(lab: dict[str, Any]) -> None:
        lab["nodes"][1]["state"] = state
        ports(lab).pop("gpu02")

    assert parsed(edit).switches


def test_loopback_is_refused_on_hardware() -> None:
    def edit(lab: dict[str, Any]) -> None:
        lab["kind"] = "hardware"

    with pytest.raises(LabError, match=r"switches\[0\].address: .*\b127.0.12.250\b.*loopback"):
        parsed(edit)


def test_a_lab_without_switches_asks_for_no_port() -> None:
    assert parsed(lambda lab: lab.pop("switches")).switches == ()

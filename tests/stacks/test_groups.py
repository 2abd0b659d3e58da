"""A lab file with groups: it stands for the same lab as one that is spelled out, and its faults name line and node."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from stacks.base import LabError, Section, members
from stacks.groups import ExceptionPf, GroupPf, NodeValues, PodGroup, RailGroup
from stacks.nodes import BareMetal, Pf, VsphereVm
from stacks.rails import PodSide, Rail
from stacks.read import KEY, expand_text, parse_lab, read_stack_file
from stacks.schema import stack_file_schema
from stacks.switches import Switch
from tests.conftest import ROOT
from tests.labs import lab_of
from tests.messages import states
from tests.stacks.refusals import faults_at

TEMPLATE = ROOT / "templates" / "roce-groups" / "Pulumi.pod1.yaml"
GROUPS = yaml.safe_load(TEMPLATE.read_text())["config"][KEY]

Edit = Callable[[dict[str, Any]], object]


def refusal(edit: Edit) -> str:
    lab = copy.deepcopy(GROUPS)
    edit(lab)
    with pytest.raises(LabError) as refused:
        parse_lab(json.dumps(lab), "Pulumi.bad.yaml")
    return str(refused.value)


def test_64_nodes_with_8_rails_and_their_switches_are_less_than_50_lines() -> None:
    lab = read_stack_file(TEMPLATE)

    assert len(TEMPLATE.read_text().splitlines()) < 50
    assert [len(lab.rails), len(lab.nodes), len(lab.switches)] == [8, 64, 8]
    assert sum(len(node.pfs) for node in lab.nodes) == 512
    assert sum(len(ports) for switch in lab.switches for ports in switch.ports.values()) == 512
    last = lab.nodes[63]
    assert (last.name, str(last.address)) == ("gpu64", "192.0.2.74")
    assert str(last.pfs[7].address) == "10.10.8.74/24"
    assert lab.rails[7].pod.vlan_id == 118
    assert str(lab.rails[7].pod.last_address) == "10.20.8.254"
    assert lab.switches[7].ports["gpu64"] == {"ens8f0np0": "Ethernet252"}
    assert lab.switches[7].native_vlan("rail-8") == 18


def test_an_exception_holds_for_its_node_alone_and_for_its_cable() -> None:
    lab = read_stack_file(TEMPLATE)
    by_name = {node.name: node for node in lab.nodes}

    assert [node.name for node in lab.nodes if node.state == "drained"] == ["gpu46"]
    assert [node.name for node in lab.nodes if node.pfs[2].interface == "ens31f0np0"] == ["gpu17"]
    assert str(by_name["gpu17"].pfs[2].address) == "10.10.3.27/24"
    assert lab.switches[2].ports["gpu17"] == {"ens31f0np0": "Ethernet64"}


def test_the_spelled_out_file_describes_the_same_lab(tmp_path: Path) -> None:
    flat = tmp_path / "Pulumi.flat.yaml"
    flat.write_text(expand_text(TEMPLATE))

    assert "names:" not in flat.read_text()
    assert read_stack_file(flat) == read_stack_file(TEMPLATE)
    assert expand_text(flat) == flat.read_text(), "spelled out once is spelled out"


def test_a_file_without_groups_is_printed_as_the_lab_that_it_is(tmp_path: Path) -> None:
    flat = tmp_path / "Pulumi.flat.yaml"
    flat.write_text(expand_text(ROOT / "Pulumi.lab.yaml"))

    assert read_stack_file(flat) == read_stack_file(ROOT / "Pulumi.lab.yaml")


def test_groups_and_single_entries_can_be_mixed() -> None:
    lab = copy.deepcopy(GROUPS)
    del lab["switches"]
    old = {"name": "old1", "address": "192.0.2.9", "management_interface": "eth0"}
    old["pfs"] = [{"rail": "rail-1", "interface": "p1p1", "rdma_device": "mlx5_0", "vfs": 3, "address": "10.10.1.9/24"}]
    lab["nodes"].insert(0, old)

    found = lab_of(lab)

    assert [node.name for node in found.nodes[:2]] == ["old1", "gpu01"]


def test_regular_names_of_pfs_fit_on_one_line() -> None:
    lab = copy.deepcopy(GROUPS)
    regular = {"rail": "rail-[1-8]", "interface": "ens[11-18]np0", "rdma_device": "mlx5_[0-7]", "vfs": 3}
    lab["node_classes"]["xe9680"]["pfs"] = [regular]
    lab["nodes"][0]["except"] = {}

    node = lab_of(lab).nodes[63]

    assert [(pf.rail, pf.interface, pf.rdma_device) for pf in node.pfs][7] == ("rail-8", "ens18np0", "mlx5_7")
    assert len(node.pfs) == 8


def put(path: str, value: object) -> Edit:
    """An edit that sets `nodes.0.except.gpu17`-like paths."""

    def edit(lab: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        place: Any = lab
        for step in parents:
            place = place[int(step) if step.isdigit() else step]
        place[last] = value

    return edit


CASES: dict[str, tuple[Edit, str, list[str | int]]] = {
    # name: (edit, path of the fault, what the fault must state)
    "sets of unequal length": (
        put("rails/0/resource_name", "rdma_[1-7]"),
        "rails[0].resource_name",
        ["rdma_[1-7]", "7 names", 8, "rail-[1-8]"],
    ),
    "ports for fewer nodes": (
        put("switches/0/ports", [{"nodes": "gpu[01-64]", "rails": "rail-[1-8]", "port": "Ethernet[0-248/4]"}]),
        "switches[0].ports[0].port",
        ["63 names", 64, "7 more"],
    ),
    "rails for fewer switches": (
        put("switches/0/ports", [{"nodes": "gpu[01-64]", "rails": "rail-[1-7]", "port": "Ethernet[0-252/4]"}]),
        "switches[0].ports[0].rails",
        ["7 names", 8],
    ),
    "a cable to a node that is none": (
        put("switches/0/ports", [{"nodes": "gpu[02-65]", "rails": "rail-[1-8]", "port": "Ethernet[0-252/4]"}]),
        "switches[0].ports[0]",
        ["gpu65", "rail-1", "7 more"],
    ),
    "a key that switches of no OS have": (
        put("switches/0/mtu", 9216),
        "switches[0].mtu",
        ["leaf1", "mtu_bytes", "7 more"],
    ),
    "a key that switches of another OS have": (
        put("switches/0/bridge", "br_default"),
        "switches[0].bridge",
        ["leaf1", "unknown key", "7 more"],
    ),
    "a value that no switch of the group may have": (
        put("switches/0/confirm_s", 5),
        "switches[0].confirm_s",
        ["leaf1", 5, 60, "7 more"],
    ),
    "an OS that nobody knows": (
        put("switches/0/os", "ios"),
        "switches[0]",
        ["leaf1", "'ios'", "'onyx'", "7 more"],
    ),
    "a group of switches without an OS": (
        lambda lab: lab["switches"][0].pop("os"),
        "switches[0]",
        ["leaf1", "'os'", "missing", "7 more"],
    ),
    "a group of switches with one name": (
        put("switches/0/name", "leaf1"),
        "switches[0].name",
        ["names"],
    ),
    "a bracket that does not close": (put("nodes/0/names", "gpu[01-64"), "nodes[0].names", ["pattern"]),
    "a name twice in a set": (put("nodes/0/names", "gpu[01-64,17]"), "nodes[0].names", ["gpu17", "twice"]),
    "a group of one name with another": (
        lambda lab: lab["nodes"].append({**lab["nodes"][0], "names": "gpu64", "except": {}}),
        "nodes[1].names",
        ["gpu64", "nodes[0].names (gpu64)"],
    ),
    "an exception for no node": (
        put("nodes/0/except/gpu99", {"state": "drained"}),
        "nodes[0].except.gpu99",
        ["gpu99", "gpu[01-64]"],
    ),
    "an exception that says what the class says": (
        put("nodes/0/except/gpu17", {"management_interface": "eno1"}),
        "nodes[0].except.gpu17.management_interface",
        ["eno1", "group's"],
    ),
    "an exception for a rail without PF": (
        put("nodes/0/except/gpu17", {"pfs": {"rail-9": {"vfs": 1}}}),
        "nodes[0].except.gpu17.pfs.rail-9",
        ["gpu17", "rail-9", "rail-1"],
    ),
    "a progression that leaves its subnet": (
        put("nodes/0/rail_host", {"first": 200}),
        "nodes[0].rail_host",
        ["gpu57", 256, "10.10.1.0/24", "rail-1", "63 more"],
    ),
    "a progression that leaves IPv4": (
        put("nodes/0/address", {"first": "255.255.255.250"}),
        "nodes[0].address",
        ["gpu07", "IPv4", "57 more"],
    ),
    "step 0": (
        put("nodes/0/address", {"first": "192.0.2.11", "step": 0}),
        "nodes[0].address.step",
        [0, 1],
    ),
    "one address for a whole group": (
        put("nodes/0/address", "192.0.2.11"),
        "nodes[0].address",
        ["gpu02", "192.0.2.11 port 22", "nodes[0].address (gpu01)", "62 more"],
    ),
    "nodes without a number on their rails": (
        lambda lab: lab["nodes"][0].pop("rail_host"),
        "nodes[0].rail_host",
        ["gpu01", "missing", "rail-1", "511 more"],
    ),
    "a class that is not there": (
        put("nodes/0/class", "dgx"),
        "nodes[0].class",
        ["node_classes", "dgx", "xe9680"],
    ),
    "a PF on no rail": (
        lambda lab: lab["node_classes"]["xe9680"]["pfs"][0].update(rail="rail-0"),
        "node_classes.xe9680.pfs[0].rail",
        ["rail-0"],
    ),
    "an address of the router": (
        put("rails/0/host_gateway", 74),
        "nodes[0].rail_host",
        ["gpu64", "10.10.1.74", "host_gateway of rail-1", "7 more"],
    ),
    "a VLAN beyond the last": (
        lambda lab: lab["rails"][0]["pod"].update(vlan_id={"first": 4090}),
        "rails[0].pod.vlan_id",
        ["rail-6", 4095, 4094, "2 more"],
    ),
    "an exception with a wrong value": (
        put("nodes/0/except/gpu17", {"pfs": {"rail-3": {"address": "10.10.9.9/24"}}}),
        "nodes[0].except.gpu17.pfs.rail-3.address",
        ["10.10.9.9/24", "rail-3's host_subnet"],
    ),
    "an unknown key in a class": (
        put("node_classes/xe9680/management", "eno1"),
        "node_classes.xe9680.management",
        ["management_interface"],
    ),
    "an unknown key in a group": (put("nodes/0/gpu", 8), "nodes[0].gpu", ["gpus"]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_group_is_refused_by_the_file_s_own_path_and_once(name: str) -> None:
    edit, path, facts = CASES[name]

    text = refusal(edit)

    found = [fault for fault in faults_at(text, path) if states(fault, *facts)]
    assert len(found) == 1, f"{name}: not one fault of {path} with {facts} in\n{text}"
    assert len(text.splitlines()) <= 15


def test_a_fault_names_line_field_node_and_what_it_meets(tmp_path: Path) -> None:
    """The address of one node of a group is that of a single node."""
    text = TEMPLATE.read_text().replace(
        "gpu17: {pfs: {rail-3: {interface: ens31f0np0}}}", "gpu17: {address: 192.0.2.74}"
    )
    path = tmp_path / "Pulumi.pod1.yaml"
    path.write_text(text)
    line = next(i for i, line in enumerate(text.splitlines(), 1) if "address: {first: 192.0.2.11}" in line)

    with pytest.raises(LabError) as refused:
        read_stack_file(path)

    [fault] = [text for text in str(refused.value).splitlines() if text.strip().startswith(f"line {line}: ")]
    assert states(fault, "nodes[0].address", "gpu64", "192.0.2.74 port 22", "nodes[0].except.gpu17.address")


@pytest.mark.parametrize(
    ("group", "single", "derived"),
    [
        (RailGroup, (Rail,), {"name"}),
        (PodGroup, (PodSide,), {"first_address", "last_address"}),
        (GroupPf, (Pf,), {"address", "gateway"}),
        (ExceptionPf, (Pf,), {"rail"}),
        (NodeValues, (BareMetal, VsphereVm), {"name", "formerly", "address", "pfs"}),
    ],
)
def test_a_group_can_say_what_each_of_its_members_can(
    group: type[Section], single: tuple[type[Section], ...], derived: set[str]
) -> None:
    fields = {field for one in single for field in one.model_fields}

    assert fields - derived <= set(group.model_fields)


def test_an_editor_offers_a_group_of_switches_every_key_of_every_os() -> None:
    group = json.loads(stack_file_schema())["$defs"]["SwitchGroup"]
    fields = {field for model in members(Switch, "os").values() for field in model.model_fields}

    assert set(group["properties"]) == fields - {"name"} | {"names"}
    assert group["properties"]["os"]["enum"] == list(members(Switch, "os"))
    assert group["additionalProperties"] is False

"""Lab files that must not be accepted: each is refused by path, with the value, the limit and a remedy."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import yaml

from stacks.base import LabError
from stacks.lab import Lab
from stacks.read import KEY, parse_lab, read_stack_file
from stacks.rules import RULES, Parts
from tests.conftest import ROOT

Edit = Callable[[dict[str, Any]], object]
REFERENCE = yaml.safe_load((ROOT / "Pulumi.lab.yaml").read_text())["config"][KEY]


def refusal(edit: Edit) -> str:
    lab = copy.deepcopy(REFERENCE)
    edit(lab)
    with pytest.raises(LabError) as refused:
        parse_lab(json.dumps(lab), "Pulumi.bad.yaml")
    return str(refused.value)


def put(path: str, value: object) -> Edit:
    """An edit that sets `nodes.0.pfs.1.vfs`-like paths."""

    def edit(lab: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        place: Any = lab
        for step in parents:
            place = place[int(step) if step.isdigit() else step]
        place[int(last) if last.isdigit() else last] = value

    return edit


def swap_interfaces(node: dict[str, Any]) -> None:
    first, second = node["pfs"]
    first["interface"], second["interface"] = second["interface"], first["interface"]


CASES: dict[str, tuple[Edit, str, str]] = {
    # name: (edit, path in the message, what the message must say)
    "a key that nobody knows": (put("rails.0.mtu", 9000), "rails[0].mtu", r"unknown key; did you mean mtu_bytes\?"),
    "an unknown key unlike any": (put("zzz", 1), "zzz", "known here: name, kind, access"),
    "a missing section": (lambda lab: lab.pop("access"), "access", "missing"),
    "a missing field": (
        lambda lab: lab["nodes"][0].pop("management_interface"),
        "nodes[0].management_interface",
        "missing",
    ),
    "a kind that does not exist": (put("kind", "cloud"), "kind", "'virtual' or 'hardware'"),
    "VLAN 0": (put("rails.0.pod.vlan_id", 0), "rails[0].pod.vlan_id", "0 should be greater than or equal to 1"),
    "VLAN 4095": (
        put("rails.0.pod.vlan_id", 4095),
        "rails[0].pod.vlan_id",
        "4095 should be less than or equal to 4094",
    ),
    "one VLAN for two rails": (
        put("rails.1.pod.vlan_id", 111),
        "rails[1].pod.vlan_id",
        r"VLAN 111 is also that of rails\[0\]",
    ),
    "MTU 9300": (put("rails.0.mtu_bytes", 9300), "rails[0].mtu_bytes", "9300 should be less than or equal to 9216"),
    "a number in quotes": (put("rails.0.mtu_bytes", "9000"), "rails[0].mtu_bytes", "should be a valid integer"),
    "8 VFs on igb": (
        put("nodes.0.pfs.0.vfs", 8),
        "nodes[0].pfs[0]",
        "vfs 8 on enp5s0, but the igb driver creates at most 7; lower it",
    ),
    "a negative number of VFs": (put("nodes.0.pfs.0.vfs", -1), "nodes[0].pfs[0].vfs", "greater than or equal to 0"),
    "two nodes at one address": (
        put("nodes.1.address", "127.0.12.1"),
        "nodes[1].address",
        "127.0.12.1 port 2222 is also",
    ),
    "two PFs with one address": (
        put("nodes.1.pfs.0.address", "10.10.11.11/24"),
        "nodes[1].pfs[0].address",
        r"10.10.11.11 is also that of nodes\[0\].pfs\[0\].address",
    ),
    "two nodes of one name": (put("nodes.1.name", "gpu01"), "nodes[1].name", "gpu01 is also that of"),
    "a PF outside its rail": (
        put("nodes.0.pfs.0.address", "10.10.12.9/24"),
        "nodes[0].pfs[0].address",
        "is outside rail-a's",
    ),
    "a PF with the wrong prefix": (
        put("nodes.0.pfs.0.address", "10.10.11.9/16"),
        "nodes[0].pfs[0].address",
        "with /24",
    ),
    "a PF with the broadcast address": (
        put("nodes.0.pfs.0.address", "10.10.11.255/24"),
        "nodes[0].pfs[0].address",
        "broadcast",
    ),
    "IPv6 where IPv4 belongs": (put("nodes.0.address", "::1"), "nodes[0].address", "'::1'.*Management address"),
    "a rail that does not exist": (
        put("nodes.0.pfs.0.rail", "rail-c"),
        "nodes[0].pfs[0].rail",
        "rails: rail-a, rail-b",
    ),
    "two PFs on one rail": (put("nodes.0.pfs.1.rail", "rail-a"), "nodes[0]", "two PFs share rail rail-a.*no bond"),
    "two PFs that are one NIC": (
        put("nodes.0.pfs.1.interface", "enp5s0"),
        "nodes[0]",
        "two PFs share interface enp5s0",
    ),
    "the management interface as a rail": (
        put("nodes.0.management_interface", "enp5s0"),
        "nodes[0]",
        "enp5s0 is the management interface and a PF",
    ),
    "an interface name of 16 letters": (
        put("nodes.0.pfs.0.interface", "e" * 16),
        "nodes[0].pfs[0].interface",
        "at most 15",
    ),
    "a shell word as interface": (
        put("nodes.0.pfs.0.interface", "eth0;reboot"),
        "nodes[0].pfs[0].interface",
        "pattern",
    ),
    "rails that overlap": (
        put("rails.1.host_subnet", "10.10.0.0/16"),
        "rails[1].host_subnet",
        "overlaps rail-a's host_subnet",
    ),
    "a rail in the pod network": (put("cluster.pod_subnet", "10.0.0.0/8"), "cluster.pod_subnet", "overlaps rail-a's"),
    "a rail in the service network": (
        put("cluster.service_subnet", "10.10.11.0/24"),
        "cluster.service_subnet",
        "overlaps",
    ),
    "management on a rail": (
        put("rails.0.host_subnet", "127.0.12.0/24"),
        "nodes[0].address",
        "is in rail-a's host_subnet 127.0.12.0/24; use a management address outside the rails",
    ),
    "host bits in a subnet": (
        put("rails.0.host_subnet", "10.10.11.1/24"),
        "rails[0].host_subnet",
        "has host bits set. Untagged subnet",
    ),
    "a pool outside its subnet": (put("rails.0.pod.last_address", "10.20.9.9"), "rails[0].pod", "is outside subnet"),
    "a pool that ends before it begins": (put("rails.0.pod.last_address", "10.20.111.5"), "rails[0].pod", "swap them"),
    "a gateway inside the pool": (put("rails.0.pod.gateway", "10.20.111.20"), "rails[0].pod", "inside the pool"),
    "a block smaller than the VFs": (
        put("rails.0.pod.addresses_per_node", 3),
        "rails[0].pod.addresses_per_node",
        "at least 4",
    ),
    "a pool with a block for one node only": (
        put("rails.0.pod.last_address", "10.20.111.30"),
        "rails[0].pod",
        r"1 whole block of 8 \(counted from 10.20.111.1\) for 2 nodes; widen it to 24",
    ),
    "one interface name on two rails": (
        lambda lab: swap_interfaces(lab["nodes"][1]),
        "nodes[1].pfs[0].interface",
        "enp132s0 is on rail-a here and on rail-b at gpu01",
    ),
    "a resource with a hyphen": (put("rails.0.resource_name", "sriov-111"), "rails[0].resource_name", "pattern"),
    "one resource for two rails": (
        put("rails.1.resource_name", "sriov_111"),
        "rails[1].resource_name",
        "is also that of",
    ),
    "one network for two rails": (put("rails.1.network_name", "sriov111"), "rails[1].network_name", "is also that of"),
    "a host name with an underscore": (put("nodes.0.name", "gpu_01"), "nodes[0].name", "pattern"),
    "no node at all": (put("nodes", []), "nodes", "at least 1 item"),
    "a real machine in a virtual lab": (put("nodes.0.address", "192.168.1.5"), "nodes[0].address", "loopback only"),
    "a former name still in use": (
        put("nodes.0.formerly", "gpu02"),
        "nodes[0].formerly",
        "gpu02 is still a node of this lab",
    ),
    "an unknown former kind of state": (
        put("nodes.0.state", "off"),
        "nodes[0].state",
        "'active', 'drained' or 'absent'",
    ),
    "a user with a blank": (put("access.user", "root x"), "access.user", "pattern"),
    "a key file that is not named": (lambda lab: lab["access"].pop("key_file"), "access.key_file", "missing"),
    "a kubeconfig that is not named": (
        lambda lab: lab["cluster"].pop("kubeconfig_file"),
        "cluster.kubeconfig_file",
        "missing, but kubeconfig: file needs it",
    ),
    "an image without tag": (put("benchmarks.nccl.image", "nccl-test"), "benchmarks.nccl.image", "pattern"),
    "thresholds the wrong way round": (
        put("benchmarks.verbs.threshold", {"fail_below": 0.99, "warn_below": 0.9}),
        "benchmarks.verbs.threshold",
        "swap them",
    ),
    "a threshold in percent": (
        put("benchmarks.verbs.threshold", {"fail_below": 90}),
        "fail_below",
        "less than or equal to 1",
    ),
    "a reboot budget of nothing": (
        put("hosts", {"reboot_budget_s": 0}),
        "hosts.reboot_budget_s",
        "greater than or equal",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_by_path_with_value_limit_and_remedy(name: str) -> None:
    edit, path, says = CASES[name]

    text = refusal(edit)

    line = next((line for line in text.splitlines() if path in line and re.search(says, line)), None)
    assert line, f"{name}: no line with {path!r} and {says!r} in\n{text}"
    assert len(text.splitlines()) <= 15


def test_the_reference_lab_is_accepted() -> None:
    assert parse_lab(json.dumps(REFERENCE), "x").name == "lab", "or every refusal above proves nothing"


def test_a_lab_of_real_machines_has_no_simulator_section() -> None:
    def edit(lab: dict[str, Any]) -> None:
        lab["kind"], lab["simulator"] = "hardware", {"kubelets": "real"}

    assert re.search(r"^ *simulator \(line|simulator: kind: hardware needs no simulator", refusal(edit), re.MULTILINE)


def test_real_kubelets_need_an_api_server() -> None:
    def edit(lab: dict[str, Any]) -> None:
        lab["simulator"] = {"kubelets": "real"}
        del lab["cluster"], lab["benchmarks"]

    assert "simulator.kubelets" in refusal(edit)


def test_simulated_nics_and_key_files_are_refused_on_hardware() -> None:
    text = refusal(put("kind", "hardware"))

    assert "nodes[0].pfs[0].driver: igb has no RDMA" in text
    assert "access.identity: file works only with the simulator" in text
    assert "nodes[0].address: 127.0.12.1 is loopback" in text


def test_faults_of_fields_and_between_sections_are_reported_at_once() -> None:
    def edit(lab: dict[str, Any]) -> None:
        put("rails.0.pod.vlan_id", 4095)(lab)
        put("nodes.1.address", "127.0.12.1")(lab)
        put("access.usr", "x")(lab)

    text = refusal(edit)

    assert all(part in text for part in ("rails[0].pod.vlan_id", "nodes[1].address", "access.usr"))


def test_a_hundred_faults_fit_on_a_screen_and_are_counted() -> None:
    text = refusal(lambda lab: lab["nodes"].extend([{"name": f"BAD{i}"} for i in range(100)]))

    assert len(text.splitlines()) <= 15
    assert re.search(r"and \d{3} more", text)


def test_a_password_in_an_unknown_key_is_not_repeated() -> None:
    assert "hunter2" not in refusal(put("access.password", "hunter2"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("config: {}\n", "has no config key rocelab:lab"),
        ("config:\n\trocelab:lab: 1\n", "is not YAML at line 2"),
        ("a: [", "is not YAML"),
        ("", "has no config key"),
        ("config:\n  rocelab:lab: 5\n", "does not describe a lab"),
    ],
)
def test_a_file_that_is_no_stack_file_is_refused(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(content)

    with pytest.raises(LabError, match=says):
        read_stack_file(path)


def test_other_encodings_and_huge_files_are_refused(tmp_path: Path) -> None:
    latin, huge = tmp_path / "latin.yaml", tmp_path / "huge.yaml"
    latin.write_bytes("config: gerät".encode("latin-1"))
    huge.write_bytes(b"#" * 5_000_000)

    with pytest.raises(LabError, match="not UTF-8"):
        read_stack_file(latin)
    with pytest.raises(LabError, match="exceeds"):
        read_stack_file(huge)
    with pytest.raises(LabError, match="cannot be read: No such file"):
        read_stack_file(tmp_path / "none.yaml")


def test_a_fault_names_its_line_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    text = (ROOT / "Pulumi.lab.yaml").read_text().replace("vlan_id: 111", "vlan_id: 4095")
    path.write_text(text)
    line = text.splitlines().index("          vlan_id: 4095") + 1

    with pytest.raises(LabError, match=rf"line {line}: rails\[0\].pod.vlan_id"):
        read_stack_file(path)


def test_the_parameters_of_every_rule_are_sections_of_a_lab_and_have_their_types() -> None:
    """A rule with another parameter would never apply, and nobody would notice."""
    for rule, names in RULES.items():
        types = get_type_hints(rule, include_extras=True)
        for name in names:
            of_lab = Parts if name == "parts" else Lab.model_fields[name].annotation
            assert types[name] in (of_lab, *get_args(of_lab)), f"{rule.__module__}.{rule.__name__}: {name}"

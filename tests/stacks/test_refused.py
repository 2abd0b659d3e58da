"""Lab files that must not be accepted: each is refused by path, with the value, the limit and a remedy."""

import copy
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from stacks.base import LabError
from stacks.lab import Lab
from stacks.read import read_stack_file
from stacks.rules import RULES, Parts
from tests.conftest import ROOT
from tests.labs import FABRIC, REFERENCE, lab_of
from tests.messages import stating
from tests.stacks.refusals import CASES, has_fault, put, refusal


@pytest.mark.row("A 10c", case="management on a rail")
@pytest.mark.row("A 10c", case="the management interface as a rail")
@pytest.mark.row("A 123-155", case="two nodes at one address")
@pytest.mark.row("A 20a", "A 21", case="two PFs on one rail")
@pytest.mark.row("A 20b", case="a PF outside its rail")
@pytest.mark.row("A 20b", case="rails that overlap")
@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_by_path_with_value_limit_and_remedy(name: str) -> None:
    edit, path, facts = CASES[name]

    text = refusal(edit)

    assert has_fault(text, path, *facts), f"{name}: no fault of {path} with {facts} in\n{text}"
    assert len(text.splitlines()) <= 15


def test_the_reference_lab_is_accepted() -> None:
    assert lab_of(REFERENCE).name == "lab", "or every refusal above proves nothing"


def test_a_lab_of_real_machines_has_no_simulator_section() -> None:
    def edit(lab: dict[str, Any]) -> None:
        lab["kind"], lab["simulator"] = "hardware", {"kubelets": "real"}

    assert re.search(r"^ *(line \d+: )?simulator( \(line|: .*\bhardware\b)", refusal(edit), re.MULTILINE)


def test_real_kubelets_need_an_api_server() -> None:
    def edit(lab: dict[str, Any]) -> None:
        lab["simulator"] = {"kubelets": "real"}
        del lab["cluster"], lab["benchmarks"]

    assert "simulator.kubelets" in refusal(edit)


def test_simulated_nics_and_key_files_are_refused_on_hardware() -> None:
    text = refusal(put("kind", "hardware"))

    assert has_fault(text, "nodes[0].pfs[0].driver", "igb", "RDMA")
    assert has_fault(text, "access.identity", "file", "simulator")
    assert has_fault(text, "nodes[0].address", "127.0.12.1", "loopback")


def test_a_rail_of_hardware_is_not_loopback() -> None:
    def edit(lab: dict[str, Any]) -> None:
        lab["kind"] = "hardware"
        lab["rails"][0]["host_subnet"] = lab["rails"][1]["pod"]["subnet"] = "127.0.0.0/24"
        lab["rails"][1]["pod"] |= {"first_address": "127.0.0.10", "last_address": "127.0.0.200"}

    text = refusal(edit)

    assert has_fault(text, "rails[0].host_subnet", "127.0.0.0/24", "loopback")
    assert has_fault(text, "rails[1].pod.subnet", "127.0.0.0/24", "loopback")


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


@pytest.mark.parametrize(
    ("section", "value", "path", "fact"),
    [
        ("cluster.bootstrap", {"packages": "x"}, "cluster.bootstrap.packages", "preinstalled"),
        ("cluster.bootstrap", {"packages": {"ur": "x"}}, "cluster.bootstrap.packages.ur", "url"),
        ("cluster.bootstrap", {"packages": {"ur": "x"}}, "cluster.bootstrap.packages.key_sha256", "missing"),
        ("benchmarks.verbs.queue_pairs", "x", "benchmarks.verbs.queue_pairs", "auto"),
        ("licence", {"kind": "legacy", "server": "-"}, "licence.server", "'-'"),
        ("switches", [{"os": "eos", "nam": "x"}], "switches[0].nam", "name"),
        ("nodes", [{"names": "a[1-2]", "address": {"first": "x"}}], "nodes[0].address.first", "'x'"),
        ("nodes", [{"names": "a[1-2]", "clas": "x"}], "nodes[0].clas", "class"),
        ("cluster.ipam", {"kind": "dhcp", "dhcp": 1}, "cluster.ipam.dhcp", "kind"),
    ],
)
def test_the_path_of_a_refused_value_does_not_name_the_branch_of_a_union(
    section: str, value: object, path: str, fact: str
) -> None:
    assert has_fault(refusal(put(section, value)), path, fact)


def test_a_password_in_an_unknown_key_is_not_repeated() -> None:
    assert "hunter2" not in refusal(put("access.password", "hunter2"))


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        ("fabric.password", "vcenterPassword"),
        ("fabric.host_keys", "hostKeySeed"),
        ("cluster.kubeconfig", "kubeconfig"),
        ("access.identity", "sshPrivateKey"),
    ],
)
def test_a_secret_in_place_of_where_it_is_is_not_repeated(path: str, secret: str) -> None:
    def edit(lab: dict[str, Any]) -> None:
        lab["fabric"] = copy.deepcopy(FABRIC)
        put(path, "hunter2")(lab)

    text = refusal(edit)

    assert has_fault(text, path, "'secret'", f"pulumi config set --secret rocelab:{secret}")
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("fabric.password", 12_345_678),
        ("cluster.registry", {"pull_secret": "hunter_12345678"}),
        ("driver", {"source": "operator", "container_env": {"TOKEN": 12_345_678}}),
        ("system", {"users": [{"name": "ada", "keys": ["hunter 12345678"]}]}),
    ],
)
def test_no_value_of_a_field_that_is_named_like_a_secret_is_repeated(path: str, value: object) -> None:
    def edit(lab: dict[str, Any]) -> None:
        lab["fabric"] = copy.deepcopy(FABRIC)
        put(path, value)(lab)

    assert "12345678" not in refusal(edit)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("config: {}\n", "has no config key rocelab:lab"),
        ("config:\n\trocelab:lab: 1\n", "is not YAML at line 2"),
        ("a: [", "is not YAML"),
        ("", "has no config key"),
        ("config: {rocelab:lab: {secure: AAABAE}}", "x.yaml: rocelab:lab must not be a secret"),
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
    with pytest.raises(LabError, check=stating("none.yaml", "No such file")):
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

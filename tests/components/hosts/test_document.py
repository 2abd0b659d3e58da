"""The document of a host, and what a field's change means."""

import json
from typing import get_args

import pytest

from components.hosts.changes import field_effect
from components.hosts.document import document_text, host_document, vf_layout
from components.hosts.program.steps.vfs import vf_mac
from components.hosts.records import target_fields
from components.hosts.repair import may_repair, repair_class
from stacks.base import Effect
from stacks.hosts import RepairClass
from stacks.lab import Lab
from tests.components.hosts.fleet_hosts import conforming, record
from tests.conftest import ROOT

GOLDEN = ROOT / "tests/golden/hosts"


def changed(lab: Lab, **values: object) -> Lab:
    return Lab.model_validate({**lab.model_dump(), **values})


@pytest.mark.parametrize("number", [0, 1])
def test_the_reference_lab_renders_exactly_these_documents(lab, number):
    node = lab.nodes[number]

    assert document_text(host_document(lab, node)) == (GOLDEN / f"{node.name}.json").read_text()


def test_a_conforming_host_reports_exactly_these_fields(lab):
    fields = target_fields(host_document(lab, lab.nodes[0]))

    assert json.dumps(fields, indent=1) + "\n" == (GOLDEN / "gpu01.fields.json").read_text()


@pytest.mark.parametrize("vfs", [0, 4])
def test_the_hosts_that_tests_of_the_fleet_play_report_the_same_fields(vfs):
    document = record("gpu01", 1).document
    document = {**document, "pfs": [{**document["pfs"][0], "vfs": vfs}]}

    assert list(target_fields(document).items()) == list(conforming(document).items())


def test_every_field_has_an_effect_and_a_repair_class(lab):
    for field in target_fields(host_document(lab, lab.nodes[0])):
        assert field_effect(field) in get_args(Effect)
        assert repair_class(field) in get_args(RepairClass)


def test_a_pf_without_vfs_has_no_fields_about_vfs(lab):
    node = lab.nodes[0]
    bare = node.model_copy(update={"pfs": tuple(pf.model_copy(update={"vfs": 0}) for pf in node.pfs)})
    fields = target_fields(host_document(lab, bare))

    assert fields["enp5s0.vfs"] == 0
    assert not [field for field in fields if "vf_" in field]


def test_vf_addresses_are_local_unicast_and_each_its_own(lab):
    documents = [host_document(lab, node) for node in lab.nodes]
    macs = [vf_mac(document, pf, number) for document in documents for pf in ("a", "b") for number in range(4)]

    assert len(macs) == len(set(macs)) == 16
    assert all(int(mac[:2], 16) & 3 == 2 for mac in macs)
    assert vf_mac(documents[0], "enp5s0", 0) == "02:05:de:35:bf:36", "a new address is a new neighbour for everyone"


def test_hardware_loads_no_soft_roce(lab):
    node = lab.nodes[0]
    pfs = tuple(
        pf.model_copy(update={"driver": "mlx5_core", "rdma_device": f"mlx5_{i}"}) for i, pf in enumerate(node.pfs)
    )
    document = host_document(lab, node.model_copy(update={"pfs": pfs}))

    assert document["modules"] == ["ib_umad", "rdma_ucm"]
    assert [pf["soft_roce"] for pf in document["pfs"]] == [False, False]


def test_the_layout_of_vfs_changes_with_their_number_and_not_with_the_mtu(lab):
    rails = [rail | {"mtu_bytes": 4200} for rail in lab.model_dump()["rails"]]
    nodes = lab.model_dump()["nodes"]
    nodes[0]["pfs"][0]["vfs"] = 2

    assert vf_layout(changed(lab, rails=rails)) == vf_layout(lab)
    assert vf_layout(changed(lab, nodes=nodes)) != vf_layout(lab)


@pytest.mark.parametrize(
    ("field", "policy", "allowed"),
    [
        ("enp5s0.mtu_bytes", "none", False),
        ("enp5s0.mtu_bytes", "link", True),
        ("unit", "none", True),
        ("modules", "link", False),
        ("rdma_namespaces", "service", False),
        ("rdma_namespaces", "reboot", True),
    ],
)
def test_a_repair_needs_the_labs_leave(field, policy, allowed):
    assert may_repair(field, policy) is allowed

"""The fabric section: values that contradict each other or the rest of the lab."""

import copy
from typing import Any

import pytest

from stacks.base import LabError
from tests.labs import FABRIC, lab_of, section_of
from tests.stacks.refusals import has_fault

REFERENCE = section_of("Pulumi.lab.yaml")


def faults_of(change: Any) -> str:
    lab = {**copy.deepcopy(REFERENCE), "fabric": copy.deepcopy(FABRIC)}
    change(lab["fabric"], lab)
    try:
        lab_of(lab)
    except LabError as error:
        return str(error)
    return ""


def test_a_fabric_is_taken():
    assert faults_of(lambda fabric, lab: None) == ""


def second(fabric: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(fabric["switches"][0]), **changes}


@pytest.mark.row("C 26, 146-155")
@pytest.mark.parametrize(
    ("change", "field", "facts"),
    [
        (lambda f, lab: f["switches"][0].update(rail="rail-x"), "switches[0].rail", ["rail-x", "rail-a, rail-b"]),
        (lambda f, lab: f["switches"][0].update(mtu_bytes=1500), "switches[0].mtu_bytes", [1500, 9000, "rail-a"]),
        (lambda f, lab: f["switches"][0].update(uplink={}), "switches[0].uplink", ["NIC", "rdma_device"]),
        (
            lambda f, lab: f["switches"][0]["hosts"][0].update(vmkernel={}),
            "switches[0].hosts[0].vmkernel",
            ["address", "existing"],
        ),
        (
            lambda f, lab: f["switches"][0]["hosts"][0].update(vmkernel={"address": "192.168.0.24/24"}),
            "switches[0].hosts[0].vmkernel.address",
            ["192.168.0.24", "host_subnet 10.10.11.0/24"],
        ),
        (
            lambda f, lab: f["switches"].append(second(f, name="b", hosts=[{"name": "esx3"}])),
            "switches[1].rail",
            ["rail-a", "fabric.switches[0].rail"],
        ),
        (lambda f, lab: f["switches"].append(second(f, name="b", rail="rail-b")), "", ["esx1", "vmkernel"]),
        (lambda f, lab: f["switches"][0]["hosts"].append({"name": "esx1"}), "switches[0]", ["esx1", "twice"]),
        (
            lambda f, lab: f["switches"].append(second(f, name="b", rail="rail-b", hosts=[{"name": "esx3"}])),
            "switches[1].hosts[0]",
            ["esx3", "vmnic4", "fabric.switches[0].hosts[2]"],
        ),
        (lambda f, lab: f.update(vcenter="vcenter.lab"), "vcenter", ["vcenter.lab", "loopback"]),
        (lambda f, lab: f.update(password="file"), "password_file", ["password file"]),
        (lambda f, lab: f["switches"][0].update(port_group="a/b"), "switches[0].port_group", ["'a/b'"]),
        (lambda f, lab: f.update(thumbprint_sha256="AB:CD"), "thumbprint_sha256", ["'AB:CD'"]),
    ],
)
def test_a_wrong_value_is_refused_with_path_and_remedy(change, field, facts):
    assert has_fault(faults_of(change), f"fabric.{field}".rstrip("."), *facts)

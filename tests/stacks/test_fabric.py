"""The fabric section: values that contradict each other or the rest of the lab."""

import copy
import json
from typing import Any

import pytest
import yaml

from stacks.base import LabError
from stacks.read import parse_lab
from tests.conftest import ROOT
from tests.labs import FABRIC

REFERENCE = yaml.safe_load((ROOT / "Pulumi.lab.yaml").read_text())["config"]["rocelab:lab"]


def faults_of(change: Any) -> str:
    lab = {**copy.deepcopy(REFERENCE), "fabric": copy.deepcopy(FABRIC)}
    change(lab["fabric"], lab)
    try:
        parse_lab(json.dumps(lab), "lab.yaml")
    except LabError as error:
        return str(error)
    return ""


def test_a_fabric_is_taken():
    assert faults_of(lambda fabric, lab: None) == ""


def second(fabric: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(fabric["switches"][0]), **changes}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f, lab: f["switches"][0].update(rail="rail-x"), "fabric.switches[0].rail: this lab has no rail rail-x"),
        (lambda f, lab: f["switches"][0].update(mtu_bytes=1500), "is below the 9000 of rail-a"),
        (lambda f, lab: f["switches"][0].update(uplink={}), "selects no NIC"),
        (lambda f, lab: f["switches"][0]["hosts"][0].update(vmkernel={}), "set either address"),
        (
            lambda f, lab: f["switches"][0]["hosts"][0].update(vmkernel={"address": "192.168.0.24/24"}),
            "is outside host_subnet 10.10.11.0/24",
        ),
        (
            lambda f, lab: f["switches"].append(second(f, name="b", hosts=[{"name": "esx3"}])),
            "rail rail-a is also that of",
        ),
        (
            lambda f, lab: f["switches"].append(second(f, name="b", rail="rail-b")),
            "host esx1 has a vmkernel on two switches",
        ),
        (lambda f, lab: f["switches"][0]["hosts"].append({"name": "esx1"}), "host esx1 is listed twice"),
        (
            lambda f, lab: f["switches"].append(second(f, name="b", rail="rail-b", hosts=[{"name": "esx3"}])),
            "fabric.switches[1].hosts[0]: uplink esx3: name vmnic4 is also that of fabric.switches[0].hosts[2]",
        ),
        (lambda f, lab: f.update(vcenter="vcenter.lab"), "is not loopback"),
        (lambda f, lab: f.update(password="file"), "needs the simulator's password file"),
        (lambda f, lab: f["switches"][0].update(port_group="a/b"), "fabric.switches[0].port_group"),
        (lambda f, lab: f.update(thumbprint_sha256="AB:CD"), "fabric.thumbprint_sha256"),
    ],
)
def test_a_wrong_value_is_refused_with_path_and_remedy(change, said):
    assert said in faults_of(change)

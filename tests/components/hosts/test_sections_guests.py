"""What a virtual machine's document says of its guest."""

import json
from typing import Any

import pytest
import yaml

from components.hosts.document import host_document
from stacks.base import LabError
from stacks.lab import Lab
from stacks.read import KEY, parse_lab
from tests.conftest import ROOT

PVRDMA = (ROOT / "Pulumi.lab-pvrdma.yaml").read_text()


def asked(text: str = PVRDMA, **sections: object) -> Lab:
    lab: dict[str, Any] = yaml.safe_load(text)["config"][KEY]
    return parse_lab(json.dumps({**lab, **sections}), "Pulumi.lab-pvrdma.yaml")


def test_a_machine_is_told_its_tool_and_the_next_machine_of_its_rail() -> None:
    lab = asked(guests={"network": {}})

    sections = [host_document(lab, node)["guest_network"] for node in lab.nodes]

    assert sections == [
        {"tool": "auto", "peers": {"enp5s0": "192.168.0.32"}},
        {"tool": "auto", "peers": {"enp5s0": "192.168.0.31"}},
    ]


def test_nothing_is_said_where_nobody_asks() -> None:
    lab = asked(guests=None)

    assert all("guest_network" not in host_document(lab, node) for node in lab.nodes)


def test_bare_metal_has_no_guest() -> None:
    with pytest.raises(LabError, match=r"guests\.network: no node is of kind vsphere_vm"):
        asked((ROOT / "Pulumi.lab.yaml").read_text(), guests={"network": {}})


def test_a_routed_rail_keeps_its_rules_from_the_guest_s_tool() -> None:
    rails = yaml.safe_load(PVRDMA)["config"][KEY]["rails"]
    rails[0]["host_gateway"] = "192.168.0.1"

    with pytest.raises(LabError, match=r"rails\[0\]\.host_gateway: .*take guests\.network out"):
        asked(guests={"network": {}}, rails=rails)

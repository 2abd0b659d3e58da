"""What a virtual machine's document says of its guest."""

from ipaddress import IPv4Address
from typing import Any

import pytest
import yaml

from components.hosts.document import host_document
from stacks.base import LabError
from stacks.read import KEY
from tests.conftest import ROOT
from tests.labs import PVRDMA, lab_with
from tests.messages import stating


def test_a_machine_gets_its_tool_and_the_next_machine_of_its_rail() -> None:
    lab = lab_with(guests={"network": {}})

    sections = [host_document(lab, node)["guest_network"] for node in lab.nodes]

    assert sections == [
        {"tool": "auto", "peers": {"enp5s0": "192.168.0.32"}},
        {"tool": "auto", "peers": {"enp5s0": "192.168.0.31"}},
    ]


def test_sections_that_the_lab_file_does_not_use_are_empty() -> None:
    lab = lab_with(guests=None)

    assert all("guest_network" not in host_document(lab, node) for node in lab.nodes)


def test_bare_metal_has_no_guest() -> None:
    with pytest.raises(LabError, check=stating("guests.network", "vsphere_vm")):
        lab_with((ROOT / "Pulumi.lab.yaml").read_text(), guests={"network": {}})


def test_a_routed_rail_keeps_its_rules_from_the_guest_s_tool() -> None:
    rails = yaml.safe_load(PVRDMA)["config"][KEY]["rails"]
    rails[0]["host_gateway"] = "192.168.0.1"

    with pytest.raises(LabError, match=r"rails\[0\]\.host_gateway: .*remove guests\.network"):
        lab_with(guests={"network": {}}, rails=rails)


def test_the_document_says_how_to_be_licensed_and_never_holds_the_token() -> None:
    legacy = lab_with(licence={"kind": "legacy", "server": "172.16.7.9"})

    assert host_document(legacy, legacy.nodes[0])["licence"] == {
        "kind": "legacy",
        "server": "172.16.7.9",
        "settings": {"FeatureType": "1", "ServerAddress": "172.16.7.9", "ServerPort": "7070"},
    }
    compute = lab_with(licence={"kind": "nls", "product": "compute"})
    assert host_document(compute, compute.nodes[0])["licence"] == {
        "kind": "nls",
        "server": "api.cls.licensing.nvidia.com",
        "settings": {"FeatureType": "4"},
    }


CLIENT = {
    "nodes": ["gpu02"],
    "package": {"url": "https://mirror/b.deb", "sha256": "0" * 64},
    "servers": ["192.168.0.60"],
}


def test_a_bitfusion_client_is_only_who_is_named() -> None:
    lab = lab_with(bitfusion_client=CLIENT)

    assert "bitfusion" not in host_document(lab, lab.nodes[0])
    assert host_document(lab, lab.nodes[1])["bitfusion"] == {
        "version": "3.0.1-4",
        "package": CLIENT["package"],
        "authorisation": "vcenter",
    }


@pytest.mark.parametrize(
    ("sections", "fault"),
    [
        (
            {"bitfusion_client": {**CLIENT, "nodes": ["gpu09"]}},
            ["bitfusion_client.nodes[0]", "gpu09"],
        ),
        (
            {"bitfusion_client": {**CLIENT, "servers": ["10.9.9.9"]}},
            ["bitfusion_client.servers[0]", "10.9.9.9", "rail"],
        ),
        ({"bitfusion_client": {**CLIENT, "servers": []}}, ["bitfusion_client.servers", "missing"]),
    ],
)
def test_what_cannot_be_is_refused(sections: dict[str, Any], fault: list[str]) -> None:
    with pytest.raises(LabError, check=stating(*fault)):
        lab_with(**sections)


def test_a_licence_server_is_an_address_or_a_name() -> None:
    with pytest.raises(LabError, match=r"licence\.server: 'a b'"):
        lab_with(licence={"kind": "legacy", "server": "a b"})


@pytest.mark.parametrize(
    ("sections", "fault"),
    [
        ({"licence": {"kind": "nls"}}, ["licence", "vsphere_vm", "gpus"]),
        (
            {"bitfusion_client": {**CLIENT, "servers": ["10.10.11.60"]}},
            ["gpu02", "bare metal", "vCenter"],
        ),
    ],
)
def test_what_bare_metal_cannot_be_is_refused(sections: dict[str, Any], fault: list[str]) -> None:
    with pytest.raises(LabError, check=stating(*fault)):
        lab_with((ROOT / "Pulumi.lab.yaml").read_text(), **sections)


def test_servers_that_the_lab_makes_are_known_to_its_clients_and_named_once() -> None:
    text = (ROOT / "examples" / "bitfusion" / "Pulumi.bitfusion.yaml").read_text()
    lab = lab_with(text)

    assert lab.bitfusion_client
    assert lab.bitfusion_client.servers == ()
    assert lab.bitfusion_addresses == ({"pvrdma": IPv4Address("192.168.30.231")},)
    with pytest.raises(LabError, check=stating("bitfusion_client.servers", "remove")):
        lab_with(text, bitfusion_client={**CLIENT, "nodes": ["bf-client-rho-ub20"], "servers": ["192.168.30.231"]})


def test_existing_servers_are_those_that_the_client_names() -> None:
    assert lab_with(bitfusion_client=CLIENT).bitfusion_addresses == ({"pvrdma": IPv4Address("192.168.0.60")},)

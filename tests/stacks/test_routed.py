"""Fabrics with a router behind each leaf or each cable, and labs without pods."""

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from stacks.base import LabError
from stacks.lab import Lab
from stacks.read import KEY, read_stack_file
from tests.conftest import ROOT
from tests.labs import REFERENCE, lab_of

TEMPLATE = ROOT / "templates" / "roce-routed" / "Pulumi.slurm1.yaml"
ROUTED = yaml.safe_load(TEMPLATE.read_text())["config"][KEY]

Edit = Callable[[dict[str, Any]], object]


def loaded(given: dict[str, Any], *edits: Edit) -> Lab:
    lab = copy.deepcopy(given)
    for edit in edits:
        edit(lab)
    return lab_of(lab)


def homes(lab: Lab, node: str) -> list[tuple[str, str]]:
    """Address and router of a node's PFs."""
    found = next(one for one in lab.nodes if one.name == node)
    return [(str(pf.address), str(pf.gateway)) for pf in found.pfs]


def test_each_cable_of_64_nodes_and_8_rails_is_a_subnet_with_its_leaf_as_router() -> None:
    lab = read_stack_file(TEMPLATE)

    assert homes(lab, "gpu01")[0] == ("172.16.0.0/31", "172.16.0.1")
    assert homes(lab, "gpu02")[0] == ("172.16.0.2/31", "172.16.0.3")
    assert homes(lab, "gpu64")[7] == ("172.16.7.126/31", "172.16.7.127")
    assert len({pf.address.network for node in lab.nodes for pf in node.pfs}) == 512
    assert lab.routed_rails == {f"rail-{k}" for k in range(1, 9)}
    assert lab.cluster is None


def test_links_may_be_counted_by_node_and_the_host_may_have_the_higher_address() -> None:
    """The first node's rails come first, host odd: as Juniper's validated design has it."""

    def juniper(lab: dict[str, Any]) -> None:
        lab["rails"][0].update(host_subnet="10.200.0.0/22", links={"host": "high", "order": "rail"})

    lab = loaded(ROUTED, juniper)

    assert homes(lab, "gpu01")[:2] == [("10.200.0.1/31", "10.200.0.0"), ("10.200.0.3/31", "10.200.0.2")]
    assert homes(lab, "gpu02")[0] == ("10.200.0.17/31", "10.200.0.16")
    assert homes(lab, "gpu64")[7] == ("10.200.3.255/31", "10.200.3.254")


def segmented(lab: dict[str, Any]) -> None:
    """Two leaves for each rail, 32 nodes behind each."""
    del lab["rails"][0]["links"], lab["nodes"][0]["rail_host"], lab["switches"]
    lab["rails"][0]["host_subnet"] = {"first": "10.10.0.0/25"}
    lab["rails"][0]["segments"] = [
        {"nodes": "gpu[01-32]", "subnet": {"first": "10.10.0.0/26", "step": 2}, "gateway": 1, "first_host": 11},
        {"nodes": "gpu[33-64]", "subnet": {"first": "10.10.0.64/26", "step": 2}, "gateway": 1, "first_host": 11},
    ]


def test_each_leaf_may_have_a_subnet_of_its_own() -> None:
    lab = loaded(ROUTED, segmented)

    assert homes(lab, "gpu01")[:2] == [("10.10.0.11/26", "10.10.0.1"), ("10.10.0.139/26", "10.10.0.129")]
    assert homes(lab, "gpu33")[0] == ("10.10.0.75/26", "10.10.0.65")
    assert homes(lab, "gpu64")[7] == ("10.10.3.234/26", "10.10.3.193")


def test_resource_and_network_are_named_after_the_rail_by_default() -> None:
    given = copy.deepcopy(REFERENCE)
    del given["rails"][0]["resource_name"], given["rails"][0]["network_name"]

    rail = lab_of(given).rails[0]

    assert (rail.resource, rail.network_name) == ("intel.com/rail_a", "rail-a")


def pf(node: int, number: int, **values: object) -> Edit:
    return lambda lab: lab["nodes"][node]["pfs"][number].update(values)


def links(lab: dict[str, Any]) -> None:
    """The reference lab with a router behind each cable of rail-a, and no pods there."""
    del lab["rails"][0]["pod"]
    pf(0, 0, address="10.10.11.0/31", gateway="10.10.11.1")(lab)
    pf(1, 0, address="10.10.11.2/31", gateway="10.10.11.3")(lab)


def test_a_flat_file_says_the_router_at_each_pf() -> None:
    assert loaded(REFERENCE, links).routed_rails == {"rail-a"}


def untagged(lab: dict[str, Any]) -> None:
    links(lab)
    lab["rails"][0]["pod"] = {**REFERENCE["rails"][0]["pod"], "vlan_id": None}


REFUSED: dict[str, tuple[tuple[Edit, ...], str, str]] = {
    # name: (edits of the reference lab, path in the message, what the message must say)
    "a router that is no neighbour": (
        (links, pf(0, 0, gateway="10.10.11.5")),
        "nodes[0].pfs[0]",
        "gateway 10.10.11.5 is not a neighbor of 10.10.11.0/31",
    ),
    "a router with the PF's own address": (
        (links, pf(0, 0, gateway="10.10.11.0")),
        "nodes[0].pfs[0]",
        "is not a neighbor",
    ),
    "a router with another PF's address": (
        (links, pf(1, 0, address="10.10.11.1/31", gateway="10.10.11.0")),
        "nodes[1].pfs[0].address",
        "10.10.11.1 is the gateway of gpu01 on rail-a",
    ),
    "a PF without router among others with one": (
        (links, lambda lab: lab["nodes"][1]["pfs"][0].pop("gateway")),
        "nodes[1].pfs[0].gateway",
        "missing, but other PFs on rail-a have one; name the router of 10.10.11.2/31",
    ),
    "a router for the rail and for each PF": (
        (links, lambda lab: lab["rails"][0].update(host_gateway="10.10.11.254")),
        "nodes[0].pfs[0].gateway",
        "10.10.11.1 conflicts with host_gateway 10.10.11.254 of rail-a",
    ),
    "a link outside its rail's range": (
        (links, pf(0, 0, address="10.99.0.0/31", gateway="10.99.0.1")),
        "nodes[0].pfs[0].address",
        "10.99.0.0/31 is outside rail-a's host_subnet 10.10.11.0/24",
    ),
    "one subnet with two prefix lengths": (
        (links, pf(1, 0, address="10.10.11.2/29", gateway="10.10.11.3")),
        "nodes[0].pfs[0].address",
        r"10.10.11.0/31 is part of 10.10.11.0/29 at nodes\[1\].pfs\[0\].address",
    ),
    "one link for two rails": (
        (
            links,
            lambda lab: lab["rails"][1].pop("pod"),
            lambda lab: lab["rails"][0].update(pod=None),
            lambda lab: lab["rails"][1].update(host_subnet="10.10.11.0/24"),
            pf(0, 1, address="10.10.11.4/31", gateway="10.10.11.5"),
            pf(1, 1, address="10.10.11.2/31", gateway="10.10.11.3"),
        ),
        "nodes[1].pfs[1].address",
        r"10.10.11.2/31 is in the subnet of rail-a at nodes\[1\].pfs\[0\].address",
    ),
    "a range that another rail has as its subnet": (
        (links, lambda lab: lab["rails"][0].update(host_subnet="10.10.0.0/16")),
        "rails[1].host_subnet",
        "overlaps rail-a's host_subnet",
    ),
    "untagged pods across routers": (
        (untagged,),
        "rails[0].pod",
        "pods would be untagged, but rail-a has several untagged networks",
    ),
    "a cluster that no rail reaches": (
        (lambda lab: [rail.pop("pod") for rail in lab["rails"]],),
        "cluster",
        "no rail has a `pod` section",
    ),
    "pods without a word on their VLAN": (
        (lambda lab: lab["rails"][0]["pod"].pop("vlan_id"),),
        "rails[0].pod.vlan_id",
        "missing",
    ),
    "a PCI address without its domain": (
        (pf(0, 0, pci="19:00.0"),),
        "nodes[0].pfs[0].pci",
        "0000:19:00.0, in lower case",
    ),
    "two PFs in one slot": (
        (pf(0, 0, pci="0000:19:00.0"), pf(0, 1, pci="0000:19:00.0")),
        "nodes[0]",
        "two PFs share pci 0000:19:00.0",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_fabric_that_cannot_work_is_refused(name: str) -> None:
    edits, path, says = REFUSED[name]

    with pytest.raises(LabError) as refused:
        loaded(REFERENCE, *edits)

    lines = str(refused.value).splitlines()
    assert [line for line in lines if f"{path}: " in line and re.search(says, line)], str(refused.value)


def rails(**values: object) -> Edit:
    return lambda lab: lab["rails"][0].update(values)


REFUSED_GROUPS: dict[str, tuple[tuple[Edit, ...], str, str]] = {
    # name: (edits of the routed lab, path in the message, what the message must say)
    "more cables than the range holds": (
        (rails(host_subnet={"first": "172.16.0.0/26"}),),
        "nodes[0].rail_host",
        "gpu33: host number 64 is outside 172.16.0.0/26 of rail-1.*; and 255 more",
    ),
    "a range for each rail, and all rails in one order": (
        (rails(links={"host": "low", "order": "rail"}),),
        "rails[0]",
        "links.order is rail",
    ),
    "links and a router for the whole rail": ((rails(host_gateway=1),), "rails[0]", "links and host_gateway"),
    "a node in no segment": (
        (segmented, lambda lab: lab["rails"][0]["segments"].pop()),
        "nodes[0].rail_host",
        "gpu33: in no segment of rail-1",
    ),
    "a node in two segments": (
        (segmented, lambda lab: lab["rails"][0]["segments"][1].update(nodes="gpu[32-64]")),
        "rails[0].segments[1]",
        "rail-1: gpu32 is in two segments",
    ),
    "a segment of a node that is none": (
        (segmented, lambda lab: lab["rails"][0]["segments"][1].update(nodes="gpu[33-65]")),
        "rails[0].segments[1].nodes",
        "this lab has no node gpu65",
    ),
    "a segment outside its rail": (
        (segmented, lambda lab: lab["rails"][0]["segments"][1].update(subnet={"first": "10.11.0.64/26", "step": 2})),
        "rails[0].segments[1]",
        "outside rail-1's host_subnet 10.10.0.0/25",
    ),
    "a number that nothing counts by": (
        (segmented, lambda lab: lab["nodes"][0].update(rail_host={"first": 11})),
        "nodes[0].rail_host",
        "rail_host has no effect",
    ),
}


@pytest.mark.parametrize("name", REFUSED_GROUPS)
def test_a_group_that_cannot_be_spelled_out_is_refused_at_its_own_place(name: str) -> None:
    edits, path, says = REFUSED_GROUPS[name]

    with pytest.raises(LabError) as refused:
        loaded(ROUTED, *edits)

    lines = str(refused.value).splitlines()
    assert [line for line in lines if f"{path}: " in line and re.search(says, line)], str(refused.value)

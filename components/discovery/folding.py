"""Groups for a flat lab: nodes of one class whose names and addresses count up together."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

from components.discovery.questions import Entry
from stacks.sets import folded, names_of

LEAST = 3
"""Nodes that are a group; two are easier to read one by one."""
OF_NODES = ("management_interface", "ssh_port", "gpus")
"""Fields of a node that its class has."""
OF_PFS = ("rail", "pci", "interface", "driver", "vfs", "rdma_device")

Numbers = tuple[int, int, int]
"""Of a node: the last one of its name, its address, and its host number on each rail."""


def fold(lab: Mapping[str, Any], servers: Mapping[str, str]) -> Entry:
    """The same lab with groups of nodes.

    Args:
        lab: rails and nodes one by one.
        servers: server class by node.
    """
    subnets = {}
    for rail in lab["rails"]:
        subnets[rail["name"]] = IPv4Network(rail["host_subnet"])
    classes: dict[str, Entry] = {}
    entries: list[Entry] = []
    for run in _runs(lab["nodes"], subnets):
        members = {node["name"]: node for node in run}
        for names in folded(members):  # 99 and 100 are of two sets where numbers are padded
            own = [members[name] for name in names_of(names)]
            if len(own) < LEAST:
                entries += own
            else:
                server = _class_name(classes, servers[own[0]["name"]], _class_of(own[0]))
                entries.append(_group(names, server, own[0], subnets))
    groups: Entry = {}
    for key, value in lab.items():
        if key == "nodes" and classes:
            groups["node_classes"] = classes
        groups[key] = value
    return {**groups, "nodes": entries}


def _runs(nodes: Sequence[Entry], subnets: Mapping[str, IPv4Network]) -> list[list[Entry]]:
    """The nodes in order, cut where the next one differs in more than counting up by one."""
    runs: list[list[Entry]] = []
    next_numbers: Numbers | None = None
    for node in nodes:
        numbers = _numbers(node, subnets)
        follows = numbers is not None and numbers == next_numbers
        if follows and _class_of(node) == _class_of(runs[-1][-1]):
            runs[-1].append(node)
        else:
            runs.append([node])
        next_numbers = None
        if numbers is not None:
            name, address, host = numbers
            next_numbers = name + 1, address + 1, host + 1
    return runs


def _numbers(node: Entry, subnets: Mapping[str, IPv4Network]) -> Numbers | None:
    """None for a node that no group can hold: it is drained or routed, or its rails differ."""
    in_name = re.findall(r"\d+", node["name"])
    if "state" in node or not in_name or any("gateway" in pf for pf in node["pfs"]):
        return None
    hosts = _host_numbers(node, subnets)
    if len(hosts) > 1:
        return None
    return int(in_name[-1]), int(IPv4Address(node["address"])), hosts.pop()


def _host_numbers(node: Entry, subnets: Mapping[str, IPv4Network]) -> set[int]:
    hosts = set()
    for pf in node["pfs"]:
        address = IPv4Interface(pf["address"]).ip
        hosts.add(int(address) - int(subnets[pf["rail"]].network_address))
    return hosts


def _class_of(node: Entry) -> Entry:
    own = {key: node[key] for key in OF_NODES if key in node}
    pfs = []
    for pf in node["pfs"]:
        pfs.append({key: pf[key] for key in OF_PFS if key in pf})
    return {**own, "pfs": pfs}


def _class_name(classes: dict[str, Entry], server: str, fields: Entry) -> str:
    """The name of the class with these fields, which is added where there is none."""
    name, number = server, 1
    while classes.setdefault(name, fields) != fields:
        number += 1
        name = f"{server}-{number}"
    return name


def _group(names: str, server: str, first: Entry, subnets: Mapping[str, IPv4Network]) -> Entry:
    return {
        "names": names,
        "class": server,
        "address": {"first": first["address"]},
        "rail_host": {"first": min(_host_numbers(first, subnets))},
    }

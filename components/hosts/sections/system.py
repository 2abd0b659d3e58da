"""Sections of a host's document for its operating system and network."""

import re
from collections.abc import Iterator

from pydantic import JsonValue

from components.hosts.program.steps.hosts_file import count_on
from stacks.lab import Lab
from stacks.nodes import Node, Pf
from stacks.system import KernelArguments, ManagementUser


def system_sections(lab: Lab, node: Node) -> dict[str, JsonValue | None]:
    """Sections by their key, each for the step of its name; None: the lab file does not ask
    for it.
    """
    system = lab.system
    words: list[JsonValue] = [*_words(system.kernel_arguments)]
    return {
        "kernel_arguments": {"words": words} if words else None,
        "hostname": node.name if system.hostname else None,
        "hosts_file": list(_runs(lab)) if system.hosts_file else None,
        "users": [_user(lab, user) for user in system.users] or None,
        "qos": _qos(lab),
        "watch": _watch(lab, node),
    }


def _words(arguments: KernelArguments) -> Iterator[str]:
    if arguments.iommu == "auto":
        yield "iommu=pt"
    if arguments.pci_realloc:
        yield "pci=realloc"
    yield from arguments.extra


def _runs(lab: Lab) -> Iterator[str]:
    """Nodes with consecutive names and addresses as one item: each document names the whole lab."""
    first = None
    count = 0
    for node in (node for node in lab.nodes if node.state != "absent"):
        if first is not None and _follows(first, node, count):
            count += 1
            continue
        if first is not None:
            yield f"{first.address} {first.name} {count}"
        first, count = node, 1
    if first is not None:
        yield f"{first.address} {first.name} {count}"


def _follows(first: Node, node: Node, steps: int) -> bool:
    numbered = re.fullmatch(r"(.*?)(\d+)", first.name)
    if numbered is None or int(node.address) != int(first.address) + steps:
        return False
    return node.name == count_on(numbered[1], numbered[2], steps)


def _user(lab: Lab, user: ManagementUser) -> dict[str, JsonValue]:
    # the account that rocelab logs in with gets keys and nothing else
    return {**user.model_dump(mode="json"), "keys_only": user.name == lab.access.user}


def _watch(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    if lab.system.watch is None:
        return None
    rails: dict[str, JsonValue] = {pf.interface: pf.rail for pf in node.pfs}
    return {**lab.system.watch.model_dump(mode="json"), "rails": rails}


ROCE_MODE = "RoCE v2"
FIRST_TABLE = 100
"""Routing table of the first rail; the kernel's own begin at 253."""


def _qos(lab: Lab) -> dict[str, JsonValue] | None:
    if lab.qos is None:
        return None
    qos = lab.qos
    return {
        "roce_mode": ROCE_MODE,
        "tos": qos.tos,
        "dscp": qos.dscp,
        "priority": qos.priority,
        "cnp_dscp": qos.cnp_dscp,
        "cnp_priority": qos.cnp_priority,
        "pfc_priorities": [qos.priority] if qos.mode == "lossless" else [],
    }


def routing_of(lab: Lab, pf: Pf) -> dict[str, JsonValue]:
    """The part of a PF's document that a routed rail adds; empty for a rail that is one layer-2
    domain.
    """
    names = [rail.name for rail in lab.rails]
    rail, subnet = lab.rail(pf.rail), pf.address.network
    gateway = pf.gateway or rail.host_gateway
    if gateway is None:
        return {}
    table = FIRST_TABLE + names.index(rail.name)
    # a host is in one of several subnets: traffic without a bound source reaches the others by the
    # rail's whole range
    whole: dict[str, JsonValue] = (
        {} if subnet == rail.host_subnet else {"range": str(rail.host_subnet)}
    )
    return {"routing": {"table": table, "subnet": str(subnet), "gateway": str(gateway), **whole}}

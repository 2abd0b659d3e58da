"""Network and quality of service in the host document."""

from pydantic import JsonValue

from stacks.lab import Lab
from stacks.nodes import Pf

ROCE_MODE = "RoCE v2"
FIRST_TABLE = 100
"""Routing table of the first rail; the kernel's own begin at 253."""


def qos_section(lab: Lab) -> dict[str, JsonValue] | None:
    """What each PF is to trust, mark and hold back; None: left alone."""
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
    """The part of a PF's document that a routed rail adds; empty for a rail that is one layer-2 domain."""
    names = [rail.name for rail in lab.rails]
    rail, subnet = lab.rail(pf.rail), pf.address.network
    gateway = pf.gateway or rail.host_gateway
    if gateway is None:
        return {}
    table = FIRST_TABLE + names.index(rail.name)
    # of several subnets a host has one: what does not bind its source finds the others by the rail's whole range
    whole: dict[str, JsonValue] = {} if subnet == rail.host_subnet else {"range": str(rail.host_subnet)}
    return {"routing": {"table": table, "subnet": str(subnet), "gateway": str(gateway), **whole}}

"""What a change of each field does to a running host, and how much its repair disturbs: pure tables."""

from stacks.base import Effect, effect_of
from stacks.hosts import HostPolicy, RepairClass
from stacks.nodes import Pf
from stacks.rails import Rail

ORDER: tuple[RepairClass, ...] = ("none", "link", "service", "reboot")
"""From the repair that nobody notices to the one that takes the host away."""

WORDS: dict[Effect, str] = {
    "none": "no disruption",
    "link": "link flaps",
    "pods": "pods lose their VFs",
    "reboot": "reboots",
    "replace": "machine is replaced",
}

EFFECTS: dict[str, Effect] = {
    "mtu_bytes": effect_of(Rail, "mtu_bytes"),
    "vf_mtu_bytes": "none",  # idle VFs only
    "address": effect_of(Pf, "address"),
    "link": "link",
    "vfs": effect_of(Pf, "vfs"),
    "vf_macs": "none",  # idle VFs only
    "rdma_device": "link",
    "arp": "none",
    "modules": "none",
    "rdma_namespaces": effect_of(HostPolicy, "rdma_namespaces"),
    "unit": "none",
}
"""By the last part of a field's name."""

REPAIRS: dict[str, RepairClass] = {
    "mtu_bytes": "link",
    "vf_mtu_bytes": "none",
    "address": "link",
    "link": "link",
    "vfs": "link",  # those in use are left alone by the host itself
    "vf_macs": "none",
    "rdma_device": "link",
    "arp": "none",
    "modules": "service",
    "rdma_namespaces": "reboot",
    "unit": "none",
}


def field_effect(field: str) -> Effect:
    """Effect of a change of a field such as `enp5s0.mtu_bytes`."""
    return EFFECTS[field.rpartition(".")[2]]


def repair_class(field: str) -> RepairClass:
    """How much it disturbs to put a field back."""
    return REPAIRS[field.rpartition(".")[2]]


def may_repair(field: str, policy: RepairClass) -> bool:
    """Whether the lab lets a field be put back without asking."""
    return ORDER.index(repair_class(field)) <= ORDER.index(policy)

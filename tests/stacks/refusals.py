"""Labs that are refused, and what is said of them."""

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from stacks.base import LabError
from stacks.read import parse_lab
from tests.labs import REFERENCE
from tests.messages import states

Edit = Callable[[dict[str, Any]], object]


def refusal(edit: Edit) -> str:
    lab = copy.deepcopy(REFERENCE)
    edit(lab)
    with pytest.raises(LabError) as refused:
        parse_lab(json.dumps(lab), "Pulumi.bad.yaml")
    return str(refused.value)


def has_fault(refused: str, path: str, *facts: object) -> bool:
    """Whether a refusal has a fault of this field that states these facts."""
    at_path = re.compile(rf" *(?:line \d+: )?{re.escape(path)}: (.*)")
    found = [match[1] for line in refused.splitlines() if (match := at_path.fullmatch(line))]
    return any(states(text, *facts) for text in found)


def put(path: str, value: object) -> Edit:
    """An edit that sets `nodes.0.pfs.1.vfs`-like paths."""

    def edit(lab: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        place: Any = lab
        for step in parents:
            place = place[int(step) if step.isdigit() else step]
        place[int(last) if last.isdigit() else last] = value

    return edit


def swap_interfaces(node: dict[str, Any]) -> None:
    first, second = node["pfs"]
    first["interface"], second["interface"] = second["interface"], first["interface"]


CASES: dict[str, tuple[Edit, str, str]] = {
    # name: (edit, path in the message, what the message must say)
    "a key that nobody knows": (put("rails.0.mtu", 9000), "rails[0].mtu", r"unknown key; did you mean mtu_bytes\?"),
    "an unknown key unlike any": (put("zzz", 1), "zzz", "known here: name, kind, access"),
    "a missing section": (lambda lab: lab.pop("access"), "access", "missing"),
    "a missing field": (
        lambda lab: lab["nodes"][0].pop("management_interface"),
        "nodes[0].management_interface",
        "missing",
    ),
    "a kind that does not exist": (put("kind", "cloud"), "kind", "'virtual' or 'hardware'"),
    "VLAN 0": (put("rails.0.pod.vlan_id", 0), "rails[0].pod.vlan_id", "0 should be greater than or equal to 1"),
    "VLAN 4095": (
        put("rails.0.pod.vlan_id", 4095),
        "rails[0].pod.vlan_id",
        "4095 should be less than or equal to 4094",
    ),
    "one VLAN for two rails": (
        put("rails.1.pod.vlan_id", 111),
        "rails[1].pod.vlan_id",
        r"VLAN 111 is also that of rails\[0\]",
    ),
    "MTU 9300": (put("rails.0.mtu_bytes", 9300), "rails[0].mtu_bytes", "9300 should be less than or equal to 9216"),
    "a number in quotes": (put("rails.0.mtu_bytes", "9000"), "rails[0].mtu_bytes", "should be a valid integer"),
    "8 VFs on igb": (
        put("nodes.0.pfs.0.vfs", 8),
        "nodes[0].pfs[0]",
        "vfs 8 on enp5s0, but the igb driver creates at most 7; lower it",
    ),
    "a negative number of VFs": (put("nodes.0.pfs.0.vfs", -1), "nodes[0].pfs[0].vfs", "greater than or equal to 0"),
    "two nodes at one address": (
        put("nodes.1.address", "127.0.12.1"),
        "nodes[1].address",
        "127.0.12.1 port 2222 is also",
    ),
    "two PFs with one address": (
        put("nodes.1.pfs.0.address", "10.10.11.11/24"),
        "nodes[1].pfs[0].address",
        r"10.10.11.11 is also that of nodes\[0\].pfs\[0\].address",
    ),
    "two nodes of one name": (put("nodes.1.name", "gpu01"), "nodes[1].name", "gpu01 is also that of"),
    "a PF outside its rail": (
        put("nodes.0.pfs.0.address", "10.10.12.9/24"),
        "nodes[0].pfs[0].address",
        "is outside rail-a's",
    ),
    "a PF with the wrong prefix": (
        put("nodes.0.pfs.0.address", "10.10.11.9/16"),
        "nodes[0].pfs[0].address",
        "with /24",
    ),
    "a PF with the broadcast address": (
        put("nodes.0.pfs.0.address", "10.10.11.255/24"),
        "nodes[0].pfs[0].address",
        "broadcast",
    ),
    "IPv6 where IPv4 belongs": (put("nodes.0.address", "::1"), "nodes[0].address", "'::1'.*Management address"),
    "a rail that does not exist": (
        put("nodes.0.pfs.0.rail", "rail-c"),
        "nodes[0].pfs[0].rail",
        "rails: rail-a, rail-b",
    ),
    "two PFs on one rail": (put("nodes.0.pfs.1.rail", "rail-a"), "nodes[0]", "two PFs share rail rail-a.*no bond"),
    "two PFs that are one NIC": (
        put("nodes.0.pfs.1.interface", "enp5s0"),
        "nodes[0]",
        "two PFs share interface enp5s0",
    ),
    "the management interface as a rail": (
        put("nodes.0.management_interface", "enp5s0"),
        "nodes[0]",
        "enp5s0 is the management interface and a PF",
    ),
    "an interface name of 16 letters": (
        put("nodes.0.pfs.0.interface", "e" * 16),
        "nodes[0].pfs[0].interface",
        "at most 15",
    ),
    "a shell word as interface": (
        put("nodes.0.pfs.0.interface", "eth0;reboot"),
        "nodes[0].pfs[0].interface",
        "pattern",
    ),
    "rails that overlap": (
        put("rails.1.host_subnet", "10.10.0.0/16"),
        "rails[1].host_subnet",
        "overlaps rail-a's host_subnet",
    ),
    "a rail in the pod network": (put("cluster.pod_subnet", "10.0.0.0/8"), "cluster.pod_subnet", "overlaps rail-a's"),
    "a rail in the service network": (
        put("cluster.service_subnet", "10.10.11.0/24"),
        "cluster.service_subnet",
        "overlaps",
    ),
    "management on a rail": (
        put("rails.0.host_subnet", "127.0.12.0/24"),
        "nodes[0].address",
        "is in rail-a's host_subnet 127.0.12.0/24; use a management address outside the rails",
    ),
    "host bits in a subnet": (
        put("rails.0.host_subnet", "10.10.11.1/24"),
        "rails[0].host_subnet",
        "has host bits set. Untagged subnet",
    ),
    "a pool outside its subnet": (put("rails.0.pod.last_address", "10.20.9.9"), "rails[0].pod", "is outside subnet"),
    "a pool that ends before it begins": (put("rails.0.pod.last_address", "10.20.111.5"), "rails[0].pod", "swap them"),
    "a gateway inside the pool": (put("rails.0.pod.gateway", "10.20.111.20"), "rails[0].pod", "inside the pool"),
    "a block smaller than the VFs": (
        put("rails.0.pod.addresses_per_node", 3),
        "rails[0].pod.addresses_per_node",
        "at least 4",
    ),
    "a pool with a block for one node only": (
        put("rails.0.pod.last_address", "10.20.111.30"),
        "rails[0].pod",
        r"1 whole block of 8 \(counted from 10.20.111.1\) for 2 nodes; widen it to 24",
    ),
    "one interface name on two rails": (
        lambda lab: swap_interfaces(lab["nodes"][1]),
        "nodes[1].pfs[0].interface",
        "enp132s0 is on rail-a here and on rail-b at gpu01",
    ),
    "a resource with a hyphen": (put("rails.0.resource_name", "sriov-111"), "rails[0].resource_name", "pattern"),
    "one resource for two rails": (
        put("rails.1.resource_name", "sriov_111"),
        "rails[1].resource_name",
        "is also that of",
    ),
    "one network for two rails": (put("rails.1.network_name", "sriov111"), "rails[1].network_name", "is also that of"),
    "a host name with an underscore": (put("nodes.0.name", "gpu_01"), "nodes[0].name", "pattern"),
    "no node at all": (put("nodes", []), "nodes", "at least 1 item"),
    "a real machine in a virtual lab": (put("nodes.0.address", "192.168.1.5"), "nodes[0].address", "loopback only"),
    "a former name still in use": (
        put("nodes.0.formerly", "gpu02"),
        "nodes[0].formerly",
        "gpu02 is still a node of this lab",
    ),
    "an unknown former kind of state": (
        put("nodes.0.state", "off"),
        "nodes[0].state",
        "'active', 'drained' or 'absent'",
    ),
    "a user with a blank": (put("access.user", "root x"), "access.user", "pattern"),
    "a key file that is not named": (lambda lab: lab["access"].pop("key_file"), "access.key_file", "missing"),
    "a kubeconfig that is not named": (
        lambda lab: lab["cluster"].pop("kubeconfig_file"),
        "cluster.kubeconfig_file",
        "missing, but kubeconfig: file needs it",
    ),
    "an image without tag": (put("benchmarks.nccl.image", "nccl-test"), "benchmarks.nccl.image", "pattern"),
    "thresholds the wrong way round": (
        put("benchmarks.verbs.threshold", {"fail_below": 0.99, "warn_below": 0.9}),
        "benchmarks.verbs.threshold",
        "swap them",
    ),
    "a threshold in percent": (
        put("benchmarks.verbs.threshold", {"fail_below": 90}),
        "fail_below",
        "less than or equal to 1",
    ),
    "a reboot budget of nothing": (
        put("hosts", {"reboot_budget_s": 0}),
        "hosts.reboot_budget_s",
        "greater than or equal",
    ),
}

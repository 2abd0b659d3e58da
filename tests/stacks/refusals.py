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


def faults_at(refused: str, path: str) -> list[str]:
    """What a refusal says of this field."""
    at_path = re.compile(rf" *(?:line \d+: )?{re.escape(path)}: (.*)")
    return [match[1] for line in refused.splitlines() if (match := at_path.fullmatch(line))]


def has_fault(refused: str, path: str, *facts: object) -> bool:
    """Whether a refusal has a fault of this field that states these facts."""
    return any(states(text, *facts) for text in faults_at(refused, path))


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


CASES: dict[str, tuple[Edit, str, list[str | int]]] = {
    # name: (edit, path of the fault, what the fault must state)
    "a key that nobody knows": (put("rails.0.mtu", 9000), "rails[0].mtu", ["mtu_bytes"]),
    "an unknown key unlike any": (put("zzz", 1), "zzz", ["name, kind, access"]),
    "a missing section": (lambda lab: lab.pop("access"), "access", ["missing"]),
    "a missing field": (
        lambda lab: lab["nodes"][0].pop("management_interface"),
        "nodes[0].management_interface",
        ["missing"],
    ),
    "a kind that does not exist": (put("kind", "cloud"), "kind", ["'cloud'", "'virtual'", "'hardware'"]),
    "VLAN 0": (put("rails.0.pod.vlan_id", 0), "rails[0].pod.vlan_id", [0, 1]),
    "VLAN 4095": (
        put("rails.0.pod.vlan_id", 4095),
        "rails[0].pod.vlan_id",
        [4095, 4094],
    ),
    "one VLAN for two rails": (
        put("rails.1.pod.vlan_id", 111),
        "rails[1].pod.vlan_id",
        ["VLAN 111", "rails[0]"],
    ),
    "MTU 9300": (put("rails.0.mtu_bytes", 9300), "rails[0].mtu_bytes", [9300, 9216]),
    "a number in quotes": (put("rails.0.mtu_bytes", "9000"), "rails[0].mtu_bytes", ["'9000'", "integer"]),
    "8 VFs on igb": (
        put("nodes.0.pfs.0.vfs", 8),
        "nodes[0].pfs[0]",
        ["vfs 8", "enp5s0", "igb", 7],
    ),
    "a negative number of VFs": (put("nodes.0.pfs.0.vfs", -1), "nodes[0].pfs[0].vfs", [-1, 0]),
    "two nodes at one address": (
        put("nodes.1.address", "127.0.12.1"),
        "nodes[1].address",
        ["127.0.12.1 port 2222", "nodes[0].address"],
    ),
    "two PFs with one address": (
        put("nodes.1.pfs.0.address", "10.10.11.11/24"),
        "nodes[1].pfs[0].address",
        ["10.10.11.11", "nodes[0].pfs[0].address"],
    ),
    "two nodes of one name": (put("nodes.1.name", "gpu01"), "nodes[1].name", ["gpu01", "nodes[0].name"]),
    "a PF outside its rail": (
        put("nodes.0.pfs.0.address", "10.10.12.9/24"),
        "nodes[0].pfs[0].address",
        ["10.10.12.9", "rail-a's"],
    ),
    "a PF with the wrong prefix": (
        put("nodes.0.pfs.0.address", "10.10.11.9/16"),
        "nodes[0].pfs[0].address",
        ["10.10.11.9", "/24"],
    ),
    "a PF with the broadcast address": (
        put("nodes.0.pfs.0.address", "10.10.11.255/24"),
        "nodes[0].pfs[0].address",
        ["10.10.11.255", "broadcast"],
    ),
    "IPv6 where IPv4 belongs": (put("nodes.0.address", "::1"), "nodes[0].address", ["'::1'", "Management address"]),
    "a rail that does not exist": (
        put("nodes.0.pfs.0.rail", "rail-c"),
        "nodes[0].pfs[0].rail",
        ["rail-c", "rail-a, rail-b"],
    ),
    "two PFs on one rail": (put("nodes.0.pfs.1.rail", "rail-a"), "nodes[0]", ["two PFs", "rail rail-a"]),
    "two PFs that are one NIC": (
        put("nodes.0.pfs.1.interface", "enp5s0"),
        "nodes[0]",
        ["two PFs", "interface enp5s0"],
    ),
    "the management interface as a rail": (
        put("nodes.0.management_interface", "enp5s0"),
        "nodes[0]",
        ["enp5s0", "management interface"],
    ),
    "an interface name of 16 letters": (
        put("nodes.0.pfs.0.interface", "e" * 16),
        "nodes[0].pfs[0].interface",
        [15],
    ),
    "a shell word as interface": (
        put("nodes.0.pfs.0.interface", "eth0;reboot"),
        "nodes[0].pfs[0].interface",
        ["'eth0;reboot'", "letters, digits, dots, hyphens and underscores"],
    ),
    "rails that overlap": (
        put("rails.1.host_subnet", "10.10.0.0/16"),
        "rails[1].host_subnet",
        ["rail-a's host_subnet"],
    ),
    "a rail in the pod network": (
        put("cluster.pod_subnet", "10.0.0.0/8"),
        "cluster.pod_subnet",
        ["rail-a's host_subnet"],
    ),
    "a rail in the service network": (
        put("cluster.service_subnet", "10.10.11.0/24"),
        "cluster.service_subnet",
        ["rail-a's host_subnet"],
    ),
    "management on a rail": (
        put("rails.0.host_subnet", "127.0.12.0/24"),
        "nodes[0].address",
        ["127.0.12.1", "rail-a's host_subnet 127.0.12.0/24"],
    ),
    "host bits in a subnet": (
        put("rails.0.host_subnet", "10.10.11.1/24"),
        "rails[0].host_subnet",
        ["10.10.11.1/24", "host bits", "10.10.11.0/24"],
    ),
    "a subnet without prefix length": (
        put("rails.0.host_subnet", "10.10.11.0"),
        "rails[0].host_subnet",
        ["no prefix length", "10.10.11.0/24"],
    ),
    "a host name as an address": (
        put("nodes.0.address", "gpu02.example.com"),
        "nodes[0].address",
        ["'gpu02.example.com'", "not an IPv4 address"],
    ),
    "management in the pod network": (
        put("cluster.pod_subnet", "127.0.0.0/8"),
        "nodes[0].address",
        ["127.0.12.1", "pod_subnet", "outside 127.0.0.0/8"],
    ),
    "a home folder": (
        put("access.known_hosts_file", "~/.ssh/known_hosts"),
        "access.known_hosts_file",
        ["'~/.ssh/known_hosts'", "differs per user"],
    ),
    "a name instead of a node": (
        put("nodes.0", "gpu00"),
        "nodes[0]",
        ["'gpu00'", "object", "name, address, management_interface"],
    ),
    "nothing instead of a list": (put("rails", None), "rails", ["null", "list"]),
    "a version without quotes": (put("cluster.kubelet_version", 1.3), "cluster.kubelet_version", [1.3, "quotes"]),
    "yes instead of true": (put("system", {"hostname": "yes"}), "system.hostname", ["'yes'", "true or false"]),
    "a long value is cut inside its quotes": (
        put("access.user", "u" * 50),
        "access.user",
        [f"'{'u' * 39}…'", 32],
    ),
    "a pool outside its subnet": (
        put("rails.0.pod.last_address", "10.20.9.9"),
        "rails[0].pod",
        ["10.20.9.9", "subnet"],
    ),
    "a pool that ends before it begins": (
        put("rails.0.pod.last_address", "10.20.111.5"),
        "rails[0].pod",
        ["10.20.111.5", "swap"],
    ),
    "a gateway inside the pool": (
        put("rails.0.pod.gateway", "10.20.111.20"),
        "rails[0].pod",
        ["gateway 10.20.111.20", "pool"],
    ),
    "a block smaller than the VFs": (
        put("rails.0.pod.addresses_per_node", 3),
        "rails[0].pod.addresses_per_node",
        [3, 4],
    ),
    "a pool with a block for one node only": (
        put("rails.0.pod.last_address", "10.20.111.30"),
        "rails[0].pod",
        ["1 whole block of 8", "10.20.111.1", "2 nodes", 24],
    ),
    "one interface name on two rails": (
        lambda lab: swap_interfaces(lab["nodes"][1]),
        "nodes[1].pfs[0].interface",
        ["enp132s0", "rail-a", "rail-b at gpu01"],
    ),
    "a resource with a hyphen": (
        put("rails.0.resource_name", "sriov-111"),
        "rails[0].resource_name",
        ["'sriov-111'", "lower-case letters, digits and underscores"],
    ),
    "one resource for two rails": (
        put("rails.1.resource_name", "sriov_111"),
        "rails[1].resource_name",
        ["sriov_111", "rails[0].resource_name"],
    ),
    "one network for two rails": (
        put("rails.1.network_name", "sriov111"),
        "rails[1].network_name",
        ["sriov111", "rails[0].network_name"],
    ),
    "a host name with an underscore": (
        put("nodes.0.name", "gpu_01"),
        "nodes[0].name",
        ["'gpu_01'", "lower-case letters, digits and hyphens, a letter first"],
    ),
    "no node at all": (put("nodes", []), "nodes", [1]),
    "a real machine in a virtual lab": (
        put("nodes.0.address", "192.168.1.5"),
        "nodes[0].address",
        ["192.168.1.5", "loopback"],
    ),
    "a former name still in use": (
        put("nodes.0.formerly", "gpu02"),
        "nodes[0].formerly",
        ["gpu02", "node"],
    ),
    "an unknown former kind of state": (
        put("nodes.0.state", "off"),
        "nodes[0].state",
        ["'off'", "'active'", "'drained'", "'absent'"],
    ),
    "a user with a blank": (put("access.user", "root x"), "access.user", ["'root x'", "pattern"]),
    "a key file that is not named": (lambda lab: lab["access"].pop("key_file"), "access.key_file", ["missing"]),
    "a kubeconfig that is not named": (
        lambda lab: lab["cluster"].pop("kubeconfig_file"),
        "cluster.kubeconfig_file",
        ["missing", "kubeconfig: file"],
    ),
    "a rail without prefix length": (
        put("rails.0.host_subnet", "10.10.11.0"),
        "rails[0].host_subnet",
        ["'10.10.11.0'", "prefix length", "/24"],
    ),
    "pods without prefix length": (
        put("rails.0.pod.subnet", "10.20.111.0"),
        "rails[0].pod.subnet",
        ["prefix length"],
    ),
    "a cluster's network without prefix length": (
        put("cluster.service_subnet", "10.96.0.0"),
        "cluster.service_subnet",
        ["prefix length"],
    ),
    "a PF without prefix length": (
        put("nodes.0.pfs.0.address", "10.10.11.11"),
        "nodes[0].pfs[0].address",
        ["prefix length"],
    ),
    "progressing rails without prefix length": (
        put("rails", [{"names": "rail-[1-2]", "host_subnet": {"first": "10.10.1.0"}}]),
        "rails[0].host_subnet.first",
        ["prefix length"],
    ),
    "known_hosts in a home folder": (
        put("access.known_hosts_file", "~/.ssh/known_hosts"),
        "access.known_hosts_file",
        ["'~/.ssh/known_hosts'", "absolute path"],
    ),
    "a kubeconfig in a home folder": (
        put("cluster.kubeconfig_file", "~/.kube/config"),
        "cluster.kubeconfig_file",
        ["absolute path"],
    ),
    "a key in a home folder": (put("access.key_file", "~user/key"), "access.key_file", ["absolute path"]),
    "a multicast rail": (
        put("rails.0.host_subnet", "224.10.11.0/24"),
        "rails[0].host_subnet",
        ["'224.10.11.0/24'", "223.255.255.255"],
    ),
    "multicast pods": (put("rails.0.pod.subnet", "239.0.0.0/24"), "rails[0].pod.subnet", ["223.255.255.255"]),
    "no address": (put("nodes.0.address", "0.0.0.0"), "nodes[0].address", ["'0.0.0.0'", "1.0.0.0"]),  # noqa: S104
    "the broadcast address": (put("nodes.0.address", "255.255.255.255"), "nodes[0].address", ["1.0.0.0"]),
    "a multicast address": (put("nodes.0.address", "224.0.0.5"), "nodes[0].address", ["223.255.255.255"]),
    "a pod network of one address": (
        put("cluster.pod_subnet", "10.244.0.0/32"),
        "cluster.pod_subnet",
        ["'10.244.0.0/32'", "/28"],
    ),
    "an image without registry and tag": (
        put("benchmarks.nccl.image", "nccl-test"),
        "benchmarks.nccl.image",
        ["'nccl-test'", "registry/name:tag"],
    ),
    "an image without tag behind a port": (
        put("benchmarks.mpi", {"image": "registry:5000/mpi"}),
        "benchmarks.mpi.image",
        ["registry/name:tag"],
    ),
    "an image with a scheme": (
        put("benchmarks.nccl.image", "https://registry.example:5000/nccl:1"),
        "benchmarks.nccl.image",
        ["registry/name:tag"],
    ),
    "an image in capitals": (
        put("benchmarks.nccl.image", "registry:5000/NCCL:1"),
        "benchmarks.nccl.image",
        ["registry/name:tag"],
    ),
    "a NIC that is the loopback interface": (
        put("nodes.0.pfs.0.interface", "lo"),
        "nodes[0].pfs[0].interface",
        ["'lo'", "ip link"],
    ),
    "a vendor by name": (
        put("cluster.rdma_vendor_ids", ["mellanox"]),
        "cluster.rdma_vendor_ids[0]",
        ["'mellanox'", "lspci", "15b3"],
    ),
    "a vendor in capitals": (put("cluster.rdma_vendor_ids", ["15B3"]), "cluster.rdma_vendor_ids[0]", ["lspci"]),
    "a vendor with a prefix": (put("cluster.rdma_vendor_ids", ["0x15b3"]), "cluster.rdma_vendor_ids[0]", ["lspci"]),
    "no vendor": (put("cluster.rdma_vendor_ids", []), "cluster.rdma_vendor_ids", [1]),
    "sizes that fall": (
        put("benchmarks.nccl.largest_bytes", 4),
        "benchmarks.nccl",
        ["smallest_bytes 8", "largest_bytes 4"],
    ),
    "a negative size": (put("benchmarks.nccl.largest_bytes", -5), "benchmarks.nccl.largest_bytes", [-5, 4]),
    "the port of sshd": (put("benchmarks.verbs.first_port", 22), "benchmarks.verbs.first_port", [22, 1024]),
    "thresholds the wrong way round": (
        put("benchmarks.verbs.threshold", {"fail_below": 0.99, "warn_below": 0.9}),
        "benchmarks.verbs.threshold",
        ["fail_below 0.99", "warn_below 0.9"],
    ),
    "a threshold in percent": (
        put("benchmarks.verbs.threshold", {"fail_below": 90}),
        "benchmarks.verbs.threshold.fail_below",
        [90, 1],
    ),
    "a reboot budget of nothing": (
        put("hosts", {"reboot_budget_s": 0}),
        "hosts.reboot_budget_s",
        [0, 1],
    ),
}

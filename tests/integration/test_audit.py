"""A running lab spoilt in twelve ways: `rocelab look` and `rocelab audit` find all of them and invent nothing.

What a simulated node cannot show (trust, PFC, ECN, PCIe links, GPUs, optics) is judged on fabricated inventories in
tests/components/audit.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.kubernetes.client import KubernetesApi
from tests.integration.conftest import sim
from tests.integration.stack import KEY, Stack, environment, on_node

pytestmark = [pytest.mark.sim, pytest.mark.whole]

NODES = ("gpu01", "gpu02")
UNIT_FILE = "/etc/systemd/network/90-other.network"
ATTACHMENT = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions/sriov112"
VFS = "/sys/class/net/{}/device/virtfn*/net"

ON_HOSTS: Mapping[str, tuple[str, str]] = {
    "mtu-pf": ("gpu01", "sudo ip link set enp5s0 mtu 1500"),
    "rail-address": (
        "gpu01",
        "sudo ip addr del 10.10.12.11/24 dev enp132s0 && sudo ip addr add 10.10.99.11/24 dev enp132s0",
    ),
    "default-route": ("gpu01", "sudo ip route add default via 10.10.11.1 dev enp5s0 metric 4000"),
    "reboot-pending": ("gpu01", "sudo touch /run/reboot-required"),
    "kernel-complaints": (
        "gpu01",
        'echo "<3>mlx5_core 0000:05:00.0: device\'s health compromised - reached miss count" | sudo tee /dev/kmsg',
    ),
    "mtu-vf": ("gpu02", f"for vf in {VFS.format('enp5s0')}/*; do sudo ip link set $(basename $vf) mtu 1500; done"),
    "address-twice": ("gpu02", "sudo ip addr add 10.10.11.11/24 dev enp5s0"),
    "global-pause": ("gpu02", "sudo ethtool -A enp5s0 autoneg off rx on tx on"),
    "not-persistent": (
        "gpu02",
        rf"printf '[Match]\nName=enp5s0\n[Link]\nMTUBytes=1500\n' | sudo tee {UNIT_FILE}",
    ),
    "rdma-port": ("gpu02", "sudo rdma link delete rxe1"),
}
"""By the check that finds it: on which node, and how it is spoilt."""
IN_THE_CLUSTER = ("attachment", "allocatable")


@pytest.fixture(scope="module")
def stack(simulator: Path) -> Iterator[Stack]:
    """The reference lab without its benchmarks; nodes and cluster are as new afterwards."""
    stack = Stack.make(simulator / "tests-audit")
    content = yaml.safe_load(stack.file.read_text())
    content["config"][KEY].pop("benchmarks")
    stack.file.write_text(yaml.safe_dump(content, sort_keys=False))
    stack.up().succeeded()
    yield stack
    done = sim(environment("lab"), "reset")
    assert done.returncode == 0, done.stdout


def looked_and_audited(stack: Stack, name: str) -> dict[str, Any]:
    """The audit of a new look at the lab."""
    inventory = stack.folder / f"{name}.json"
    stack.look("rocelab", "look", "--config-file", str(stack.file), "--out", str(inventory), out=inventory).succeeded()
    done = stack.run("rocelab", "audit", "--from", str(inventory), "--config-file", str(stack.file), "--json")
    assert done.status in {0, 1}, done.text
    found: dict[str, Any] = json.loads(done.text)
    assert found["unread"] == []
    return found


@pytest.fixture(scope="module")
def healthy(stack: Stack) -> dict[str, Any]:
    return looked_and_audited(stack, "healthy")


@pytest.fixture(scope="module")
def spoilt(stack: Stack, healthy: dict[str, Any]) -> dict[str, Any]:
    assert healthy
    for node, command in ON_HOSTS.values():
        on_node(node, command)
    with KubernetesApi((stack.folder.parent / "kubeconfig").read_text()) as api:
        api.delete(ATTACHMENT)
        api.merge("/api/v1/nodes/gpu02/status", {"status": {"allocatable": {"intel.com/sriov_112": "2"}}})
    return looked_and_audited(stack, "spoilt")


def test_a_healthy_lab_has_no_finding_of_severity_high(healthy: dict[str, Any]) -> None:
    assert [one for one in healthy["findings"] if one["severity"] in {"critical", "high"}] == []


def test_twelve_faults_of_twelve_kinds_are_found_where_they_are_and_nothing_else(
    healthy: dict[str, Any], spoilt: dict[str, Any]
) -> None:
    before = {(one["code"], one["where"]) for one in healthy["findings"]}
    found = {one["code"]: one for one in spoilt["findings"] if (one["code"], one["where"]) not in before}

    assert set(found) == {*ON_HOSTS, *IN_THE_CLUSTER}
    for code, (node, _) in ON_HOSTS.items():
        assert node in found[code]["where"] or code == "address-twice", found[code]
        assert found[code]["evidence"]["source"]

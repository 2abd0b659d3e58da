"""What kubeadm needs of a host, on a real node with real swap: set, kept, drifted, put back, and given back."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.hosts.calls import HostCalls, Report
from components.hosts.document import host_document
from components.ssh.credentials import endpoints_of, host_keys, private_key
from stacks.lab import Lab
from tests.conftest import ROOT
from tests.integration.stack import on_node

pytestmark = pytest.mark.sim

NODE = "gpu01"
SECTION = {
    "version": "1.36.3",
    "role": "worker",
    "node_ip": "192.168.1.11",
    "cri_socket": "unix:///run/containerd/containerd.sock",
}
FIELDS = ["swap", "kubernetes_kernel", "kubelet_node_ip", "crictl"]
"""A simulated node has no kubelet, so its service and packages are not among them."""
ADD_SWAP = (
    "sudo dd if=/dev/zero of=/swapfile bs=1M count=8 status=none && sudo chmod 600 /swapfile && "
    "sudo mkswap -q /swapfile && sudo swapon /swapfile && "
    "echo '/swapfile none swap sw 0 0' | sudo tee -a /etc/fstab"
)
TAKE_SWAP = "sudo swapoff -a; sudo rm -f /swapfile; sudo sed -i '/swapfile/d' /etc/fstab"


@pytest.fixture
def swapping(simulator: Path) -> Iterator[None]:
    """A node that swaps."""
    del simulator  # used for its effect
    on_node(NODE, ADD_SWAP)
    yield
    on_node(NODE, TAKE_SWAP)


def ask(lab: Lab, verb: str, *, kubernetes: bool = True, **values: Any) -> Report:
    """One verb of the host program over SSH."""
    node = next(node for node in lab.nodes if node.name == NODE)
    document = {**host_document(lab, node), **({"kubernetes": SECTION} if kubernetes else {}), **values}
    endpoint = endpoints_of(lab, host_keys(lab, ROOT))[NODE]
    report = asyncio.run(HostCalls(private_key(lab, {}.get, ROOT)).call(endpoint, verb, document))
    assert report.failed is None
    return report


def found(lab: Lab) -> dict[str, Any]:
    fields = ask(lab, "probe").fields
    return {name: fields[name] for name in FIELDS}


@pytest.mark.usefixtures("swapping")
def test_a_node_is_made_fit_for_kubeadm_kept_so_and_given_back(lab: Lab) -> None:
    fit = {
        "swap": "off",
        "kubernetes_kernel": "set",
        "kubelet_node_ip": SECTION["node_ip"],
        "crictl": SECTION["cri_socket"],
    }
    assert "/swapfile in use" in found(lab)["swap"]

    first = ask(lab, "apply", only=FIELDS)
    assert set(first.changed) == set(FIELDS)
    assert found(lab) == fit
    assert ask(lab, "apply", only=FIELDS).changed == []
    assert "swapfile" not in on_node(NODE, "cat /proc/swaps")
    assert on_node(NODE, "cat /proc/sys/net/bridge/bridge-nf-call-iptables").strip() == "1"

    on_node(NODE, "sudo swapon /swapfile; sudo sysctl -q net.ipv4.ip_forward=0; sudo rm /etc/crictl.yaml")
    assert {name for name, value in found(lab).items() if value != fit[name]} == {
        *("swap", "kubernetes_kernel", "crictl")
    }
    ask(lab, "apply", only=FIELDS)
    assert found(lab) == fit

    ask(lab, "undo", kubernetes=True)
    left = on_node(NODE, "cat /proc/swaps /etc/fstab; cat /proc/sys/net/ipv4/ip_forward; ls /etc/default /etc/sysctl.d")
    assert "\n/swapfile none swap" in left
    assert left.count("/swapfile") == 2, "in use, and in fstab as before"
    assert "\n0\n" in left
    assert "rocelab" not in left
    assert "kubelet" not in left

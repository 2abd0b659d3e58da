"""Images that cannot work in the cluster that they are for."""

import json
from typing import Any

import pytest
import yaml

from stacks.base import LabError
from stacks.read import parse_lab
from tests.conftest import ROOT
from tests.labs import lab_of, section_of
from tests.stacks.refusals import has_fault


def lab(delivery: str, images: dict[str, Any]) -> str:
    """The template as a PVRDMA or plain lab with images."""
    text = (ROOT / "templates" / "roce" / "Pulumi.roce.yaml").read_text()
    found = yaml.safe_load(text)["config"]["rocelab:lab"]
    found["cluster"]["delivery"] = {"profile": delivery}
    found["images"] = images
    if delivery != "sriov_plain":
        for node in found["nodes"]:
            node["pfs"][0]["vfs"] = 0
    return json.dumps(found)


def test_the_vendor_s_libraries_are_refused_where_the_device_is_vmware_s() -> None:
    images = {"benchmark": {"verbs": "vendor"}, "training": {"image": "registry.example/tf:1"}}
    with pytest.raises(LabError) as refused:
        parse_lab(lab("pvrdma", images), "Pulumi.x.yaml")

    assert has_fault(str(refused.value), "images.benchmark.verbs", "vendor", "cluster.delivery is pvrdma")
    assert has_fault(str(refused.value), "images.training.verbs", "base", "cluster.delivery is pvrdma")


def test_they_are_fine_elsewhere_and_ubuntu_s_everywhere() -> None:
    vendor = {"benchmark": {"verbs": "vendor"}, "training": {"image": "registry.example/tf:1"}}
    distribution = {"training": {"image": "registry.example/tf:1", "verbs": "distribution"}}

    assert parse_lab(lab("sriov_plain", vendor), "x").images
    assert parse_lab(lab("pvrdma", distribution), "x").images


@pytest.mark.parametrize(
    ("images", "said"),
    [
        ({"benchmark": {"nccl": "newest; rm -rf /"}}, "nccl"),
        ({"benchmark": {"base": "cuda"}}, "base"),
        ({"benchmark": {"vendor_repository": "https://x/' && evil"}}, "vendor_repository"),
        ({"benchmark": {"gpu_architectures": [7]}}, "gpu_architectures"),
        ({"training": {}}, "image"),
    ],
)
def test_a_value_that_a_recipe_cannot_contain_is_refused(images: dict[str, Any], said: str) -> None:
    with pytest.raises(LabError, match=rf"images\.\w+\.{said}"):
        parse_lab(lab("sriov_plain", images), "x")


@pytest.mark.parametrize(
    ("delivery", "node_port", "refused"),
    [
        ({"profile": "pvrdma"}, 22, False),
        ({"profile": "pvrdma"}, 2222, True),
        ({"profile": "pvrdma", "ssh_port": 22}, 22, True),
        ({"profile": "pvrdma", "ssh_port": 2223}, 2222, False),
        ({"profile": "sriov_plain"}, 2222, False),
    ],
)
def test_in_the_machine_s_network_two_sshd_want_two_ports(
    delivery: dict[str, Any], node_port: int, refused: bool
) -> None:
    found = json.loads(lab(delivery["profile"], {}))
    found["cluster"]["delivery"] = delivery
    found["kind"] = "hardware"
    for node in found["nodes"]:
        node["ssh_port"] = node_port

    if not refused:
        assert lab_of(found).cluster
        return
    with pytest.raises(LabError, match=rf"cluster\.delivery\S*\.ssh_port: .*\b{node_port}\b.*\bssh_port\b"):
        lab_of(found)


def test_simulated_nodes_run_no_pods_whose_sshd_could_want_their_port() -> None:
    found = section_of("Pulumi.lab-pvrdma.yaml")

    assert {node["ssh_port"] for node in found["nodes"]} == {2222}
    assert lab_of(found).simulated

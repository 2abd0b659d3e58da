"""Images that cannot work in the cluster that they are for."""

import json
from typing import Any

import pytest
import yaml

from stacks.base import LabError
from stacks.read import parse_lab
from tests.conftest import ROOT


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

    assert "images.benchmark.verbs: vendor, and cluster.delivery is pvrdma" in str(refused.value)
    assert "images.training.verbs: base, and cluster.delivery is pvrdma" in str(refused.value)


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
def test_a_value_that_could_not_stand_in_a_recipe_is_refused(images: dict[str, Any], said: str) -> None:
    with pytest.raises(LabError, match=rf"images\.\w+\.{said}"):
        parse_lab(lab("sriov_plain", images), "x")

"""Digests of a lab's images: asked for where the lab pulls, and printed as its file takes them."""

import json
from pathlib import Path

import pytest
import yaml

from components.cli.app import main
from components.cluster.profiles import images_of, programs
from components.jobs import registry
from components.jobs.registry import ImageStatus, pins_of
from stacks.bill import Registry
from stacks.lab import Lab
from tests.components.cluster.conftest import profiled
from tests.conftest import ROOT
from tests.messages import states

DIGEST = "sha256:" + "ef" * 32


class Answers:
    """A registry that has everything but what it is told to lack."""

    def __init__(self, *missing: str) -> None:
        self.missing = missing
        self.asked: list[str] = []

    def __call__(self, image: str) -> ImageStatus:
        self.asked.append(image)
        if any(part in image for part in self.missing):
            return ImageStatus(outcome="missing")
        return ImageStatus(outcome="present", digest=DIGEST)


def merged(lab: Lab, content: object) -> Lab:
    """The lab with what is printed put into its file."""

    def put(into: dict[str, object], given: object) -> None:
        assert isinstance(given, dict)
        for key, value in given.items():
            inner = into.setdefault(key, {})
            if isinstance(value, dict):
                assert isinstance(inner, dict)
                put(inner, value)
            else:
                into[key] = value

    file = lab.model_dump(mode="json", exclude_unset=True)
    put(file, content)
    return Lab.model_validate_json(json.dumps(file))


def test_what_is_printed_pins_every_image_of_the_lab(lab: Lab) -> None:
    found = pins_of(lab, Answers())
    pinned = merged(lab, found.content)

    assert found.lacking == []
    assert {image.partition("@")[2] for image in images_of(pinned)} == {DIGEST}
    assert {image.partition("@")[0] for image in images_of(pinned)} == set(images_of(lab)), "the tag stays, for people"
    assert pinned.cluster is not None
    assert DIGEST in str(programs(pinned, pinned.cluster)["multus"].runs["daemonset"])
    again = Answers()
    assert pins_of(pinned, again).content == {}
    assert again.asked == [], "what is pinned is not asked for"


def test_only_what_the_lab_pulls_is_asked_for_and_where_it_pulls(lab: Lab) -> None:
    assert lab.cluster is not None
    registry = Registry(mirrors={"ghcr.io": "registry.example:5000"})
    asked = Answers()
    found = pins_of(lab.model_copy(update={"cluster": lab.cluster.model_copy(update={"registry": registry})}), asked)

    assert len(asked.asked) == len(set(asked.asked)) == len(images_of(lab))
    assert not any(image.startswith("ghcr.io/") for image in asked.asked)
    assert "registry.example:5000/k8snetworkplumbingwg/sriov-cni:v2.10.0" in asked.asked
    assert "'ghcr.io/k8snetworkplumbingwg/sriov-cni:v2.10.0@" in str(found.content), (
        "a mirror stays the mirrors' matter"
    )


def test_what_the_operators_name_by_system_and_kernel_keeps_its_tag(lab: Lab) -> None:
    operated = profiled(lab, {"profile": "sriov_operator", "vfs": 8}, gpus="operator").model_dump(
        mode="json", exclude_unset=True
    )
    operated |= {"driver": {"source": "operator"}, "gpu": {"driver": {"source": "operator"}}}
    asked = Answers()
    found = pins_of(Lab.model_validate_json(json.dumps(operated)), asked)

    assert sorted(line.partition(":")[0] for line in found.lacking) == [
        "cluster.bill.doca_driver",
        "cluster.bill.gpu_driver",
    ]
    assert not any("doca-driver" in image for image in asked.asked)
    assert "operator_multus" in str(found.content)


def test_an_image_that_cannot_be_pinned_is_named_and_the_others_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "Pulumi.lab.yaml").write_text((ROOT / "Pulumi.lab.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "look", Answers("nccl-roce-test"))
    assert main(["image", "pin"]) == 1
    out, err = capsys.readouterr()

    assert len(err.splitlines()) == 1
    assert states(err, "benchmarks.nccl.image", "192.168.100.10:5000/nccl-roce-test:deepops")
    assert set(yaml.safe_load(out)) == {"cluster"}


def test_an_unreachable_registry_differs_from_one_that_lacks_an_image(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(registry, "look", lambda _: ImageStatus(outcome="unknown", why="no route"))

    assert main(["image", "pin", "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert (told["lab"], told["without_digest"]) == ({}, [])
    assert "benchmarks.nccl.image: no route" in told["unknown"]

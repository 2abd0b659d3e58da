"""Private registries: what is pulled, from where, with which login, and the list for who has to mirror it."""

from pathlib import Path

import pytest

from components.cli.app import main
from components.cluster.manifests import in_parts
from components.cluster.preconditions import Precondition, preconditions
from components.cluster.profiles import images_of, programs
from stacks.bill import Registry
from stacks.images import Images, TrainingRecipe
from stacks.lab import Lab
from tests.components.cluster.conftest import parts, profiled
from tests.components.cluster.rendered import objects, variants
from tests.conftest import ROOT

MIRRORS = {"ghcr.io": "registry.lab:5000", "docker.io": "registry.lab:5000/hub", "nvcr.io": "registry.lab:5000"}


def mirrored(lab: Lab) -> Lab:
    assert lab.cluster is not None
    registry = Registry(mirrors=MIRRORS, pull_secret="lab-registry")
    return lab.model_copy(update={"cluster": lab.cluster.model_copy(update={"registry": registry})})


def required(lab: Lab) -> list[Precondition]:
    """What must exist in the lab's cluster."""
    assert lab.cluster is not None
    return [item for item in preconditions(lab, lab.cluster) if not item.conflict]


@pytest.mark.row("A 43")
def test_with_a_mirror_for_each_registry_nothing_is_pulled_from_outside(lab: Lab) -> None:
    for name, variant in variants(lab).items():
        rendered = objects(mirrored(variant))
        found = [value for m in rendered for path, value in parts(m) if path.endswith((".image", ".repository"))]
        outside = [str(value) for value in found if str(value).startswith(tuple(MIRRORS))]
        assert found
        assert outside == [], name


def test_every_pod_and_every_policy_brings_the_login(lab: Lab) -> None:
    for name, variant in variants(lab).items():
        secured = mirrored(variant)
        assert secured.cluster is not None
        for program in programs(secured, secured.cluster).values():
            for manifest in program.runs.values():
                pod = dict(parts(manifest))[".spec.template.spec.imagePullSecrets"]
                assert pod == [{"name": "lab-registry"}], name
    policy = next(m for m in objects(mirrored(variants(lab)["sriov_operator"])) if m["kind"] == "NicClusterPolicy")
    assert policy["spec"]["nvIpam"]["imagePullSecrets"] == ["lab-registry"]


def test_an_image_in_parts_is_the_same_image(lab: Lab) -> None:
    digest = "sha256:" + "0" * 64

    assert in_parts("nvcr.io/nvidia/driver:595.91.07", Registry()) == {
        "repository": "nvcr.io/nvidia",
        "image": "driver",
        "version": "595.91.07",
    }
    assert in_parts(f"r.lab:5000/a/b:v1@{digest}", Registry())["version"] == digest, "the digest decides"


def test_the_list_has_what_each_profile_pulls_and_nothing_else(lab: Lab) -> None:
    plain, shared = images_of(lab), images_of(profiled(lab, {"profile": "shared_rdma"}))

    assert any("sriov-cni" in image for image in plain)
    assert not any("rdma-shared" in image for image in plain)
    assert any("k8s-rdma-shared-dev-plugin:" in image for image in shared)
    assert not any("sriov-cni" in image for image in shared)
    assert lab.benchmarks is not None
    assert lab.benchmarks.nccl is not None
    assert lab.benchmarks.nccl.image in plain
    assert images_of(mirrored(lab)) == plain, "what is to be copied does not depend on where it is copied to"


def test_the_image_of_the_training_jobs_is_pulled_too(lab: Lab) -> None:
    training = TrainingRecipe(image="registry.example:5000/horovod:24.03")
    found = images_of(lab.model_copy(update={"images": Images(training=training)}))

    assert set(found) - set(images_of(lab)) == {training.image}


def test_the_command_takes_a_file_of_another_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "list", "--config-file", str(ROOT / "examples" / "deepops" / "Pulumi.deepops.yaml")]) == 0
    assert "192.168.100.10:5000/horovod:24.03" in capsys.readouterr().out.splitlines()


def test_the_command_shows_the_name_and_the_mirror(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "Pulumi.lab.yaml").read_text()
    registry = "    cluster:\n      registry:\n        mirrors: {ghcr.io: 'registry.lab:5000'}\n"
    (tmp_path / "Pulumi.mirrored.yaml").write_text(text.replace("    cluster:\n", registry))
    monkeypatch.chdir(tmp_path)

    assert main(["image", "list", "--stack", "mirrored"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        "ghcr.io/k8snetworkplumbingwg/sriov-cni:v2.10.0\tregistry.lab:5000/k8snetworkplumbingwg/sriov-cni:v2.10.0"
        in lines
    )


def test_a_missing_registry_login_is_reported_before_anything_is_placed(lab: Lab) -> None:
    secured = mirrored(lab)
    [lack] = required(secured)

    assert lack.path == "/api/v1/namespaces/kube-system/secrets/lab-registry"
    assert "kubectl -n kube-system create secret docker-registry lab-registry" in lack.fault


def test_the_login_is_looked_for_where_pods_pull_with_it_and_nowhere_else(lab: Lab) -> None:
    """Under the operators nothing of ours runs beside the nodes' agents: their own namespace needs the login."""

    def namespaces(variant: Lab) -> list[str]:
        secured = mirrored(variant)
        needed = [each.path for each in required(secured)]
        return [path.split("/")[4] for path in needed if path.endswith("/secrets/lab-registry")]

    operated = {"profile": "sriov_operator", "vfs": 8}
    assert namespaces(profiled(lab, operated)) == ["nvidia-network-operator"]
    assert namespaces(profiled(lab, operated, ipam={"kind": "dhcp"})) == ["kube-system", "nvidia-network-operator"]
    assert namespaces(profiled(lab, {"profile": "pvrdma"})) == ["kube-system"]


def test_an_operator_that_is_not_installed_is_named_with_its_command(lab: Lab) -> None:
    operated = profiled(lab, {"profile": "sriov_operator", "vfs": 8}, gpus="operator")
    lacks = {each.path.rpartition("/")[2]: each.fault for each in required(operated)}

    assert set(lacks) == {
        "nicclusterpolicies.mellanox.com",
        "sriovnetworknodepolicies.sriovnetwork.openshift.io",
        "clusterpolicies.nvidia.com",
    }
    assert "--version 26.4.1" in lacks["nicclusterpolicies.mellanox.com"]
    assert "sriovOperatorConfig.deploy=false" in lacks["nicclusterpolicies.mellanox.com"], "it would have two owners"
    assert "clusterPolicy.deployCR=false" in lacks["clusterpolicies.nvidia.com"]
    assert required(lab) == []

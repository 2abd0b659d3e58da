"""What a host's document says of drivers, GPUs and the runtime, and how long a run may then take."""

import json
import os
import shutil
import subprocess
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from components.hosts.changes import field_effect
from components.hosts.document import host_document
from components.hosts.program.places import DEADLINE_S
from components.hosts.program.steps import STEPS
from components.hosts.records import target_fields
from components.hosts.repair import repair_class
from stacks.base import Effect
from stacks.bill import PAUSE_VERSIONS, pause_image
from stacks.bootstrap import KubernetesVersion
from stacks.drivers import Firmware, NicDriver
from stacks.gpus import Gpu
from stacks.hosts import RepairClass
from stacks.lab import Lab
from stacks.runtime import Runtime
from tests.components.hosts.vendor_lab import asks
from tests.conftest import ROOT
from tests.labs import made_here

SECTIONS = {"driver", "firmware", "firmware_versions", "gpu", "runtime", "deadline_s"}
TOOLKIT = {"source": "packaged", "version": "1.17.8", "packages": ["nvidia-container-toolkit"]}
KUBEADM = shutil.which("kubeadm", path=f"{ROOT / '.engine/bin'}:{os.environ['PATH']}")
DOCA = NicDriver(source="doca_ofed", version="25.07-0.9.7")


def section(lab: Lab, key: str, **changes: object) -> Any:
    changed = lab.model_copy(update=changes)
    return host_document(changed, changed.nodes[0]).get(key)


def test_a_lab_that_asks_for_nothing_says_nothing(lab: Lab) -> None:
    assert SECTIONS & set(host_document(lab, lab.nodes[0])) == set()


def test_a_driver_of_the_operators_is_left_to_the_operator(lab: Lab) -> None:
    assert section(lab, "driver", driver=NicDriver(source="operator")) is None


def test_a_nic_that_the_driver_is_not_for_needs_it_installed_but_not_loaded(lab: Lab) -> None:
    found = section(lab, "driver", driver=DOCA)

    assert (found["source"], found["in_use"]) == ("doca_ofed", False)
    assert "driver_loaded" not in target_fields({**host_document(lab, lab.nodes[0]), "driver": found})


def test_a_node_without_gpus_has_no_section_for_them(lab: Lab) -> None:
    node = lab.nodes[0].model_copy(update={"gpus": 0})
    with_gpus = lab.model_copy(update={"gpu": Gpu()})

    assert "gpu" not in host_document(with_gpus, node)
    assert host_document(with_gpus, lab.nodes[0])["gpu"] == {
        "driver": {"source": "keep", "version": None},
        "toolkit": {"source": "keep", "version": None, "default_runtime": False},
        "gpudirect": "auto",
    }


def test_mirrors_of_whole_registries_reach_containerd(lab: Lab) -> None:
    containerd = {"source": "packaged", "packages": ["containerd"]}
    runtime = Runtime.model_validate({"containerd": containerd})
    assert lab.cluster is not None
    registry = lab.cluster.registry.model_copy(
        update={"mirrors": {"ghcr.io": "registry.lab:5000", "nvcr.io/nvidia": "registry.lab:5000/nv"}}
    )
    cluster = lab.cluster.model_copy(update={"registry": registry})

    found = section(lab, "runtime", runtime=runtime, cluster=cluster)

    assert found["containerd"]["registries"] == [{"host": "ghcr.io", "mirror": "registry.lab:5000"}]


@pytest.mark.parametrize(
    ("bootstrap", "asked", "image"),
    [
        ({}, {}, "registry.k8s.io/pause:3.10.2"),
        ({"version": "1.35.8"}, {}, "registry.k8s.io/pause:3.10.1"),
        ({"image_repository": "registry.lab:5000/k8s"}, {}, "registry.lab:5000/k8s/pause:3.10.2"),
        ({}, {"sandbox_image": "registry.lab:5000/pause:3.9"}, "registry.lab:5000/pause:3.9"),
    ],
)
def test_pods_use_the_pause_image_of_their_kubernetes(
    bootstrap: dict[str, str], asked: dict[str, str], image: str
) -> None:
    made = Lab.model_validate_json(json.dumps(made_here(**bootstrap)))
    runtime = Runtime.model_validate({"containerd": {"source": "packaged", "packages": ["containerd"], **asked}})

    found = section(made, "runtime", runtime=runtime)

    assert found["containerd"]["sandbox_image"] == image


def test_pods_of_an_existing_cluster_use_the_newest_pause_image(lab: Lab) -> None:
    runtime = Runtime.model_validate({"containerd": {"source": "packaged", "packages": ["containerd"]}})
    assert lab.cluster is not None
    assert lab.cluster.bootstrap is None

    found = section(lab, "runtime", runtime=runtime)

    assert found["containerd"]["sandbox_image"] == f"registry.k8s.io/pause:{max(PAUSE_VERSIONS.values())}"


@pytest.mark.parametrize("minor", range(30, 42))
def test_every_kubernetes_that_a_lab_may_ask_for_has_a_pause_image(minor: int) -> None:
    try:
        TypeAdapter(KubernetesVersion).validate_python(f"1.{minor}.0")
    except ValidationError:
        assert f"1.{minor}" not in PAUSE_VERSIONS
    else:
        assert f"1.{minor}" in PAUSE_VERSIONS


@pytest.mark.sim
@pytest.mark.skipif(KUBEADM is None, reason="no kubeadm: engine/setup --dev builds it")
def test_it_is_the_one_that_kubeadm_fetches() -> None:
    done = subprocess.run(
        [str(KUBEADM), "config", "images", "list", "--kubernetes-version", "v1.36.3"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert pause_image("1.36.3") in done.stdout.split()


@pytest.mark.parametrize(
    ("changes", "longer_s"),
    [
        ({}, 0),
        ({"driver": DOCA}, 1800),
        ({"gpu": Gpu.model_validate({"toolkit": TOOLKIT})}, 600),
    ],
)
def test_a_run_gets_the_time_for_what_it_is_asked_for(lab: Lab, changes: dict[str, object], longer_s: int) -> None:
    assert section(lab, "deadline_s", **changes) == (DEADLINE_S + longer_s if longer_s else None)


@pytest.mark.parametrize("name", ["driver", "firmware", "gpu_driver", "runtime", "toolkit", "memlock", "gpudirect"])
def test_every_field_says_what_it_does_and_how_its_repair_disturbs(name: str, lab: Lab) -> None:
    containerd = {"source": "packaged", "packages": ["containerd"]}
    asked = {
        "driver": DOCA,
        "firmware": Firmware(manage=True),
        "gpu": Gpu.model_validate({"toolkit": TOOLKIT, "driver": {**TOOLKIT, "packages": ["nvidia-open"]}}),
        "runtime": Runtime.model_validate({"containerd": containerd}),
    }
    step = next(step for step in STEPS if step.name == name)
    fields = step.target(asks(lab, **asked))

    assert fields
    assert {field_effect(field) for field in fields} <= set(get_args(Effect))
    assert {repair_class(field) for field in fields} <= set(get_args(RepairClass))


def test_only_a_node_whose_nics_are_set_gets_the_time_for_it(lab: Lab) -> None:
    assert asks(lab, firmware={"manage": True})["deadline_s"] == DEADLINE_S + 240
    assert section(lab, "deadline_s", firmware=Firmware(manage=True)) is None, "its NICs have another driver"

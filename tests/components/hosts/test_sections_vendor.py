"""What a host's document says of drivers, GPUs and the runtime, and how long a run may then take."""

from typing import Any, get_args

import pytest

from components.hosts import effects
from components.hosts.document import deadline_s, host_document, wanted_fields
from components.hosts.program.places import DEADLINE_S
from components.hosts.program.steps import STEPS
from stacks.base import Effect
from stacks.drivers import Firmware, NicDriver
from stacks.gpus import Gpu
from stacks.hosts import RepairClass
from stacks.lab import Lab
from stacks.runtime import Runtime

SECTIONS = {"driver", "firmware", "firmware_versions", "gpu", "runtime", "deadline_s"}
TOOLKIT = {"source": "packaged", "version": "1.17.8", "packages": ["nvidia-container-toolkit"]}
DOCA = NicDriver(source="doca_ofed", version="25.07-0.9.7")


def section(lab: Lab, key: str, **changes: object) -> Any:
    changed = lab.model_copy(update=changes)
    return host_document(changed, changed.nodes[0]).get(key)


def test_a_lab_that_asks_for_nothing_says_nothing(lab: Lab) -> None:
    assert SECTIONS & set(host_document(lab, lab.nodes[0])) == set()


def test_a_driver_of_the_operators_is_none_of_the_hosts_business(lab: Lab) -> None:
    assert section(lab, "driver", driver=NicDriver(source="operator")) is None


def test_a_nic_that_the_driver_is_not_for_needs_it_installed_but_not_loaded(lab: Lab) -> None:
    found = section(lab, "driver", driver=DOCA)

    assert (found["source"], found["in_use"], found["may_reboot"]) == ("doca_ofed", False, False)
    assert "driver_loaded" not in wanted_fields({**host_document(lab, lab.nodes[0]), "driver": found})


def test_a_node_without_gpus_has_no_section_for_them(lab: Lab) -> None:
    node = lab.nodes[0].model_copy(update={"gpus": 0})
    with_gpus = lab.model_copy(update={"gpu": Gpu()})

    assert "gpu" not in host_document(with_gpus, node)
    assert host_document(with_gpus, lab.nodes[0])["gpu"] == {
        "driver": {"source": "keep", "version": None},
        "toolkit": {"source": "keep", "version": None, "default_runtime": False},
        "gpudirect": "auto",
        "may_reboot": False,
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
    ("changes", "longer_s"),
    [
        ({}, 0),
        ({"driver": DOCA}, 1800),
        ({"firmware": Firmware(manage=True)}, 240),
        ({"gpu": Gpu.model_validate({"toolkit": TOOLKIT})}, 600),
    ],
)
def test_a_run_gets_the_time_for_what_it_is_asked_for(lab: Lab, changes: dict[str, object], longer_s: int) -> None:
    assert deadline_s(lab.model_copy(update=changes)) == DEADLINE_S + longer_s
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
    fields = step.wanted(host_document(lab.model_copy(update=asked), lab.nodes[0]))

    assert fields
    assert {effects.field_effect(field) for field in fields} <= set(get_args(Effect))
    assert {effects.repair_class(field) for field in fields} <= set(get_args(RepairClass))

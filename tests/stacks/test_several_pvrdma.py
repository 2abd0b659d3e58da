"""How many PVRDMA adapters a VM may have: one by VMware's older word, ten by its newer virtual hardware."""

import copy
import json
from typing import Any

import pytest

from stacks.nodes import VsphereVm
from tests.labs import section_of
from tests.messages import states

LAB = section_of("Pulumi.lab-pvrdma.yaml")


def node_with(adapters: int, **machine: Any) -> dict[str, Any]:
    node = copy.deepcopy(LAB["nodes"][0])
    node["machine"] |= machine
    node["pfs"] = [
        node["pfs"][0]
        | {"rail": f"r{n}", "interface": f"enp{n}s0", "rdma_device": f"rxe{n}", "address": f"192.168.{n}.31/24"}
        for n in range(adapters)
    ]
    return node


def test_virtual_hardware_of_7_0_u2_may_have_several_without_a_word_of_the_lab() -> None:
    node = VsphereVm.model_validate_json(json.dumps(node_with(2, hardware_version=19)))

    assert node.knows_several_pvrdma


@pytest.mark.parametrize(
    ("adapters", "version", "said"),
    [
        (2, 18, ["KB 328676", 19, "machine.hardware_version"]),
        (11, 19, ["11 PVRDMA adapters", 10]),
    ],
)
def test_more_than_the_virtual_hardware_knows_are_refused(adapters: int, version: int, said: list[str | int]) -> None:
    with pytest.raises(ValueError, match="PVRDMA adapters") as refused:
        VsphereVm.model_validate_json(json.dumps(node_with(adapters, hardware_version=version)))

    assert states(str(refused.value), *said)

"""One node alone: what it runs, and which card it names."""

import json
from typing import Any

import pytest

from components.hosts.program import gpu_copy
from components.validation.benchmarks.node.judge import alone_findings, judge_alone
from components.validation.benchmarks.node.run import alone_without_a_run, copies_of
from components.validation.benchmarks.part import alone
from components.validation.benchmarks.plan import Plan, plan_of
from components.validation.records import GpuCopy, Loopback, NodesAlone, RunRecord
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab
from tests.components.audit.spoilt import lab as hardware_lab
from tests.components.validation.labs import nodes_alone, record
from tests.messages import states

H100 = {"to_gpu": 54.34, "to_host": 54.73, "link_speed": "32.0 GT/s PCIe", "link_width": "16"}
"""As the verb printed it on a machine with one H100, driver 580.159.04."""


@pytest.fixture
def plan() -> Plan:
    found = plan_of(hardware_lab(hosts=2, rails=2, benchmarks={}))
    assert found is not None
    return found


def judged(plan: Plan, loopbacks: list[Loopback], copies: list[GpuCopy]) -> tuple[RunRecord, list[str]]:
    run = record(plan).model_copy(update={"alone": NodesAlone(loopbacks=tuple(loopbacks), copies=tuple(copies))})
    return run, [f"{finding.code} {finding.where}" for finding in alone_findings(plan, Benchmarks(), run)]


def good(plan: Plan) -> list[Loopback]:
    whole = nodes_alone(plan)
    assert whole is not None
    return list(whole.loopbacks)


def copies(**changed: float) -> list[GpuCopy]:
    """Four GPUs; the last one copies with other rates."""
    usual = {"to_gpu": 54.0, "to_host": 54.0, "link_speed": "32.0 GT/s PCIe", "link_width": "16"}
    gpus: dict[str, Any] = {f"0000:{at}a:00.0": usual for at in (1, 2, 3)}
    gpus["0000:4a:00.0"] = {**usual, **changed}
    return list(copies_of("gpu01", json.dumps({"gpus": gpus})))


def test_hardware_is_tested_alone_first_and_the_simulator_only_when_asked(plan: Plan, lab: Lab) -> None:
    assert plan.alone == ("gpu01", "gpu02")
    simulated = plan_of(lab)
    assert simulated is not None
    assert simulated.alone == ()
    assert alone(simulated, "gpu02").alone == ("gpu02",)


def test_the_plan_of_one_node_has_nothing_that_needs_a_peer(plan: Plan) -> None:
    part = alone(plan, "gpu02")

    assert (part.stages, part.pods, part.nccl, part.gpu_memory, part.nodes) == ((), None, None, [], {"gpu02"})
    assert part.estimate_s < 120
    with pytest.raises(LabError) as refused:
        alone(plan, "gpu09")
    assert states(str(refused.value), "gpu09", "gpu01")


def test_a_sound_node_has_no_finding_and_passes(plan: Plan) -> None:
    run, findings = judged(plan, good(plan), [*copies_of("gpu01", json.dumps({"gpus": {"0000:1a:00.0": H100}}))])

    assert findings == []
    [test] = judge_alone(plan, Benchmarks(), run)
    assert (test.function, test.performance) == ("pass", "pass")


def test_a_slow_card_is_named_with_its_node_and_rail(plan: Plan) -> None:
    first, *others = good(plan)
    slow = first.model_copy(update={"gbit_s": 48.0, "pcie_gbit_s": 110.0})

    run, findings = judged(plan, [slow, *others], [])

    assert findings == ["NIC_ALONE_SLOW gpu01 rail-1"]
    [test] = judge_alone(plan, Benchmarks(), run)
    assert (test.function, test.performance) == ("pass", "fail")


def test_a_loopback_of_400_gbit_s_that_is_as_fast_as_its_peers_is_sound(plan: Plan) -> None:
    """NVIDIA/nccl#2171: `Loopback (NUMA-pinned, 65KB) | mlx5_0 -> mlx5_0 | 290 Gb/s`, and 395 to another node."""
    sound = {"gbit_s": 290.0, "line_rate_gbit_s": 400.0, "pcie_gbit_s": 457.64}
    alike = [loop.model_copy(update=sound) for loop in good(plan)]
    slow = alike[0].model_copy(update={"gbit_s": 240.0})

    run, findings = judged(plan, alike, [])
    [test] = judge_alone(plan, Benchmarks(), run)

    assert (test.performance, findings) == ("pass", [])
    assert test.ratio == pytest.approx(290 / 400, abs=0.02)
    assert judged(plan, [slow, *alike[1:]], [])[1] == ["NIC_ALONE_SLOW gpu01 rail-1"]


def test_a_nic_that_fails_alone_fails_the_function(plan: Plan) -> None:
    first, *others = good(plan)
    broken = first.model_copy(update={"outcome": "failed", "gbit_s": None, "reason": "no completion"})

    run, findings = judged(plan, [broken, *others], [])

    assert findings == ["NIC_ALONE_FAILED gpu01 rail-1"]
    [test] = judge_alone(plan, Benchmarks(), run)
    assert test.function == "fail"


def test_gpudirect_is_judged_only_where_nic_and_gpu_are_near(plan: Plan) -> None:
    first, *others = good(plan)
    gpu = {"gpu": "0000:1a:00.0", "gpu_gbit_s": 40.0}

    assert judged(plan, [first.model_copy(update=gpu), *others], [])[1] == ["GPUDIRECT_ALONE_SLOW gpu01 rail-1"]
    assert judged(plan, [first.model_copy(update={**gpu, "far": True}), *others], [])[1] == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"to_gpu": 26.0}, ["GPU_COPY_SLOW gpu01 0000:4a:00.0"]),
        ({"to_host": 45.8}, ["GPU_COPY_SLOW gpu01 0000:4a:00.0"]),
        ({"to_host": 48.0}, []),
    ],
)
def test_a_gpu_is_held_against_its_link_and_its_peers(
    plan: Plan, changed: dict[str, float], expected: list[str]
) -> None:
    assert judged(plan, good(plan), copies(**changed))[1] == expected


def test_a_gpu_that_cannot_copy_is_named() -> None:
    text = json.dumps({"gpus": {"0000:1a:00.0": {"failed": "cuMemAlloc_v2: CUDA_ERROR_ECC_UNCORRECTABLE (214)"}}})

    [copy] = copies_of("gpu01", text)

    assert (copy.outcome, copy.gpu) == ("failed", "0000:1a:00.0")
    assert [one.outcome for one in copies_of("gpu01", "Segmentation fault")] == ["error"]


def test_without_a_driver_the_program_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_copy.copy_around() == 0

    assert "libcuda" in json.loads(capsys.readouterr().out)["failed"]


def test_a_run_that_could_not_start_leaves_no_nic_out(plan: Plan) -> None:
    skipped = alone_without_a_run(plan, "skipped", "busy: gpu01")

    assert skipped is not None
    assert [loop.outcome for loop in skipped.loopbacks] == ["skipped"] * 4

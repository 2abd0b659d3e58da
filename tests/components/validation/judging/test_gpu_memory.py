"""GPU memory against host memory on the same way: one finding that says that the network is fine.

The numbers are published: 381.41 and 140.88 Gbit/s for 64 KiB messages on an A3 Ultra (google/dranet,
site/content/docs/user/gke-rdma.md), and 92.38 Gbit/s between two pods (NVIDIA's GPU operator documentation, GPUDirect).
"""

import pytest

from components.validation.records import GpuTransfer, Outcome
from components.validation.summary import JudgedTest, Summary
from components.validation.verdict import judge
from stacks.lab import Lab
from tests.components.validation.labs import hardware, plan_for, record, reduced
from tests.messages import states

REGISTER = "gpu01: the NIC cannot register GPU memory: no nvidia_peermem"


def judged(lab: Lab, *, host: float, gpu: float | None, outcome: Outcome = "measured", reason: str = "") -> Summary:
    """Of the transfers the first is another one than the rest."""
    real = hardware(lab)
    assert real.benchmarks
    run = record(plan_for(real), 97.0, nccl=reduced(23.9))
    first, *rest = run.gpu_memory
    changed = {
        "outcome": outcome,
        "reason": reason,
        "gbit_s": gpu,
        "host_gbit_s": host,
        "gpus": ("--use_cuda_bus_id=a",),
    }
    return judge(
        plan_for(real),
        real.benchmarks,
        run.model_copy(update={"gpu_memory": (first.model_copy(update=changed), *rest)}),
    ).verdict()


def row(summary: Summary) -> JudgedTest:
    return next(one for one in summary.tests if one.test == "gpu_memory")


def test_gpu_memory_that_is_as_fast_as_host_memory_passes(lab: Lab) -> None:
    summary = judged(lab, host=92.40, gpu=92.38)

    assert (row(summary).function, row(summary).performance) == ("pass", "pass")
    assert summary.findings == ()


def test_the_network_is_fine_and_gpudirect_is_slow_is_one_finding_with_both_numbers(lab: Lab) -> None:
    summary = judged(lab, host=381.41, gpu=140.88)

    assert (row(summary).function, row(summary).performance, row(summary).ratio) == ("pass", "fail", 0.3694)
    assert [found.code for found in summary.findings] == ["GPUDIRECT_SLOW"]
    assert states(summary.findings[0].where, "rail-a", "gpu01 to gpu02")
    assert "140.9 Gbit/s" in summary.findings[0].evidence
    assert "381.4" in summary.findings[0].evidence


@pytest.mark.parametrize("all_of_them", [False, True])
def test_a_gpu_on_another_socket_is_no_fault_of_gpudirect(lab: Lab, *, all_of_them: bool) -> None:
    """linux-rdma/perftest#241 has 23000 MB/s between hosts and 11000 between GPUs that are SYS to the NIC."""
    real = hardware(lab)
    assert real.benchmarks
    run = record(plan_for(real), 97.0, nccl=reduced(23.9))
    across = {"far": ("gpu02",), "gbit_s": 88.0, "host_gbit_s": 184.0}
    far = [one.model_copy(update=across) for one in run.gpu_memory]
    transfers = far if all_of_them else [far[0], *run.gpu_memory[1:]]
    summary = judge(plan_for(real), real.benchmarks, run.model_copy(update={"gpu_memory": tuple(transfers)})).verdict()

    assert (summary.function, summary.performance) == ("pass", "pass")
    assert [found.code for found in summary.findings] == ["GPU_FAR"]
    assert states(summary.findings[0].evidence, "gpu02", "88.0 Gbit/s", "184.0")
    shown = row(summary)
    expected = ("not rated", "far: not judged", 88.0) if all_of_them else ("pass", "", 97.0)
    assert (shown.function, shown.performance, shown.because, shown.median) == ("pass", *expected)


def test_gpu_memory_that_a_nic_cannot_register_fails_with_what_host_memory_reached(lab: Lab) -> None:
    summary = judged(lab, host=381.41, gpu=None, outcome="failed", reason=REGISTER)

    assert (row(summary).function, summary.function) == ("fail", "fail")
    assert [found.code for found in summary.findings] == ["GPUDIRECT_FAILED"]
    assert states(summary.findings[0].evidence, "381.4 Gbit/s")
    assert any(REGISTER in reason for reason in summary.reasons)


@pytest.mark.parametrize("all_of_them", [False, True])
def test_what_no_perftest_can_run_is_a_hint_and_no_failure(lab: Lab, *, all_of_them: bool) -> None:
    real = hardware(lab)
    assert real.benchmarks
    run = record(plan_for(real), 97.0, nccl=reduced(23.9))
    why = {"outcome": "skipped", "reason": "gpu01: perftest has no CUDA"}
    unable = [one.model_copy(update=why) for one in run.gpu_memory]
    found: list[GpuTransfer] = unable if all_of_them else [unable[0], *run.gpu_memory[1:]]
    summary = judge(plan_for(real), real.benchmarks, run.model_copy(update={"gpu_memory": tuple(found)})).verdict()

    assert (summary.function, summary.performance) == ("pass", "pass")
    assert [finding.code for finding in summary.findings] == ["GPUDIRECT_UNTESTED"]
    assert "25.07" in summary.findings[0].hint
    assert (row(summary).function, row(summary).because) == (
        ("not run", why["reason"]) if all_of_them else ("pass", "")
    )


def test_results_that_are_missing_are_no_pass(lab: Lab) -> None:
    real = hardware(lab)
    assert real.benchmarks
    run = record(plan_for(real), 97.0, nccl=reduced(23.9)).model_copy(update={"gpu_memory": ()})

    assert judge(plan_for(real), real.benchmarks, run).verdict().function == "fail"

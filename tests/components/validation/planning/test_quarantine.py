"""Who takes no part in a measurement, and what that does to plan and gate."""

import pytest

from components.validation.benchmarks.jobs.run import without_a_run
from components.validation.benchmarks.part import quarantined, without
from components.validation.summary import closed
from components.validation.verdict import in_cluster, judge
from stacks.lab import Lab
from stacks.transports import Comparison
from tests.components.validation.labs import changed, hardware, plan_for, record, reduced, with_nodes
from tests.messages import states


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"status": "ready"}, {}),
        ({"status": "drained"}, {}),
        ({"status": "unreachable", "reason": "no answer"}, {"gpu01": "unreachable: no answer"}),
        (
            {"status": "needs_reboot", "reason": "vfs", "hint": "reboot it"},
            {"gpu01": "needs_reboot: vfs; reboot it"},
        ),
    ],
)
def test_a_host_that_is_not_ready_is_named_with_all_that_is_known(
    lab: Lab, result: dict[str, str], expected: dict[str, str]
) -> None:
    assert quarantined(plan_for(lab), {"gpu01": result, "gpu02": {"status": "ready"}}) == expected


def test_a_host_that_is_in_no_plan_holds_nothing_up(lab: Lab) -> None:
    assert quarantined(plan_for(lab), {"login01": {"status": "failed"}}) == {}


def test_the_rest_keeps_its_rails_and_its_job(lab: Lab) -> None:
    plan = plan_for(with_nodes(lab, 4))

    rest = without(plan, {"gpu03"})

    assert {end.node for rail in rest.rails for end in rail.ends} == {"gpu01", "gpu02", "gpu04"}
    assert rest.nccl
    assert rest.nccl.nodes == ("gpu01", "gpu02", "gpu04")
    assert without(plan, ()) == plan


def test_a_single_host_that_is_left_runs_no_test_of_gpus_and_says_so(lab: Lab) -> None:
    rest = without(plan_for(hardware(lab)), {"gpu02"})

    assert (rest.nccl, rest.gpu_memory) == (None, [])
    assert rest.not_run.keys() == {"gpu_memory", "nccl_all_reduce"}
    assert all("gpu02" in reason for reason in rest.not_run.values())


def test_further_jobs_do_not_wait_for_a_host_that_is_out(lab: Lab) -> None:
    plan = plan_for(changed(with_nodes(lab, 4), comparison=Comparison()))
    assert [job.transport for job in plan.jobs] == ["tcp", "roce"]

    rest = without(plan, {"gpu03", "elsewhere"})

    assert [job.workers.nodes for job in rest.jobs if job.workers] == [("gpu01", "gpu02", "gpu04")] * 2
    assert without(plan, {"elsewhere"}).jobs == plan.jobs


def test_further_jobs_of_a_single_host_are_skipped_with_the_reason_and_the_verdict_is_partial(lab: Lab) -> None:
    assert lab.benchmarks
    asked = changed(lab, comparison=Comparison())
    rest = without(plan_for(asked), {"gpu02"})
    skipped = tuple(without_a_run(rest.jobs, "failed", "it ran"))
    run = record(rest).model_copy(update={"jobs": skipped})

    assert {one.outcome for one in skipped} == {"skipped"}
    assert all(states(reason, "two", "gpu02") for one in skipped for reason in one.reasons)
    assert all(one.reasons for one in skipped)
    assert in_cluster(judge(rest, lab.benchmarks, run).verdict(), (), {"gpu02": "failed: vfs"}).function == "partial"


def test_a_job_that_cannot_be_is_no_reason_to_measure_again_at_each_up(lab: Lab) -> None:
    plan = plan_for(changed(lab, comparison=Comparison(transports=("host",))))
    ran = [
        one.model_copy(update={"replayed": one.outcome == "measured"})
        for one in without_a_run(plan.jobs, "measured", "")
    ]
    run = record(plan, nccl=reduced(replayed=True)).model_copy(update={"jobs": tuple(ran)})
    broken = run.model_copy(update={"jobs": tuple(without_a_run(plan.jobs, "failed", "no pod"))})

    assert lab.benchmarks
    assert judge(plan, lab.benchmarks, run).verdict().function == "skip", "what was left out is no pass"
    assert judge(plan, lab.benchmarks, run).settled
    assert not judge(plan, lab.benchmarks, broken).settled


@pytest.mark.parametrize(("mode", "expected"), [("enforce", True), ("warn", False)])
def test_a_partial_verdict_fails_a_run_that_enforces(mode: str, expected: bool) -> None:
    assert closed(mode, "partial", "not rated") is expected

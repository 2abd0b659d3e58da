"""The judgement: two axes, reasons with both numbers, and what never becomes a pass."""

import pytest

from components.validation.judging.verdict import function_of, judge
from components.validation.records import NcclResult, RunRecord, TransferResult, summarise
from stacks.benchmarks import Threshold
from stacks.lab import Lab
from tests.components.validation.labs import changed, hardware, measured, plan_for, record, reduced, with_nodes


def judged(lab: Lab, run: RunRecord):  # type: ignore[no-untyped-def]  # inferred from judge
    assert lab.benchmarks
    return judge(plan_for(lab), lab.benchmarks, run)


def test_in_the_simulator_function_is_real_and_performance_is_not_rated(lab: Lab) -> None:
    summary = judged(lab, record(plan_for(lab), gbit_s=0.04, nccl=reduced(replayed=True)))

    assert (summary.function, summary.performance, summary.performance_because) == ("pass", "not rated", "simulated")
    assert [(test.function, test.performance, test.because, test.ratio) for test in summary.tests] == [
        ("pass", "not rated", "simulated", None),
        ("pass", "not rated", "simulated", None),
        ("replayed", "not rated", "replayed", None),
    ]


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_replayed_log_enters_no_verdict_whatever_it_says(lab: Lab, outcome: str) -> None:
    nccl = NcclResult(outcome=outcome, replayed=True, reasons=("something",))
    summary = judged(hardware(lab), record(plan_for(hardware(lab)), nccl=nccl))

    assert (summary.function, summary.performance, summary.reasons) == ("pass", "pass", ())


def test_without_the_replayed_mark_the_same_result_fails(lab: Lab) -> None:
    nccl = NcclResult(outcome="failed", reasons=("the job failed",))
    summary = judged(lab, record(plan_for(lab), nccl=nccl))

    assert (summary.function, summary.reasons) == ("fail", ("nccl_all_reduce failed: the job failed",))


def test_good_hardware_passes_both_axes(lab: Lab) -> None:
    real = hardware(lab)
    summary = judged(real, record(plan_for(real), gbit_s=97.2, nccl=reduced(23.9)))

    assert (summary.function, summary.performance) == ("pass", "pass")
    assert [test.ratio for test in summary.tests] == [0.9917, 0.9917, pytest.approx(23.9 / (2 * 97.2 / 8), abs=1e-4)]


def test_seed_a_s_numbers_warn_with_the_contradiction_and_the_test_that_decides(lab: Lab) -> None:
    real = hardware(lab)
    summary = judged(real, record(plan_for(real), gbit_s=92.40, nccl=reduced(22.92)))

    assert (summary.function, summary.performance) == ("pass", "warn")
    assert [test.performance for test in summary.tests] == ["warn", "warn", "pass"]
    assert summary.tests[2].ratio == pytest.approx(0.992, abs=0.0005)
    assert "looks like path MTU 1024 while 4096 is reported" in summary.hints[0]
    assert "ib_write_bw -m 4096 without -R" in summary.hints[0]
    assert "92.40 Gbit/s is 94.3% of 98.01" in summary.reasons[0]


def test_one_slow_direction_fails_its_rail_and_is_named(lab: Lab) -> None:
    real = hardware(lab)
    slow = measured("rail-b", "gpu02", "gpu01", 41.0)
    summary = judged(real, record(plan_for(real), nccl=reduced(), also=[slow]))

    assert [test.performance for test in summary.tests[:2]] == ["pass", "fail"]
    assert summary.performance == "fail"
    assert summary.tests[1].worst and summary.tests[1].worst.client == "gpu02"  # noqa: PT018  # one thing
    assert any("rail-b gpu02 to gpu01: 41.00 Gbit/s is 41.8% of 98.01" in reason for reason in summary.reasons)


def test_a_threshold_edit_changes_the_verdict_of_the_same_record(lab: Lab) -> None:
    real = hardware(lab)
    run = record(plan_for(real), gbit_s=80.0, nccl=reduced(19.9))
    assert real.benchmarks
    verbs = real.benchmarks.verbs.model_copy(update={"threshold": Threshold(fail_below=0.5, warn_below=0.6)})

    assert judged(real, run).performance == "fail"
    assert judged(changed(real, verbs=verbs), run).performance == "pass"


def test_a_failed_run_fails_the_function_axis_with_its_reason(lab: Lab) -> None:
    broken = TransferResult(
        rail="rail-a", client="gpu01", server="gpu02", outcome="failed", reasons=("retries exceeded",)
    )
    summary = judged(lab, record(plan_for(lab), nccl=reduced(replayed=True), also=[broken]))

    assert summary.function == "fail"
    assert summary.reasons == ("rail-a gpu01 to gpu02 failed: retries exceeded",)
    assert [test.function for test in summary.tests] == ["fail", "pass", "replayed"]


def test_the_same_fault_of_many_is_said_once(lab: Lab) -> None:
    plan = plan_for(with_nodes(lab, 4))
    down = [
        TransferResult(rail=t.rail, client=t.client, server=t.server, outcome="failed", reasons=("gpu03 is down",))
        for transfers in plan.rounds
        for t in transfers
        if "gpu03" in (t.client, t.server)
    ]
    summary = judged(with_nodes(lab, 4), record(plan, also=down, nccl=reduced(replayed=True)))

    assert len(summary.reasons) == 1
    assert "and 11 more failed: gpu03 is down" in summary.reasons[0]


def test_a_skipped_run_is_never_green(lab: Lab) -> None:
    busy = TransferResult(rail="rail-a", client="gpu01", server="gpu02", outcome="skipped", reasons=("busy",))
    run = record(plan_for(lab), nccl=reduced(replayed=True), also=[busy])

    assert (judged(lab, run).function, function_of(plan_for(lab), run)) == ("skip", "skip")


def test_a_result_that_is_missing_is_no_pass(lab: Lab) -> None:
    run = record(plan_for(lab), nccl=reduced(replayed=True))
    less = run.model_copy(update={"series": summarise(list(run.transfers[:3]))})

    assert judged(lab, less).function == "fail"
    assert judged(lab, run.model_copy(update={"nccl": None})).function == "fail"


def test_ports_without_a_line_rate_are_not_rated_and_not_passed(lab: Lab) -> None:
    real = hardware(lab)
    unknown = measured("rail-a", "gpu01", "gpu02", 97.0, line_rate_gbit_s=None)
    other = measured("rail-a", "gpu02", "gpu01", 97.0, line_rate_gbit_s=None)
    summary = judged(real, record(plan_for(real), nccl=reduced(), also=[unknown, other]))

    assert (summary.performance, summary.performance_because) == (
        "not rated",
        "the ports do not tell their line rate",
    )


def test_one_node_alone_is_a_skip(lab: Lab) -> None:
    alone = with_nodes(lab, 1)
    summary = judged(alone, record(plan_for(alone)))

    assert summary.function == "skip"
    assert "two active nodes" in summary.reasons[0]


def test_the_summary_of_64_nodes_where_everything_fails_stays_small(lab: Lab) -> None:
    big = with_nodes(hardware(lab), 64)
    down = [
        TransferResult(rail=t.rail, client=t.client, server=t.server, outcome="failed", reasons=(f"{t} broke " * 9,))
        for transfers in plan_for(big).rounds
        for t in transfers
    ]
    summary = judged(big, record(plan_for(big), also=down))

    assert len(summary.model_dump_json()) < 8_000

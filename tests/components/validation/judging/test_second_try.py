"""A transfer of which one try failed and another was measured: never silent, and no fault of the function by itself."""

import pytest

from components.report.lines import cells
from components.validation.benchmarks.verbs.judge import CODE, CROWDED_SHARE
from components.validation.history import passes
from components.validation.records import RunRecord, TransferResult
from components.validation.summary import UNSTABLE_SHARE, Summary, closed
from components.validation.verdict import judge
from stacks.lab import Lab
from tests.components.validation.labs import (
    first_rounds,
    function_of,
    hardware,
    measured,
    plan_for,
    record,
    reduced,
    with_nodes,
)
from tests.messages import states

REASON = "failed: gpu02: no end in time"


def second_tries(lab: Lab, count: int, *, at_once: int = 4, value: float = 97.0) -> list[TransferResult]:
    """The first transfers of rail-a, each measured at its second try only."""
    transfers = [t for transfers in first_rounds(plan_for(lab)) for t in transfers if t.rail == "rail-a"][:count]
    told = {"failed_once": REASON, "failed_at_once": 8, "at_once": at_once}
    return [measured(t.rail, t.client, t.server, value, **told) for t in transfers]


def judged(lab: Lab, run: RunRecord) -> Summary:
    assert lab.benchmarks
    return judge(plan_for(lab), lab.benchmarks, run).verdict()


def with_tries(lab: Lab, also: list[TransferResult]) -> Summary:
    return judged(lab, record(plan_for(lab), nccl=reduced(23.5), also=also))


def test_a_transfer_that_failed_once_warns_with_its_reason_and_both_loads_and_accuses_no_part(lab: Lab) -> None:
    real = with_nodes(hardware(lab), 8)
    summary = with_tries(real, second_tries(real, 1))

    assert (summary.function, summary.performance) == ("pass", "warn")
    assert [found.code for found in summary.findings] == [CODE]
    assert states(summary.findings[0].where, "rail-a", "gpu01 to gpu08")
    assert states(summary.findings[0].evidence, "ib_write_bw", REASON, 4, 8)
    rail_a = summary.tests[0]
    assert (rail_a.measured, rail_a.failed, rail_a.failed_once) == (56, 0, 1)
    assert states(cells(rail_a, simulated=False)[2], "pass", "1 failed once", 56)
    assert any("1 of 56" in reason for reason in summary.reasons)
    assert passes(summary), "one hiccup makes no run useless as a measure"


def test_the_number_of_the_second_try_is_held_against_the_bounds_like_any_other(lab: Lab) -> None:
    real = with_nodes(hardware(lab), 8)
    summary = with_tries(real, second_tries(real, 1, value=50.0))

    assert summary.tests[0].worst is not None
    assert (summary.performance, summary.tests[0].worst.value) == ("fail", 50.0)


def test_more_than_a_few_leave_no_representative_number_for_the_test(lab: Lab) -> None:
    real = with_nodes(hardware(lab), 8)
    summary = with_tries(real, second_tries(real, 3))

    assert (summary.function, summary.performance) == ("pass", "unstable")
    assert states(summary.findings[0].where, "rail-a", "gpu01 to gpu08", "2 more")
    assert any(states(reason, "ib_write_bw", "rail-a", "3 of 56") for reason in summary.reasons)
    assert not passes(summary)


def test_what_fails_together_and_works_only_with_fewer_fails_the_function(lab: Lab) -> None:
    real = with_nodes(hardware(lab), 8)
    most = int(56 * CROWDED_SHARE)
    within, beyond = with_tries(real, second_tries(real, most)), with_tries(real, second_tries(real, most + 1))

    assert (within.function, beyond.function) == ("pass", "fail")
    crowded = f"{most + 1} of 56"
    assert any(states(text, "rail-a", "ib_write_bw", "failed", crowded) for text in beyond.reasons)
    assert closed("enforce", beyond.function, beyond.performance)


def test_under_the_same_load_a_second_try_proves_that_the_load_is_carried(lab: Lab) -> None:
    real = hardware(lab)
    summary = with_tries(real, second_tries(real, 2, at_once=8))

    assert (summary.function, summary.performance) == ("pass", "unstable"), "both transfers of the rail failed once"
    assert states(summary.findings[0].evidence, "ib_write_bw", REASON, 8)


def test_in_the_simulator_it_is_a_finding_and_rates_nothing(lab: Lab) -> None:
    run = record(plan_for(lab), gbit_s=0.04, nccl=reduced(replayed=True), also=second_tries(lab, 1, value=0.04))
    summary = judged(lab, run)

    assert (summary.function, summary.performance) == ("pass", "not rated")
    assert [found.code for found in summary.findings] == [CODE]


def test_one_that_failed_twice_has_failed_and_says_so(lab: Lab) -> None:
    lost = measured("rail-a", "gpu01", "gpu02", 0, outcome="failed", samples=(), reasons=("gpu02: no end in time",))
    run = record(plan_for(lab), also=[lost.model_copy(update={"retest": (0.0,), "retest_at_once": 1})])
    summary = judged(lab, run)

    assert (summary.function, function_of(plan_for(lab), run)) == ("fail", "fail")
    assert states(summary.reasons[0], "rail-a", "gpu01 to gpu02", "failed", "no end in time")
    assert CODE not in {found.code for found in summary.findings}


def test_a_transfer_that_was_measured_and_then_failed_is_reported_too(lab: Lab) -> None:
    real = with_nodes(hardware(lab), 8)
    told = {"failed_once": REASON, "failed_at_once": 4, "at_once": 8, "retest": (0.0,), "retest_at_once": 4}
    summary = with_tries(real, [measured("rail-a", "gpu01", "gpu02", 60.0, **told)])

    once = next(found for found in summary.findings if found.code == CODE)
    assert states(once.evidence, "ib_write_bw", "measured", 4, 8, REASON)
    assert (summary.function, summary.performance) == ("pass", "fail"), "the failed try counts as nothing"


@pytest.mark.parametrize("latency_us", [2.0, 7.0])
def test_a_latency_that_failed_once_warns_as_well(lab: Lab, latency_us: float) -> None:
    real = with_nodes(hardware(lab), 8)
    told = {"test": "ib_write_lat", "failed_once": REASON, "failed_at_once": 8, "at_once": 4}
    summary = with_tries(real, [measured("rail-a", "gpu01", "gpu02", latency_us, **told)])

    assert [t.performance for t in summary.tests if (t.test, t.shape) == ("ib_write_lat", "one_way")] == [
        "warn",
        "pass",
    ]


def test_the_example_of_what_works_only_with_fewer_at_once_is_one_that_does(lab: Lab) -> None:
    real = with_nodes(hardware(lab), 8)
    tries = second_tries(real, 14)
    as_many = tries[0].model_copy(update={"at_once": 8})
    summary = with_tries(real, [as_many, *tries[1:]])

    (told,) = (text for text in summary.reasons if states(text, "13 of 56"))
    assert states(told, "rail-a", "ib_write_bw", "failed", "13 of 56", f"{tries[1].client} to {tries[1].server}")


def test_the_shares_are_those_that_the_page_names() -> None:
    assert (UNSTABLE_SHARE, CROWDED_SHARE) == (0.01, 0.2), "docs/verdict.md, Failed once"

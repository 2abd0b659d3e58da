"""RoCE against TCP and the hosts' own network, from records."""

import pytest

from components.validation.benchmarks.jobs.judge import TransportComparison, comparison_findings, comparisons
from components.validation.records import JobResult
from stacks.lab import Lab
from tests.components.validation.labs import hardware, plan_for, record
from tests.messages import states


def job(transport: str, *samples: float, program: str = "nccl_all_reduce", **fields: object) -> JobResult:
    known = {"program": program, "transport": transport, "outcome": "measured", "unit": "GB/s", "samples": samples}
    return JobResult.model_validate(known | fields)


@pytest.mark.row("A 349b", "B 494-498")
def test_the_speed_up_is_the_ratio_of_medians_over_all_runs() -> None:
    jobs = [job("tcp", 5.0, 5.2), job("roce", 22.0, 23.0), job("roce", 22.4), job("tcp", 4.9)]
    (found,) = comparisons(jobs)

    assert (found.roce, found.tcp) == (22.4, 5.0)
    assert found.speedup == pytest.approx(4.48)
    assert found.speedup_interval is None


def test_five_values_a_side_have_an_interval_and_certainty() -> None:
    (clear,) = comparisons([job("tcp", 5.0, 5.1, 4.9, 5.0, 5.2), job("roce", 22.0, 22.1, 21.9, 22.0, 22.3)])
    (unsure,) = comparisons([job("tcp", 20.0, 24.0, 21.0, 23.0, 22.0), job("roce", 21.0, 24.5, 20.5, 23.0, 22.1)])

    assert clear.speedup_interval
    assert clear.speedup_interval[0] <= 4.4 <= clear.speedup_interval[1]
    # the medians say a little faster, and the interval that nobody knows
    assert unsure.speedup == pytest.approx(22.1 / 22.0)
    assert unsure.speedup_interval
    assert unsure.speedup_interval[0] < 1 < unsure.speedup_interval[1]


def test_an_outlier_moves_nothing() -> None:
    (found,) = comparisons([job("tcp", 5.0, 5.1, 4.9, 5.0, 0.5), job("roce", 22.0, 22.1, 21.9, 22.0, 3.0)])

    assert found.speedup == pytest.approx(4.4, rel=0.01)


@pytest.mark.row("A 349a")
@pytest.mark.parametrize(("host", "percent", "costs"), [(22.1, 0.45, False), (24.0, 8.33, True), (21.0, -4.76, False)])
def test_what_virtual_functions_cost_is_against_the_hosts_own_network(host: float, percent: float, costs: bool) -> None:
    (found,) = comparisons([job("roce", 22.0), job("host", host)])

    assert found.sriov_overhead_percent == pytest.approx(percent, abs=0.01)
    assert found.sriov_costs is costs


def test_recorded_failed_and_lonely_jobs_are_compared_with_nothing() -> None:
    assert comparisons([job("tcp", 5.0, replayed=True), job("roce", 22.0)]) == []
    assert comparisons([job("tcp", 5.0, outcome="failed", reasons=("x",)), job("roce", 22.0)]) == []
    assert comparisons([job("roce", 22.0), job("tcp", 200.0, program="horovod")]) == []


def test_roce_that_is_no_faster_than_tcp_is_suspect_at_100_gbit_s(lab: Lab) -> None:
    run = record(plan_for(hardware(lab)))
    slow = run.model_copy(update={"jobs": (job("tcp", 5.0), job("roce", 5.5))})
    fast = run.model_copy(update={"jobs": (job("tcp", 5.0), job("roce", 15.0))})

    assert [finding.code for finding in comparison_findings(slow)] == ["SOCKET_FALLBACK"]
    assert list(comparison_findings(fast)) == []
    # at 25 Gbit/s one TCP flow fills the line as well
    lines = tuple(t.model_copy(update={"line_rate_gbit_s": 25.0}) for t in run.transfers)
    assert list(comparison_findings(slow.model_copy(update={"transfers": lines}))) == []


def test_the_simulator_s_speeds_make_nothing_suspect(lab: Lab) -> None:
    run = record(plan_for(lab)).model_copy(update={"jobs": (job("tcp", 5.0), job("roce", 5.5)), "simulated": True})

    assert list(comparison_findings(run)) == []


def test_overhead_of_virtual_functions_is_found_with_both_numbers(lab: Lab) -> None:
    run = record(plan_for(hardware(lab))).model_copy(update={"jobs": (job("roce", 20.0), job("host", 22.0))})
    (finding,) = comparison_findings(run)

    assert finding.code == "SRIOV_OVERHEAD"
    assert states(finding.evidence, "20.00 GB/s", "22.00", "9.1 %")


def test_nothing_is_known_of_a_transport_that_did_not_run() -> None:
    one = TransportComparison(program="horovod", unit="img/s", roce=234.7)

    assert (one.speedup, one.sriov_costs) == (None, None)

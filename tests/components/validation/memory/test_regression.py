"""Regression: worse than noise and twice, before anybody is told; and what cannot be compared is not."""

import pytest

from components.validation.history import (
    Entry,
    History,
    Value,
    compared,
    config_of,
    confirmed_losses,
    entry_of,
    judged,
    worse_values,
)
from components.validation.records import JobResult, MeasuredHost, RunRecord
from components.validation.summary import Summary
from components.validation.verdict import judge
from stacks.lab import Lab
from tests.components.validation.labs import hardware, measured, plan_for, record, reduced, with_nodes
from tests.messages import states

NAME = "ib_write_bw one_way rail-a"


def entry(number: int, gbit_s: float = 97.0, *, cv: float | None = None, again: float | None = None,
          latency_us: float = 2.0, **fields: object) -> Entry:  # fmt: skip
    known: dict[str, object] = {
        "lab": "lab",
        "run_id": f"run-{number}",
        "started_at": f"2026-11-21T06:00:{number:02}Z",
        "duration_s": 1,
        "simulated": False,
        "function": "pass",
        "performance": "pass",
        "passed": True,
        "fingerprint": "f",
        "config": {"nodes": "2", "driver": "5.4"},
        "values": {
            NAME: Value(median=gbit_s, unit="Gbit/s", cv=cv, again=again),
            "ib_write_lat one_way rail-a": Value(median=latency_us, unit="us"),
        },
    }
    return Entry.model_validate(known | fields)


def past(*entries: Entry) -> History:
    history = History()
    for one in entries:
        history = history.with_entry(one)
    return history


@pytest.mark.parametrize(
    ("now", "cv", "again", "verdict"),
    [
        (97.0, None, None, "same"),
        (92.5, None, None, "same"),
        (92.0, None, 92.0, "worse"),
        (92.0, None, 96.0, "unconfirmed"),
        (92.0, None, None, "unconfirmed"),
        (91.0, 0.03, 91.0, "same"),
        (86.0, 0.03, 86.0, "worse"),
        (103.0, None, None, "better"),
    ],
)
def test_a_change_counts_from_five_per_cent_or_three_spreads_on_and_only_when_it_comes_twice(
    now: float, cv: float | None, again: float | None, verdict: str
) -> None:
    one = entry(2, now, cv=cv, again=again)
    found = compared(one, past(entry(1, cv=cv)))

    assert found is not None
    assert (found.verdict, found.baseline_run) == (verdict, "run-1")


@pytest.mark.parametrize(("latency_us", "names"), [(2.15, ()), (2.3, ("ib_write_lat one_way rail-a",)), (1.5, ())])
def test_a_latency_is_worse_when_it_is_longer_by_a_tenth(latency_us: float, names: tuple[str, ...]) -> None:
    assert worse_values(entry(2, latency_us=latency_us), past(entry(1))) == names


def test_many_small_steps_are_reported_against_the_best_of_the_last_runs() -> None:
    history = past(entry(1, 100.0), entry(2, 96.5), entry(3, 93.5))
    found = compared(entry(4, 91.0), history)

    assert found is not None
    assert found.verdict == "worse"
    assert states(found.reasons[0], "9.0%", 3, 100)
    assert confirmed_losses(entry(4, 91.0), history) == ()


@pytest.mark.parametrize(("latency_us", "verdict"), [(2.19, "same"), (2.21, "worse")])
def test_a_latency_may_rise_more_than_a_bandwidth_may_fall_in_small_steps(latency_us: float, verdict: str) -> None:
    history = past(entry(1), entry(2, latency_us=2.05), entry(3, latency_us=2.1))
    comparison = compared(entry(4, latency_us=latency_us), history)

    assert comparison is not None
    assert comparison.verdict == verdict


def test_another_configuration_is_not_comparable_but_its_changes_are_reported() -> None:
    found = compared(entry(2, 80.0, config={"nodes": "2", "driver": "5.5"}), past(entry(1)))

    assert found is not None
    assert found.verdict == "not comparable"
    driver, speed = found.reasons
    assert states(driver, "driver", "5.4", "5.5")
    assert states(speed, NAME, "97 Gbit/s", 80)


def test_a_failed_run_is_no_baseline_and_a_first_run_has_none() -> None:
    failed = entry(2, 60.0, passed=False, performance="fail")

    assert compared(entry(1), History()) is None
    found = compared(entry(3, 60.0, again=60.0), past(entry(1), failed))
    assert found is not None
    assert (found.verdict, found.baseline_run) == ("worse", "run-1")


def test_speed_of_the_simulator_is_compared_with_nothing() -> None:
    one = entry(2, 10.0, simulated=True)

    assert (compared(one, past(entry(1))), worse_values(one, past(entry(1)))) == (None, ())


def runs(lab: Lab, *gbit_s: float, again: float | None = None) -> tuple[Summary, History]:
    """Verdict over the last of several runs; `again` is what its confirming run measured."""
    real = hardware(lab)
    plan = plan_for(real)
    assert real.benchmarks
    history, summary = History(), None
    for number, value in enumerate(gbit_s):
        run = record(plan, value, nccl=reduced(value / 4 * 0.99)).model_copy(update={"run_id": f"run-{number}"})
        one = entry_of(plan, run).model_copy(update={"started_at": f"2026-11-21T06:00:{number:02}Z"})
        if again is not None and number == len(gbit_s) - 1:
            one = one.model_copy(
                update={"values": {k: v.model_copy(update={"again": again}) for k, v in one.values.items()}}
            )
        summary = judge(plan, real.benchmarks, run).verdict(history.with_entry(one))
        history = history.with_entry(judged(one, summary))
    assert summary is not None
    return summary, history


def test_a_confirmed_regression_fails_although_physics_would_let_it_pass(lab: Lab) -> None:
    summary, history = runs(lab, 97.9, 91.5, again=91.4)

    assert (summary.function, summary.performance) == ("pass", "fail")
    assert summary.regression is not None
    assert summary.regression.verdict == "worse"
    row = next(row for row in summary.tests if row.test == "ib_write_bw")
    assert (row.performance, row.change) == ("fail", pytest.approx(-0.0654, abs=1e-4))
    assert any(states(text, "run-0", "91.5", "97.9", "91.4") for text in summary.reasons)
    assert history.baseline is not None
    assert history.baseline.run_id == "run-0", "what got worse is no measure"


def test_an_unconfirmed_regression_fails_nothing_and_is_reported(lab: Lab) -> None:
    summary, _ = runs(lab, 98.0, 92.5, again=97.9)

    assert summary.regression is not None
    assert (summary.regression.verdict, summary.performance) == ("unconfirmed", "warn")
    assert any(states(text, "92.5", "98", "97.9") for text in summary.reasons)


def test_a_slower_training_is_a_warning_and_fails_no_row_that_is_only_shown(lab: Lab) -> None:
    real = hardware(lab)
    plan, history = plan_for(real), History()
    assert real.benchmarks
    for number, value in enumerate((240.0, 200.0)):
        trained = {"program": "ddp", "transport": "roce", "outcome": "measured", "unit": "img/s", "value": value}
        job = JobResult.model_validate({**trained, "samples": (value,)})
        run = record(plan, 97.2, nccl=reduced(23.9)).model_copy(update={"run_id": f"run-{number}", "jobs": (job,)})
        one = entry_of(plan, run).model_copy(update={"started_at": f"2026-11-21T06:00:{number:02}Z"})
        twice = {name: found.model_copy(update={"again": found.median}) for name, found in one.values.items()}
        one = one.model_copy(update={"values": twice})
        summary = judge(plan, real.benchmarks, run).verdict(history.with_entry(one))
        history = history.with_entry(judged(one, summary))
    row = next(row for row in summary.tests if row.test == "ddp")

    assert (row.performance, row.because, row.change) == ("not rated", "shown only", pytest.approx(-1 / 6, abs=1e-4))
    assert (summary.performance, summary.regression.verdict if summary.regression else "") == ("warn", "worse")


def test_each_row_shows_its_change_against_the_baseline(lab: Lab) -> None:
    summary, _ = runs(lab, 97.0, 97.97)
    changes = {row.test: row.change for row in summary.tests if row.shape != "sizes"}

    all_reduce = pytest.approx(0.01, abs=1e-4)
    jobs = {"gpu_memory": 0.0, "nccl_one_node": 0.0, "nccl_all_reduce": all_reduce}
    unchanged = {"node_alone": None, "pod_rails": None}
    assert changes == {"ib_write_bw": 0.01, "ib_write_lat": 0.0, **unchanged, **jobs}


def test_what_makes_two_runs_comparable_is_named_part_by_part(lab: Lab) -> None:
    def config(run: RunRecord, nodes: int = 2) -> dict[str, str]:
        return config_of(plan_for(with_nodes(hardware(lab), nodes)), run)

    plain = record(plan_for(hardware(lab)))
    facts = MeasuredHost(nic="ConnectX-6", driver="mlx5_core 24.10", firmware="20.43")
    first = config(plain.model_copy(update={"hosts": {"gpu01": facts, "gpu02": facts}}))

    assert first == config(plain.model_copy(update={"hosts": {"gpu02": facts, "gpu01": facts}}))
    assert (first["NIC"], first["line rate"], first["nodes"], first["path MTU"]) == ("ConnectX-6", "100", "2", "4096")
    assert config(plain, 4)["nodes"] == "4"
    slower = measured("rail-a", "gpu01", "gpu02", 24.0, line_rate_gbit_s=25.0)
    assert config(record(plan_for(hardware(lab)), also=[slower]))["line rate"] == "100, 25"

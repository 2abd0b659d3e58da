"""Runs over PVRDMA of whose path nothing is known: compared with each other, and with no others."""

from pathlib import Path

import pytest

from components.report.runs import notes
from components.validation.benchmarks.verbs.pvrdma_path import UNKNOWN
from components.validation.history import (
    PVRDMA_PATH,
    Entry,
    History,
    config_of,
    entry_of,
    judged,
    passes,
    unproven,
    worse_values,
)
from components.validation.records import RunRecord
from components.validation.summary import Summary
from components.validation.verdict import judge
from stacks.lab import Lab
from tests.components.validation.judging.hca_counts import counted, over_pvrdma, watched
from tests.components.validation.labs import hardware, plan_for, record, reduced
from tests.messages import states

PROVEN, NOTHING_TOLD, FALLEN = counted(1, 1), counted(None, None), counted(0, 0)


def carried(lab: Lab, number: int, counts: object, share: float = 1.0) -> RunRecord:
    """A run of that number with a share of the usual bandwidth, and these counts."""
    run = watched(over_pvrdma(lab), counts)  # type: ignore[arg-type]  # whichever of the three above
    transfers = [
        t.model_copy(update={"samples": tuple(value * share for value in t.samples)}) if t.unit == "Gbit/s" else t
        for t in run.transfers
    ]
    moment = f"2026-11-21T0{number}:00:00Z"
    told = {"run_id": f"run-{number}", "started_at": moment}
    return run.model_copy(update={"transfers": tuple(transfers), **told})


def after(lab: Lab, history: History, run: RunRecord, again: float | None = None) -> tuple[History, Summary]:
    """The history with a judged run, whose second run had a share of the usual bandwidth, if it had one."""
    assert lab.benchmarks
    entry = entry_of(over_pvrdma(lab), run)
    if again is not None:
        name = "ib_write_bw one_way rail-a"
        second = entry.values[name].model_copy(update={"again": 90.0 * again})
        entry = entry.model_copy(update={"values": {**entry.values, name: second}})
    summary = judge(over_pvrdma(lab), lab.benchmarks, run).verdict(history.with_entry(entry))
    return history.with_entry(judged(entry, summary)), summary


def test_a_run_with_an_unknown_path_is_a_baseline_for_the_next_one_of_its_kind(lab: Lab) -> None:
    real = hardware(lab)
    history, first = after(real, History(), carried(real, 1, NOTHING_TOLD))
    _, second = after(real, history, carried(real, 2, NOTHING_TOLD))

    assert (first.function, passes(first)) == ("skip", True)
    assert history.baseline is not None
    assert unproven(history.baseline)
    assert second.function == "skip", "a measure makes no pass of it"
    assert second.regression is not None
    assert (second.regression.baseline_run, second.regression.verdict) == ("run-1", "same")


def test_an_unnoticed_fallback_is_worse_than_the_run_before_and_not_a_baseline(lab: Lab) -> None:
    real = hardware(lab)
    history, _ = after(real, History(), carried(real, 1, NOTHING_TOLD))
    slow = carried(real, 2, NOTHING_TOLD, share=0.9)
    worse = worse_values(entry_of(over_pvrdma(real), slow), history)
    history, summary = after(real, history, slow, again=0.9)

    assert "ib_write_bw one_way rail-a" in worse, "so it is measured once more"
    assert summary.performance == "fail"
    assert summary.regression is not None
    assert summary.regression.verdict == "worse"
    assert history.baseline is not None
    assert history.baseline.run_id == "run-1"


def test_a_baseline_that_had_fallen_back_gives_way_to_the_first_run_over_rdma(lab: Lab) -> None:
    real = hardware(lab)
    history, _ = after(real, History(), carried(real, 1, NOTHING_TOLD, share=0.97))
    history, summary = after(real, history, carried(real, 2, NOTHING_TOLD, share=1.05))

    assert summary.regression is not None
    assert summary.regression.verdict == "better"
    assert history.baseline is not None
    assert history.baseline.run_id == "run-2"


@pytest.mark.parametrize(("first", "then"), [(PROVEN, NOTHING_TOLD), (NOTHING_TOLD, PROVEN)])
def test_proven_and_unproven_runs_are_not_compared(lab: Lab, first: object, then: object) -> None:
    real = hardware(lab)
    history, _ = after(real, History(), carried(real, 1, first))
    _, summary = after(real, history, carried(real, 2, then))

    assert summary.regression is not None
    assert summary.regression.verdict == "not comparable"
    assert any(PVRDMA_PATH in reason for reason in summary.regression.reasons)


@pytest.mark.parametrize("function", ["fail", "skip"])
def test_what_fell_back_or_was_left_out_is_no_measure(lab: Lab, function: str) -> None:
    real = hardware(lab)
    run = carried(real, 1, FALLEN if function == "fail" else NOTHING_TOLD)
    if function == "skip":
        left = run.transfers[-1].model_copy(update={"outcome": "skipped", "samples": (), "reasons": ("busy: x",)})
        run = run.model_copy(update={"transfers": (*run.transfers[:-1], left)})
    history, summary = after(real, History(), run)

    assert summary.function == function
    assert history.baseline is None


def test_one_rail_without_a_proof_is_named_in_the_configuration(lab: Lab) -> None:
    real = hardware(lab)
    plan = over_pvrdma(real)
    one = watched(plan, PROVEN, first=NOTHING_TOLD)

    assert states(config_of(plan, one)[PVRDMA_PATH], "not proven", "rail-a")
    assert "rail-b" not in config_of(plan, one)[PVRDMA_PATH]
    assert PVRDMA_PATH not in config_of(plan_for(real), record(plan_for(real), nccl=reduced()))


def test_the_history_and_the_finding_say_what_such_a_measure_is_worth(lab: Lab) -> None:
    real = hardware(lab)
    history, summary = after(real, History(), carried(real, 1, NOTHING_TOLD))
    entries: list[Entry] = list(history.entries)

    assert "its PVRDMA path is not proven" in notes(real, entries, history, Path())
    unknown = next(found for found in summary.findings if found.code == UNKNOWN)
    assert "only with other unproven runs" in unknown.hint

"""What a run leaves behind: summaries of rails, and a record that stays small."""

import pytest

from components.validation.judging.verdict import function_of
from components.validation.records import RunRecord, TransferResult, compact, median, summarise
from stacks.lab import Lab
from tests.components.validation.labs import hardware, measured, paired, plan_for, record, reduced, with_nodes


@pytest.mark.parametrize(("values", "middle"), [([3.0], 3.0), ([1.0, 2.0], 1.5), ([9.0, 1.0, 2.0], 2.0)])
def test_the_median_of_few_values(values: list[float], middle: float) -> None:
    assert median(values) == middle


def test_a_rail_counts_every_outcome_and_takes_medians_of_what_was_measured() -> None:
    results = [
        measured("rail-a", "x", "y", 97.0),
        measured("rail-a", "y", "x", 91.0),
        TransferResult(rail="rail-a", client="x", server="z", outcome="failed", reasons=("down",)),
    ]

    (rail,) = summarise(results)
    assert (rail.measured, rail.failed, rail.skipped) == (2, 1, 0)
    assert (rail.median, rail.least, rail.greatest) == (94.0, 91.0, 97.0)


def test_a_compact_record_of_64_nodes_keeps_what_failed_and_the_slowest_and_counts_the_rest(lab: Lab) -> None:
    plan = plan_for(paired(with_nodes(hardware(lab), 64)))
    failed = TransferResult(rail="rail-b", client="gpu60", server="gpu61", outcome="failed", reasons=("down",))
    slow = measured("rail-a", "gpu07", "gpu09", 11.0)
    whole = record(plan, also=[failed, slow], nccl=reduced())

    text = compact(whole, 12_000)
    small = RunRecord.model_validate_json(text)
    assert len(text) <= 12_000
    assert all(transfer in small.transfers for transfer in (failed, slow))
    assert small.left_out + len(small.transfers) == len(whole.transfers)
    assert (small.series, function_of(plan, small)) == (whole.series, "fail")


def test_a_small_record_survives_the_round_trip_unchanged(lab: Lab) -> None:
    whole = record(plan_for(lab), nccl=reduced())

    assert RunRecord.model_validate_json(compact(whole, 12_000)) == whole

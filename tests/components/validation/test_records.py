"""What a run leaves behind: the numbers of a test on a rail."""

from components.validation.records import TransferResult
from stacks.lab import Lab
from tests.components.validation.labs import measured, plan_for, record


def test_a_rail_counts_every_outcome_and_takes_the_median_of_what_was_measured(lab: Lab) -> None:
    results = (
        measured("rail-a", "x", "y", 97.0),
        measured("rail-a", "y", "x", 91.0),
        TransferResult(rail="rail-a", client="x", server="z", outcome="failed", reasons=("down",)),
        measured("rail-b", "x", "y", 1.0),
    )
    run = record(plan_for(lab)).model_copy(update={"transfers": results})

    rail = run.series_of("ib_write_bw", "one_way", "rail-a")
    assert rail
    assert (rail.measured, rail.failed, rail.skipped, rail.median) == (2, 1, 0, 94.0)
    assert run.series_of("ib_read_bw", "one_way", "rail-a") is None

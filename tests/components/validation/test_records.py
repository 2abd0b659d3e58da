"""What a run leaves behind: the numbers of a test on a rail."""

from components.validation.records import TransferResult, median_of, outcome_counts
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

    rail = run.transfers_of("ib_write_bw", "one_way", "rail-a")
    assert outcome_counts(t.outcome for t in rail) == {"measured": 2, "failed": 1, "skipped": 0, "errors": 0}
    assert median_of(rail) == 94.0
    assert run.transfers_of("ib_read_bw", "one_way", "rail-a") == []
    assert median_of([]) is None

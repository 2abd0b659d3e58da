"""What a run leaves behind: summaries of rails, and a record that stays small."""

import random

import pytest

from components.validation.judging.verdict import function_of, judge
from components.validation.measurement import LARGEST_RECORD_BYTES
from components.validation.records import RunRecord, TransferResult, compact, summarise
from stacks.lab import Lab
from tests.components.validation.labs import changed, hardware, measured, paired, plan_for, record, reduced, with_nodes


def test_a_rail_counts_every_outcome_and_takes_medians_of_what_was_measured() -> None:
    results = [
        measured("rail-a", "x", "y", 97.0),
        measured("rail-a", "y", "x", 91.0),
        TransferResult(rail="rail-a", client="x", server="z", outcome="failed", reasons=("down",)),
    ]

    (rail,) = summarise(results)
    assert (rail.measured, rail.failed, rail.skipped) == (2, 1, 0)
    assert (rail.median, rail.least, rail.greatest) == (94.0, 91.0, 97.0)


@pytest.mark.whole
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
    assert (small.gpu_memory, small.rings) == (whole.gpu_memory, whole.rings)


def noisy(lab: Lab, repeats: int, slow: str) -> RunRecord:
    """All pairs of the lab with the digits that perftest prints; one node's transfers on the first rail are slow."""
    drawn, plan = random.Random(7), plan_for(lab)  # noqa: S311  # values for a test
    transfers: list[TransferResult] = []
    for stage in plan.stages:
        for number, together in enumerate(plan.rounds_of(stage)):
            for t in together:
                share = 0.6 if slow in (t.client, t.server) and t.rail == lab.rails[0].name else 1.0
                level, spread = (97.5 * share, 0.4) if stage.bandwidth else (1.9 / share, 0.1)
                values = tuple(round(drawn.gauss(level, spread), 2) for _ in range(repeats))
                more = {"samples": values, "after_s": round(number * 9 + drawn.random(), 1), "pcie_gbit_s": 126.03}
                more |= {} if stage.bandwidth else {"tail_us": tuple(round(value * 1.2, 2) for value in values)}
                transfers.append(measured(t.rail, t.client, t.server, level, test=stage.test, **more))
    return record(plan).model_copy(update={"transfers": tuple(transfers), "series": summarise(transfers)})


def on_rails(lab: Lab, count: int) -> Lab:
    """The lab with `count` copies of its first rail, on each of which every node has a PF."""
    rails = tuple(lab.rails[0].model_copy(update={"name": f"rail-{number}"}) for number in range(count))
    node = lab.nodes[0]
    pfs = tuple(node.pfs[0].model_copy(update={"rail": rail.name}) for rail in rails)
    return lab.model_copy(update={"rails": rails, "nodes": (node.model_copy(update={"pfs": pfs}),)})


@pytest.mark.whole
@pytest.mark.parametrize(
    ("nodes", "limit_bytes"),
    [(16, 8_000), (64, LARGEST_RECORD_BYTES // 4)],
    ids=["little room", "two of eight rails of 64 nodes in their share of a state's record"],
)
def test_a_fault_is_found_in_what_a_state_keeps_of_a_large_run(lab: Lab, nodes: int, limit_bytes: int) -> None:
    assert lab.benchmarks
    verbs = lab.benchmarks.verbs.model_copy(update={"schedule": "pairs", "sizes": ()})
    large = changed(with_nodes(on_rails(hardware(lab), 2), nodes), verbs=verbs, budget_s=10**6)
    assert large.benchmarks

    text = compact(noisy(large, 3, "gpu07"), limit_bytes)
    kept = RunRecord.model_validate_json(text)
    summary = judge(plan_for(large), large.benchmarks, kept)

    assert len(text) <= limit_bytes
    assert kept.left_out > 0
    assert [(found.code, found.where) for found in summary.findings] == [("NIC_SLOW", "gpu07, rail-0")]


def test_a_small_record_survives_the_round_trip_unchanged(lab: Lab) -> None:
    whole = record(plan_for(lab), nccl=reduced())

    assert RunRecord.model_validate_json(compact(whole, 12_000)) == whole

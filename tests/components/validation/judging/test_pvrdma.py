"""PVRDMA: proven by the counters of both physical ports, or not at all."""

import pytest

from components.validation.benchmarks.verbs.pvrdma_path import FALLBACK, PATH, UNKNOWN, proof_of_hardware
from components.validation.records import RunRecord
from components.validation.summary import JudgedTest, Summary
from components.validation.verdict import judge
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab
from tests.components.validation.judging.hca_counts import WRITTEN, counted, over_pvrdma, watched
from tests.components.validation.labs import changed, hardware, plan_for, record, reduced, with_nodes
from tests.messages import states


@pytest.mark.parametrize("share", [0.95, 1.0, 1.08])
def test_counters_that_grew_by_what_was_sent_prove_the_hardware_path(share: float) -> None:
    assert proof_of_hardware(counted(share, share)).outcome == "pass"


@pytest.mark.parametrize(("sent", "received"), [(0, 0), (1, 0), (0, 1), (0.5, 1)])
def test_a_counter_that_did_not_grow_is_a_fallback(sent: float, received: float) -> None:
    proof = proof_of_hardware(counted(sent, received))

    assert (proof.outcome, proof.code) == ("fail", FALLBACK)
    assert f"of {WRITTEN} written" in proof.evidence
    assert "esx-gpu01 vmrdma0" in proof.evidence


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (None, None),
        (1, None),
        (None, 1),
        (-1, 1),  # the counter was reset in between
        (20, 1),  # somebody else's traffic hides ours
    ],
)
def test_what_cannot_be_known_is_unknown_and_never_a_pass(sent: float | None, received: float | None) -> None:
    proof = proof_of_hardware(counted(sent, received))

    assert (proof.outcome, proof.code) == ("unknown", UNKNOWN)


def test_one_idle_port_is_a_fallback_though_the_other_cannot_be_read() -> None:
    assert proof_of_hardware(counted(0, None)).code == FALLBACK


def test_an_empty_transfer_and_an_unwatched_one_prove_nothing() -> None:
    nothing = [count.model_copy(update={"written_bytes": 0}) for count in counted(1, 1)]

    assert proof_of_hardware(nothing).outcome == "unknown"
    assert proof_of_hardware(()).outcome == "unknown"
    assert proof_of_hardware(counted(1, 1)[:1]).outcome == "unknown"


def judged(lab: Lab, run: RunRecord) -> Summary:
    assert lab.benchmarks
    return judge(over_pvrdma(lab), lab.benchmarks, run).verdict()


def proofs(summary: Summary) -> list[JudgedTest]:
    return [row for row in summary.tests if row.test == PATH]


def test_rails_whose_counters_grew_pass(lab: Lab) -> None:
    real = hardware(lab)
    summary = judged(real, watched(over_pvrdma(real), counted(1.02, 1.02)))

    assert [(row.rail, row.function, row.measured) for row in proofs(summary)] == [
        ("rail-a", "pass", 2),
        ("rail-b", "pass", 2),
    ]
    assert (summary.function, summary.performance, summary.findings) == ("pass", "pass", ())


def test_one_fallback_fails_the_lab_though_its_bandwidth_is_fine(lab: Lab) -> None:
    real = hardware(lab)
    run = watched(over_pvrdma(real), counted(1, 1), first=counted(0, 0))
    summary = judged(real, run)

    assert [row.function for row in proofs(summary)] == ["fail", "pass"]
    assert summary.function == "fail"
    assert not judge(over_pvrdma(real), Benchmarks(), run).settled
    [found] = summary.findings
    assert found.code == FALLBACK
    assert states(found.where, "rail-a", "gpu01 to gpu02")
    assert "Net.PVRDMAVmknic" in summary.findings[0].hint
    assert any(FALLBACK in reason for reason in summary.reasons)


def test_unreadable_counters_are_reported_and_do_not_pass(lab: Lab) -> None:
    real = hardware(lab)
    run = watched(over_pvrdma(real), counted(None, None))
    summary = judged(real, run)

    assert [(row.function, row.skipped) for row in proofs(summary)] == [("skip", 2), ("skip", 2)]
    assert summary.function == "skip"
    assert [found.code for found in summary.findings] == [UNKNOWN, UNKNOWN]
    assert "no such command" in summary.reasons[0]
    assert judge(over_pvrdma(real), Benchmarks(), run).settled, "to measure again at each up would tell no more"


def test_an_unwatched_rail_does_not_pass(lab: Lab) -> None:
    real = hardware(lab)

    assert judged(real, watched(over_pvrdma(real), ())).function == "skip"


def test_without_a_bandwidth_test_nothing_proves_the_path(lab: Lab) -> None:
    assert lab.benchmarks
    verbs = lab.benchmarks.verbs.model_copy(update={"tests": ("ib_write_lat",), "sizes": ()})
    real = changed(hardware(lab), verbs=verbs)
    summary = judged(real, record(over_pvrdma(real), nccl=reduced(22.0), latency_us=9.0))

    assert [row.function for row in proofs(summary)] == ["skip", "skip"]
    assert summary.function == "skip"


def test_the_simulator_says_that_nothing_is_proven_and_claims_nothing(lab: Lab) -> None:
    summary = judged(lab, watched(over_pvrdma(lab), counted(None, None)))

    assert (summary.function, proofs(summary)) == ("pass", [])
    assert [found.code for found in summary.findings] == [UNKNOWN, UNKNOWN]


def test_a_packet_that_an_emulated_machine_sends_twice_is_no_reason_against_the_others(lab: Lab) -> None:
    summary = judged(lab, watched(over_pvrdma(lab), counted(1, 1), first=counted(2, 1)))

    assert (summary.function, [row.function for row in proofs(summary)]) == ("pass", ["pass", "pass"])
    assert [found.code for found in summary.findings] == [UNKNOWN]


def test_a_fallback_in_the_simulator_is_one_too(lab: Lab) -> None:
    assert judged(lab, watched(over_pvrdma(lab), counted(0, 0))).function == "fail"


def test_rails_without_pvrdma_have_no_such_proof(lab: Lab) -> None:
    assert lab.benchmarks
    real = hardware(lab)
    summary = judge(
        plan_for(real), real.benchmarks or lab.benchmarks, record(plan_for(real), 97.2, reduced(23.9))
    ).verdict()

    assert proofs(summary) == []


def on_one_host(run: RunRecord, *pairs: set[str]) -> RunRecord:
    left = {"outcome": "skipped", "same_host": "esx1", "reasons": ("both run on esx1",), "samples": ()}
    transfers = [t.model_copy(update=left) if {t.client, t.server} in pairs else t for t in run.transfers]
    return run.model_copy(update={"transfers": tuple(transfers)})


def test_pairs_on_one_host_are_no_part_of_the_fabric_and_are_named(lab: Lab) -> None:
    real = with_nodes(hardware(lab), 4)
    run = on_one_host(watched(over_pvrdma(real), counted(1, 1)), {"gpu01", "gpu03"})
    summary = judged(real, run)

    assert summary.function == "pass"
    assert any(states(reason, "esx1") for reason in summary.reasons)
    assert next(row.skipped for row in summary.tests if row.test == "ib_write_bw") == 2


def test_a_rail_whose_pairs_all_lie_on_one_host_was_not_measured(lab: Lab) -> None:
    real = hardware(lab)

    assert judged(real, on_one_host(watched(over_pvrdma(real), counted(1, 1)), {"gpu01", "gpu02"})).function == "skip"

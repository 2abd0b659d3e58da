"""What transfers are compared with: their own ceilings, so that a mixed rail accuses nobody and hides nobody."""

from collections.abc import Sequence

from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.judge import NO_LINE_RATE, fabric_of
from components.validation.records import Flow, TransferResult
from components.validation.search.localise import Localiser
from components.validation.search.located import Located
from components.validation.summary import Summary
from components.validation.verdict import judge
from stacks.lab import Lab
from tests.components.validation.labs import (
    changed,
    first_rounds,
    hardware,
    measured,
    paired,
    plan_for,
    record,
    reduced,
    with_nodes,
)
from tests.messages import states

OLD = ("gpu02", "gpu05")
"""Nodes with NICs of 40 Gbit/s among those of 100."""


def eight(lab: Lab) -> Lab:
    return paired(with_nodes(hardware(lab), 8))


def line_rate(client: str, server: str) -> float:
    return 40.0 if {client, server} & set(OLD) else 100.0


def mixed(plan: Plan, slow: Sequence[str] = ()) -> list[TransferResult]:
    """Every pair of the main test at 99 % of its own ceiling, those of slow nodes at 60 %, repeated once."""
    found = []
    for transfers in first_rounds(plan):
        for t in transfers:
            line = line_rate(t.client, t.server)
            value = 0.9801 * line * (0.6 if {t.client, t.server} & set(slow) else 0.99)
            found.append(measured(t.rail, t.client, t.server, value, line, retest=(value,) if slow else ()))
    return found


def judged(lab: Lab, transfers: list[TransferResult]) -> Summary:
    assert lab.benchmarks
    return judge(plan_for(lab), lab.benchmarks, record(plan_for(lab), nccl=reduced(23.9), also=transfers)).verdict()


def searched(plan: Plan, transfers: list[TransferResult]) -> Located:
    stage = plan.main_stage
    assert stage
    search = Localiser(fabric_of(plan, stage, transfers))
    values = {Flow(t.rail, t.client, t.server): t.value for t in transfers}
    again: dict[Flow, list[float | None]] = {}
    for _ in range(20):
        if not (flows := search.suspects(again)):
            break
        for flow in flows:
            again.setdefault(flow, []).append(values[flow])
    return search.localise(again)


def test_nics_of_two_line_rates_on_one_rail_accuse_no_part(lab: Lab) -> None:
    summary = judged(eight(lab), mixed(plan_for(eight(lab))))

    assert summary.findings == ()
    bandwidths = [row for row in summary.tests if (row.test, row.shape) == ("ib_write_bw", "one_way")]
    assert [(row.performance, row.ratio) for row in bandwidths] == [("pass", 0.99), ("pass", 0.99)]


def test_nothing_of_a_mixed_rail_is_measured_again_for_its_line_rates(lab: Lab) -> None:
    located = searched(plan_for(eight(lab)), mixed(plan_for(eight(lab))))

    assert (located.faults, located.measured_again) == ((), 0)


def test_a_bad_node_is_found_on_a_mixed_rail_whatever_its_line_rate(lab: Lab) -> None:
    for bad in ("gpu03", OLD[0]):
        summary = judged(eight(lab), mixed(plan_for(eight(lab)), slow=[bad]))

        assert [(found.code, found.where) for found in summary.findings] == [("NODE_SLOW", f"{bad}, all rails")]
        assert summary.performance == "fail"


def test_pairs_are_held_against_their_rail_by_their_share_of_the_line_and_not_by_gbit(lab: Lab) -> None:
    real = eight(lab)
    thrice = [t.model_copy(update={"samples": t.samples * 3}) for t in mixed(plan_for(real))]

    assert judged(real, thrice).performance == "pass", "40 of 98 Gbit/s would fail as a pair far below the others"


def test_a_port_that_does_not_report_its_line_rate_keeps_its_rail_from_a_pass(lab: Lab) -> None:
    real = hardware(lab)
    silent = measured("rail-a", "gpu01", "gpu02", 3.0, line_rate_gbit_s=None)
    row = next(row for row in judged(real, [silent]).tests if row.rail == "rail-a")

    assert (row.performance, row.because) == ("not rated", f"1 of 2: {NO_LINE_RATE}")


def test_a_failed_transfer_has_no_value_though_it_printed_one(lab: Lab) -> None:
    plan = plan_for(hardware(lab))
    stage = plan.main_stage
    assert stage
    small = measured("rail-a", "gpu01", "gpu02", 92.4).model_copy(update={"outcome": "failed"})

    assert fabric_of(plan, stage, [small]).values == {Flow("rail-a", "gpu01", "gpu02"): None}


def test_a_paravirtual_rail_is_measured_by_its_own_best_paths(lab: Lab) -> None:
    real = eight(lab)
    rails = tuple(rail.model_copy(update={"pvrdma": True}) for rail in plan_for(real).rails)
    plan = plan_for(real).model_copy(update={"rails": rails})
    level = [measured(t.rail, t.client, t.server, 86.0) for transfers in first_rounds(plan) for t in transfers]
    bad = [
        t.model_copy(update={"samples": (60.0,), "retest": (60.0,)}) if "gpu04" in (t.client, t.server) else t
        for t in level
    ]

    assert searched(plan, level).faults == (), "86 of 98 Gbit/s is what PVRDMA makes of a line, and no slow rail"
    assert [fault.where for fault in searched(plan, bad).faults] == ["gpu04, all rails"]


def test_a_replayed_log_over_sockets_is_no_fallback_of_this_lab(lab: Lab) -> None:
    real = changed(hardware(lab))
    assert real.benchmarks
    replayed = reduced(3.0, replayed=True).model_copy(update={"transport": "socket"})
    summary = judge(plan_for(real), real.benchmarks, record(plan_for(real), gbit_s=97.2, nccl=replayed)).verdict()

    assert summary.findings == ()


def test_nccl_s_computed_ceiling_knows_a_narrow_slot(lab: Lab) -> None:
    real = hardware(lab)
    assert real.benchmarks
    verbs = real.benchmarks.verbs.model_copy(update={"tests": ("ib_write_lat",), "sizes": ()})
    real = changed(real, verbs=verbs)
    assert real.benchmarks
    ends = (("gpu01", "gpu02"), ("gpu02", "gpu01"))
    narrow = [measured("rail-a", a, b, 2.0, test="ib_write_lat", pcie_gbit_s=57.2) for a, b in ends]
    summary = judge(plan_for(real), real.benchmarks, record(plan_for(real), nccl=reduced(19.0), also=narrow)).verdict()
    row = next(row for row in summary.tests if row.test == "nccl_all_reduce")

    assert states(row.basis, f"{(57.2 + 98.01) / 8:.2f} GB/s by bandwidth")


def test_packets_lost_are_counted_against_those_of_all_queue_pairs(lab: Lab) -> None:
    assert lab.benchmarks
    real = changed(hardware(lab), verbs=lab.benchmarks.verbs.model_copy(update={"iterations": 5000}))
    lost = {"packet_seq_err": 2}
    by_queue_pairs = {
        pairs: judged(real, [measured("rail-a", "gpu01", "gpu02", 97.2, counters=lost, queue_pairs=pairs)]).findings
        for pairs in (1, 8)
    }

    assert [found.code for found in by_queue_pairs[1]] == ["PACKETS_LOST"], "2 of 80,000 packets"
    assert by_queue_pairs[8] == (), "2 of 640,000 are within what a fabric without PFC keeps to"

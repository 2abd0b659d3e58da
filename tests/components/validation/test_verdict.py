"""The judgement: two axes, reasons with both numbers, and what never becomes a pass."""

import pytest

from components.validation.benchmarks.verbs.judge import NO_LINE_RATE
from components.validation.benchmarks.verbs.transfer_findings import counter_findings
from components.validation.records import JobResult, NcclResult, RunRecord, TransferResult
from components.validation.summary import JudgedTest, Summary
from components.validation.verdict import in_cluster, judge
from stacks.benchmarks import Benchmarks, LatencyThreshold, Threshold
from stacks.lab import Lab
from tests.components.validation.labs import (
    changed,
    first_rounds,
    hardware,
    measured,
    plan_for,
    record,
    reduced,
    with_nodes,
)
from tests.messages import states


def judged(lab: Lab, run: RunRecord) -> Summary:
    assert lab.benchmarks
    return judge(plan_for(lab), lab.benchmarks, run).verdict()


def rows(summary: Summary, test: str, shape: str = "one_way") -> list[JudgedTest]:
    return [row for row in summary.tests if (row.test, row.shape) == (test, shape)]


def verbs(lab: Lab, **settings: object) -> Lab:
    assert lab.benchmarks
    return changed(lab, verbs=lab.benchmarks.verbs.model_copy(update=settings))


def test_in_the_simulator_function_is_real_and_performance_is_not_rated(lab: Lab) -> None:
    summary = judged(lab, record(plan_for(lab), gbit_s=0.04, nccl=reduced(replayed=True), latency_us=4000))

    assert (summary.function, summary.performance, summary.performance_because) == ("pass", "not rated", "simulated")
    assert {row.performance for row in summary.tests} == {"not rated"}
    assert [row.because for row in rows(summary, "ib_write_lat")] == ["simulated", "simulated"]
    assert [row.because for row in rows(summary, "ib_write_bw", "sizes")] == ["shown only", "shown only"]
    assert [(row.function, row.because) for row in rows(summary, "nccl_all_reduce", "")] == [("replayed", "replayed")]


@pytest.mark.parametrize("outcome", ["failed", "skipped", "error"])
def test_a_replayed_log_enters_no_verdict_whatever_it_says(lab: Lab, outcome: str) -> None:
    nccl = NcclResult(outcome=outcome, replayed=True, reasons=("something",))
    summary = judged(hardware(lab), record(plan_for(hardware(lab)), nccl=nccl))

    assert (summary.function, summary.performance, summary.reasons) == ("pass", "pass", ())


def test_without_the_replayed_mark_the_same_result_fails(lab: Lab) -> None:
    nccl = NcclResult(outcome="failed", reasons=("the job failed",))
    summary = judged(lab, record(plan_for(lab), nccl=nccl))

    assert summary.function == "fail"
    [reason] = summary.reasons
    assert states(reason, "nccl_all_reduce", "failed", "the job failed")


def test_good_hardware_passes_both_axes(lab: Lab) -> None:
    real = hardware(lab)
    summary = judged(real, record(plan_for(real), gbit_s=97.2, nccl=reduced(23.9)))

    assert (summary.function, summary.performance, summary.findings) == ("pass", "pass", ())
    assert [row.ratio for row in rows(summary, "ib_write_bw")] == [0.9917, 0.9917]
    row = rows(summary, "nccl_all_reduce", "")[0]
    assert row.ratio == pytest.approx(23.9 / (2 * 97.2 / 8), abs=0.002)
    assert states(row.basis, "24.30 GB/s")


def test_one_slow_direction_fails_its_rail_and_is_named(lab: Lab) -> None:
    real = hardware(lab)
    slow = measured("rail-b", "gpu02", "gpu01", 41.0)
    summary = judged(real, record(plan_for(real), nccl=reduced(), also=[slow]))

    assert [row.performance for row in rows(summary, "ib_write_bw")] == ["pass", "fail"]
    assert summary.performance == "fail"
    assert rows(summary, "ib_write_bw")[1].worst is not None
    assert any(
        states(reason, "rail-b", "gpu02 to gpu01", "41.00 Gbit/s", "41.8%", "98.01") for reason in summary.reasons
    )
    assert not any("one_way" in reason for reason in summary.reasons), "that is the usual shape"


def test_a_bad_node_among_good_ones_is_found_and_named_as_a_node(lab: Lab) -> None:
    real = with_nodes(hardware(lab), 8)
    slow = [
        measured(t.rail, t.client, t.server, 60.0, retest=(60.1, 60.2, 60.0))
        for transfers in first_rounds(plan_for(real))
        for t in transfers
        if "gpu07" in (t.client, t.server)
    ]
    summary = judged(real, record(plan_for(real), also=slow, nccl=reduced()))

    assert [(found.code, found.where) for found in summary.findings] == [("NODE_SLOW", "gpu07, all rails")]
    assert summary.performance == "fail"


def test_a_pair_that_was_slow_once_and_good_again_is_judged_by_the_repetition(lab: Lab) -> None:
    real = hardware(lab)
    once = measured("rail-a", "gpu01", "gpu02", 60.0, retest=(97.1, 97.0, 97.2))
    summary = judged(real, record(plan_for(real), nccl=reduced(23.5), also=[once]))

    assert [row.performance for row in rows(summary, "ib_write_bw")] == ["pass", "pass"]


def test_a_pair_far_below_its_rail_fails_only_when_it_was_measured_again(lab: Lab) -> None:
    wide = Threshold(fail_below=0.5, warn_below=0.6)
    real = verbs(with_nodes(hardware(lab), 8), threshold=wide)
    once = measured("rail-a", "gpu01", "gpu02", 80.0)
    again = once.model_copy(update={"retest": (80.1, 80.0)})

    states = [
        rows(judged(real, record(plan_for(real), nccl=reduced(), also=[slow])), "ib_write_bw")[0].performance
        for slow in (once, again)
    ]
    assert states[0] != "fail"
    assert states[1] == "fail"


def test_repeats_that_contradict_each_other_are_unstable_and_no_number_passes(lab: Lab) -> None:
    real = hardware(lab)
    torn = [measured("rail-a", a, b, 0, samples=(97.0, 97.1, 50.0, 97.2, 51.0, 97.1, 52.0))
            for a, b in (("gpu01", "gpu02"), ("gpu02", "gpu01"))]  # fmt: skip
    summary = judged(real, record(plan_for(real), nccl=reduced(23.5), also=torn))

    assert [row.performance for row in rows(summary, "ib_write_bw")] == ["unstable", "pass"]
    assert summary.performance == "unstable"
    assert any(states(reason, "ib_write_bw", "rail-a") for reason in summary.reasons)


@pytest.mark.parametrize(("latency_us", "state"), [(2.0, "pass"), (7.0, "warn"), (12.0, "fail")])
def test_a_latency_is_held_against_its_bounds_and_has_no_ratio(lab: Lab, latency_us: float, state: str) -> None:
    real = hardware(lab)
    summary = judged(real, record(plan_for(real), nccl=reduced(23.5), latency_us=latency_us))

    assert [(row.performance, row.ratio, row.ceiling) for row in rows(summary, "ib_write_lat")] == [
        (state, None, 5.0)
    ] * 2
    assert summary.performance == state
    assert (state == "pass") == (not any(states(reason, "ib_write_lat", 5) for reason in summary.reasons))


def test_a_read_s_round_trip_counts_half_against_the_bounds(lab: Lab) -> None:
    real = verbs(hardware(lab), tests=("ib_write_bw", "ib_read_lat"), latency=LatencyThreshold())
    summary = judged(real, record(plan_for(real), nccl=reduced(23.5), latency_us=9.0))

    shown = [(row.performance, row.median, row.ceiling) for row in rows(summary, "ib_read_lat")]
    assert shown == [("pass", 9.0, 10.0)] * 2, "the bound stands beside the value in the same measure"


def test_slow_messages_far_from_the_median_warn_of_jitter(lab: Lab) -> None:
    real = hardware(lab)
    late = measured("rail-a", "gpu01", "gpu02", 2.0, test="ib_write_lat", tail_us=(40.0,))
    summary = judged(real, record(plan_for(real), nccl=reduced(23.5), also=[late]))

    assert [row.performance for row in rows(summary, "ib_write_lat")] == ["warn", "pass"]
    assert [found.code for found in summary.findings] == ["LATENCY_JITTER"]


@pytest.mark.parametrize(
    ("test", "shape", "gbit_s", "state"),
    [
        ("ib_read_bw", "one_way", 94.0, "pass"),
        ("ib_read_bw", "one_way", 85.0, "warn"),
        ("ib_send_bw", "one_way", 94.0, "warn"),
        ("ib_write_bw", "both_ways", 91.0, "pass"),
        ("ib_write_bw", "both_ways", 82.0, "fail"),
    ],
)
def test_each_test_has_its_own_bounds(lab: Lab, test: str, shape: str, gbit_s: float, state: str) -> None:
    real = verbs(hardware(lab), tests=("ib_write_bw", "ib_send_bw", "ib_read_bw"), both_ways=True)
    plan = plan_for(real)
    stage = next(stage for stage in plan.stages if (stage.test, stage.shape) == (test, shape))
    double = 2 if shape == "both_ways" else 1
    slow = [
        measured(t.rail, t.client, t.server, gbit_s * double, test=stage.test, shape=stage.shape)
        for transfers in plan.rounds_of(stage)
        for t in transfers
    ]
    summary = judged(real, record(plan, 97.2, nccl=reduced(23.5), also=slow))

    assert {row.performance for row in rows(summary, test, shape)} == {state}


def test_a_narrow_pcie_slot_is_the_ceiling_and_is_reported(lab: Lab) -> None:
    real = hardware(lab)
    narrow = [measured("rail-a", a, b, 56.0, pcie_gbit_s=57.2) for a, b in (("gpu01", "gpu02"), ("gpu02", "gpu01"))]
    summary = judged(real, record(plan_for(real), 97.2, nccl=reduced(18.8), also=narrow))

    assert rows(summary, "ib_write_bw")[0].basis == "PCIe 57.2 Gbit/s"
    assert [found.code for found in summary.findings] == ["PCIE_LIMITS"]
    assert states(summary.findings[0].evidence, "57.2 Gbit/s", 100)


def test_both_ports_of_a_nic_in_one_slot_are_rated_by_their_share_of_it(lab: Lab) -> None:
    real = hardware(lab)
    ends = [(rail, *pair) for rail in ("rail-a", "rail-b") for pair in (("gpu01", "gpu02"), ("gpu02", "gpu01"))]
    fields = {"pcie_gbit_s": 114.4, "ports_on_slot": 2}
    summary = judged(
        real, record(plan_for(real), nccl=reduced(14.0), also=[measured(*e, 56.5, **fields) for e in ends])
    )
    row = rows(summary, "ib_write_bw")[0]

    assert (row.performance, row.ceiling) == ("pass", 57.2)
    assert states(row.basis, "PCIe 114.4 Gbit/s", "2 ports")
    assert "PCIE_LIMITS" in {found.code for found in summary.findings}
    assert states(summary.findings[0].evidence, "114.4 Gbit/s", "2 ports", 100)


@pytest.mark.parametrize(
    ("counters", "code", "state"),
    [
        ({"link_downed": 1}, "LINK_ERRORS", "fail"),
        ({"symbol_error": 2}, "LINK_ERRORS", "fail"),
        ({"symbol_error": 1}, None, "pass"),
        ({"packet_seq_err": 40, "out_of_sequence": 40}, "PACKETS_LOST", "warn"),
        ({"local_ack_timeout_err": 4}, "PACKETS_LOST", "warn"),
        ({"packet_seq_err": 1, "np_cnp_sent": 5000}, None, "pass"),
        ({"out_of_sequence": 40_000}, "PACKETS_REORDERED", "pass"),
        ({"rx_discards_phy": 40}, "PACKETS_DROPPED", "warn"),
        ({"rx_out_of_buffer": 2}, None, "pass"),
        ({"gpu02/tx_prio3_pause": 200}, "PAUSED", "pass"),
        ({"rx_prio3_pause": 1}, None, "pass"),
    ],
)
def test_what_ports_count_gives_their_rail_its_state(
    lab: Lab, counters: dict[str, int], code: str | None, state: str
) -> None:
    real = verbs(hardware(lab), iterations=20_000)
    counted = measured("rail-a", "gpu01", "gpu02", 97.2, counters=counters)
    summary = judged(real, record(plan_for(real), 97.2, nccl=reduced(23.9), also=[counted]))

    assert [found.code for found in summary.findings] == ([code] if code else [])
    assert rows(summary, "ib_write_bw")[0].performance == state


def test_packets_that_the_emulation_loses_are_no_finding_but_a_broken_link_is(lab: Lab) -> None:
    slow = measured("rail-a", "gpu01", "gpu02", 1.2, counters={"out_of_seq_request": 40, "link_downed": 1})
    summary = judged(lab, record(plan_for(lab), nccl=reduced(1.0), also=[slow]))

    assert lab.simulated
    assert [found.code for found in summary.findings] == ["LINK_ERRORS"]


@pytest.mark.parametrize(("lost", "code"), [(100, []), (20_000, ["PACKETS_LOST"])])
def test_packets_lost_are_held_against_what_a_run_by_time_sent(lab: Lab, lost: int, code: list[str]) -> None:
    """Five seconds at 97 Gbit/s are 15 million packets of 4096 bytes, of which 1e-5 are 148; a count has 80,000."""
    real = verbs(hardware(lab), iterations=None)
    counted = measured("rail-a", "gpu01", "gpu02", 97.2, counters={"packet_seq_err": lost})
    summary = judged(real, record(plan_for(real), 97.2, nccl=reduced(23.9), also=[counted]))

    assert [found.code for found in summary.findings] == code


@pytest.mark.parametrize(
    ("line_rate_gbit_s", "symbols", "code"),
    [(100.0, 1, []), (100.0, 2, ["LINK_ERRORS"]), (400.0, 2, []), (400.0, 3, ["LINK_ERRORS"])],
)
def test_symbol_errors_are_held_against_the_bits_that_passed_the_line(
    lab: Lab, line_rate_gbit_s: float, symbols: int, code: list[str]
) -> None:
    """Five seconds at 400 Gbit/s are 2 x 10^12 bits, which may have two errors; 100 Gbit/s half a one."""
    real = verbs(hardware(lab), iterations=None)
    counters = {"gpu01/symbol_error": symbols}
    counted = measured("rail-a", "gpu01", "gpu02", 97.2, line_rate_gbit_s, counters=counters)
    found = counter_findings(plan_for(real), record(plan_for(real), 97.2, also=[counted]))

    assert [finding.code for finding, _, _ in found] == code


def test_a_socket_fallback_has_its_own_code(lab: Lab) -> None:
    fallen = reduced(3.0).model_copy(update={"outcome": "failed", "transport": "socket", "reasons": ("no RDMA",)})
    summary = judged(hardware(lab), record(plan_for(hardware(lab)), nccl=fallen))

    assert (summary.function, [found.code for found in summary.findings]) == ("fail", ["SOCKET_FALLBACK"])


def test_nccl_without_measured_verbs_is_held_against_the_computed_ceiling_and_wider_bounds(lab: Lab) -> None:
    real = verbs(hardware(lab), tests=("ib_write_lat",), sizes=())
    summary = judged(real, record(plan_for(real), nccl=reduced(22.0)))
    row = rows(summary, "nccl_all_reduce", "")[0]

    assert (row.ceiling, row.performance) == (24.476, "warn")
    assert states(row.basis, "24.50 GB/s", "computed", "2 rails")


def test_a_threshold_edit_changes_the_verdict_of_the_same_record(lab: Lab) -> None:
    real = hardware(lab)
    run = record(plan_for(real), gbit_s=80.0, nccl=reduced(19.9))

    assert judged(real, run).performance == "fail"
    assert judged(verbs(real, threshold=Threshold(fail_below=0.5, warn_below=0.6)), run).performance != "fail"


def test_a_failed_run_fails_the_function_axis_with_its_reason(lab: Lab) -> None:
    broken = TransferResult(
        rail="rail-a", client="gpu01", server="gpu02", outcome="failed", reasons=("retries exceeded",)
    )
    summary = judged(lab, record(plan_for(lab), nccl=reduced(replayed=True), also=[broken]))

    assert summary.function == "fail"
    [reason] = summary.reasons
    assert states(reason, "rail-a", "gpu01 to gpu02", "failed", "retries exceeded")
    assert [row.function for row in rows(summary, "ib_write_bw")] == ["fail", "pass"]


@pytest.mark.parametrize(("outcome", "state"), [("skipped", "skip"), ("error", "error"), ("failed", "fail")])
def test_states_are_never_mixed_up_and_none_of_them_is_green(lab: Lab, outcome: str, state: str) -> None:
    one = TransferResult(rail="rail-a", client="gpu01", server="gpu02", outcome=outcome, reasons=("x",))
    run = record(plan_for(lab), nccl=reduced(replayed=True), also=[one])

    assert judged(lab, run).function == state
    assert not judge(plan_for(lab), Benchmarks(), run).settled
    assert [row.function for row in rows(judged(lab, run), "ib_write_bw")] == [state, "pass"]


def test_the_worst_state_is_that_of_the_whole(lab: Lab) -> None:
    outcomes = [("rail-a", "skipped"), ("rail-b", "error")]
    bad = [TransferResult(rail=r, client="gpu01", server="gpu02", outcome=o, reasons=("x",)) for r, o in outcomes]
    run = record(plan_for(lab), nccl=reduced(replayed=True), also=bad)

    assert judged(lab, run).function == "error"


def test_the_same_fault_of_many_is_reported_once(lab: Lab) -> None:
    plan = plan_for(with_nodes(lab, 4))
    down = [
        TransferResult(rail=t.rail, client=t.client, server=t.server, outcome="failed", reasons=("gpu03 is down",))
        for transfers in first_rounds(plan)
        for t in transfers
        if "gpu03" in (t.client, t.server)
    ]
    summary = judged(with_nodes(lab, 4), record(plan, also=down, nccl=reduced(replayed=True)))

    assert len(summary.reasons) == 1
    assert states(summary.reasons[0], "11 more", "failed", "gpu03 is down")
    assert [found.where for found in summary.findings] == ["gpu03, all rails"]


def test_a_result_that_is_missing_is_no_pass(lab: Lab) -> None:
    run = record(plan_for(lab), nccl=reduced(replayed=True))
    less = run.model_copy(update={"transfers": run.transfers[:3]})

    assert judged(lab, less).function == "fail"
    assert judged(lab, run.model_copy(update={"nccl": None})).function == "fail"


def test_ports_without_a_line_rate_are_not_rated_and_not_passed(lab: Lab) -> None:
    real = hardware(lab)
    unknown = [
        measured("rail-a", a, b, 97.0, line_rate_gbit_s=None) for a, b in (("gpu01", "gpu02"), ("gpu02", "gpu01"))
    ]
    summary = judged(real, record(plan_for(real), nccl=reduced(), also=unknown))

    assert (summary.performance, summary.performance_because) == ("not rated", NO_LINE_RATE)


def test_one_node_alone_is_a_skip(lab: Lab) -> None:
    alone = with_nodes(lab, 1)
    summary = judged(alone, record(plan_for(alone)))

    assert summary.function == "skip"
    assert "two active nodes" in summary.reasons[0]


def test_an_application_is_shown_with_its_outliers_and_never_rated(lab: Lab) -> None:
    real = hardware(lab)
    job = JobResult(
        program="ddp",
        transport="roce",
        outcome="measured",
        unit="img/s",
        samples=(240, 242, 120),
        value=241,
        dropped=(120,),
    )
    failed = JobResult(program="ddp", transport="tcp", outcome="failed", unit="img/s", reasons=("no image",))
    run = record(plan_for(real), nccl=reduced(23.5)).model_copy(update={"jobs": (job, failed)})
    summary = judged(real, run)

    assert [(row.test, row.shape, row.function, row.because) for row in summary.tests[-2:]] == [
        ("ddp", "roce", "pass", "shown only"),
        ("ddp", "tcp", "fail", "shown only"),
    ]
    assert (summary.function, summary.performance) == ("fail", "pass")
    said = next(found.evidence for found in summary.findings if found.code == "OUTLIERS")
    assert said.startswith("mean 200.7 img/s")


def test_a_lab_of_which_a_host_is_quarantined_works_in_cluster_only(lab: Lab) -> None:
    whole = judged(lab, record(plan_for(lab), nccl=reduced(replayed=True)))

    assert in_cluster(whole, (), {}) == whole
    assert in_cluster(whole, (), {"gpu09": "failed: x"}).function == "partial"

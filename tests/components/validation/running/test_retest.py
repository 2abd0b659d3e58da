"""Further tries of transfers: what they add to a result, and what is not worth one."""

import asyncio
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.validation.benchmarks.verbs.plan import Stage, Transfer
from components.validation.benchmarks.verbs.retest import apart, joined, retest
from components.validation.benchmarks.verbs.run import Bench
from components.validation.records import TransferResult
from components.validation.search.localise import MANY
from stacks.lab import Lab
from tests.components.validation.fakes import Process, answering
from tests.components.validation.labs import function_of, measured, plan_for, with_nodes
from tests.components.validation.running.bench_facts import with_values
from tests.components.validation.running.recorded_hosts import ports_of, run, two_hosts, with_stderr, without_nccl
from tests.messages import states

FIRST = measured("rail-a", "gpu01", "gpu02", 9.0, at_once=8, raw=("rail-a/0.client",))
LOST = FIRST.model_copy(update={"outcome": "failed", "samples": (), "raw": (), "reasons": ("no end",)})
AGAIN = FIRST.model_copy(update={"at_once": 4, "raw": ("retest-0/rail-a/0.client",), "counters": {"a": 1}})
LOST_AGAIN = LOST.model_copy(update={"at_once": 4})


def test_what_failed_and_was_measured_later_has_the_later_values_load_and_outputs_and_the_first_reason() -> None:
    found = joined(LOST, [AGAIN, AGAIN.model_copy(update={"raw": ("retest-1/rail-a/0.client",)})])

    assert (found.outcome, found.samples, found.reasons, found.at_once) == ("measured", (9.0, 9.0), (), 4)
    assert found.raw == ("retest-0/rail-a/0.client", "retest-1/rail-a/0.client"), "one output a value"
    assert (found.failed_once, found.failed_at_once, found.second_try) == ("failed: no end", 8, True)
    assert found.counters == {"a": 2}


@pytest.mark.parametrize("tries", [[LOST_AGAIN], [AGAIN, LOST_AGAIN]])
def test_what_fails_twice_stays_failed(tries: list[TransferResult]) -> None:
    found = joined(LOST, tries)

    assert (found.outcome, found.reasons, found.second_try) == ("failed", ("no end",), False)
    assert found.retest[-1] == 0
    assert found.retest_at_once == 4


def test_what_was_measured_and_then_failed_keeps_its_values_and_the_reason() -> None:
    found = joined(FIRST, [LOST_AGAIN])

    assert (found.outcome, found.samples, found.retest) == ("measured", (9.0,), (0.0,))
    assert (found.failed_once, found.failed_at_once, found.second_try) == ("failed: no end", 4, False)


def test_what_was_measured_twice_names_the_outputs_of_both_values() -> None:
    found = joined(FIRST, [AGAIN])

    assert (found.samples, found.raw, found.retest, found.retest_raw) == ((9.0,), FIRST.raw, (9.0,), AGAIN.raw)


def test_a_later_run_that_contradicts_the_plan_is_no_value() -> None:
    wrong = AGAIN.model_copy(update={"outcome": "failed", "reasons": ("gpu01: path MTU is 1024, the lab says 4096",)})

    assert joined(LOST, [wrong]).outcome == "failed"


def failing_at(numbers: set[int], lab: Lab) -> tuple[list[str], TransferResult, str]:
    """Two hosts on one rail whose client on gpu01 fails at these of its runs."""
    hosts, plan = two_hosts(), without_nccl(lab)
    fine, asked = hosts[0].programs["client"], [0]

    async def client(process: Process, words: list[str]) -> None:
        asked[0] += 1
        await (with_stderr("Failed status 12\n", 1) if asked[0] in numbers else fine)(process, words)

    hosts[0].programs["client"] = client
    plan = plan.model_copy(update={"rails": plan.rails[:1]})
    record, _ = run(plan, hosts)
    return list(record.notes), record.transfers[0], function_of(plan, record)


def test_a_transfer_that_fails_in_its_round_alone_is_measured_again(lab: Lab) -> None:
    # the first run is the warm-up, which nobody counts
    notes, transfer, function = failing_at({2}, lab)

    assert (transfer.outcome, function, transfer.failed_once.split(": ")[:2]) == (
        "measured",
        "pass",
        ["failed", "gpu01"],
    )
    assert states(notes[-1], "ib_write_bw", "1 suspect transfer", "1 at once")
    assert all(name.startswith("retest-") for name in transfer.raw)


def test_a_transfer_that_fails_each_time_has_failed(lab: Lab) -> None:
    _, transfer, function = failing_at({2, 3, 4, 5, 6, 7, 8}, lab)

    assert (transfer.outcome, transfer.retest, function) == ("failed", (0.0,), "fail")


class Flaky(Bench):
    """A bench whose transfers fail as often as it is told, by rail, client and server."""

    left: dict[tuple[str, str, str], int]
    loads: list[int]

    async def transfer(self, stage: Stage, transfer: Transfer, at_once: int = 1, tag: str = "") -> TransferResult:
        self.loads.append(at_once)
        fields: dict[str, object] = {"test": stage.test, "shape": stage.shape, "at_once": at_once, "raw": (tag,)}
        if self.left.get(transfer.flow, 0) > 0:
            self.left[transfer.flow] -= 1
            fields |= {"outcome": "failed", "samples": (), "reasons": ("no end",)}
        return measured(*transfer.flow, 2.0, **fields)


def flaky(lab: Lab, left: Mapping[tuple[str, str, str], int]) -> Flaky:
    bench = Flaky(plan=plan_for(lab), connections={}, ports={}, unreachable={})
    bench.left, bench.loads = dict(left), []
    return bench


def measured_stage(bench: Flaky, stage: Stage, *, locates: bool = False) -> list[TransferResult]:
    """One round after the other, then the second tries."""

    async def whole() -> list[TransferResult]:
        done = []
        for transfers in bench.plan.rounds_of(stage):
            done += [await bench.transfer(stage, one, len(transfers)) for one in transfers]
        bench.loads.clear()
        tries, _ = await retest(bench, stage, done, locates=locates)
        return [joined(first, tries[first.flow]) if first.flow in tries else first for first in done]

    return asyncio.run(whole())


def test_a_later_test_tries_again_only_what_failed_with_half_as_many_at_once(lab: Lab) -> None:
    eight = with_nodes(lab, 8)
    latency = next(stage for stage in plan_for(eight).stages if stage.test == "ib_write_lat")
    first = {t.flow: 1 for t in plan_for(eight).rounds_of(latency)[0]}
    twice = next(iter(first))
    bench = flaky(eight, first | {twice: 2})
    results = {(t.rail, t.client, t.server): t for t in measured_stage(bench, latency)}

    assert len(bench.loads) == len(first) == 8
    assert max(bench.loads) == 4
    assert results[twice].outcome == "failed"
    assert {results[key].second_try for key in first if key != twice} == {True}
    assert sum(bool(t.failed_once) for t in results.values()) == 7


def all_failing(lab: Lab) -> tuple[Flaky, Stage]:
    """Four nodes, and a latency that fails in each of its transfers once."""
    plan = plan_for(with_nodes(lab, 4))
    latency = next(stage for stage in plan.stages if stage.test == "ib_write_lat")
    keys = [t.flow for transfers in plan.rounds_of(latency) for t in transfers]
    return flaky(with_nodes(lab, 4), dict.fromkeys(keys, 1)), latency


def test_over_what_no_ping_passes_is_not_tried_again_and_all_else_is(lab: Lab) -> None:
    bench, latency = all_failing(lab)
    silent = next(iter(bench.left))
    bench.cut_off[silent] = "no answer"
    results = measured_stage(bench, latency)

    assert len(bench.loads) == len(results) - 1 == 23
    assert [(t.rail, t.client, t.server) for t in results if t.outcome == "failed"] == [silent]


def test_to_a_host_that_is_gone_nothing_is_tried_again_and_all_else_is(lab: Lab) -> None:
    bench, latency = all_failing(lab)
    bench.unreachable["gpu02"] = "gpu02: gone"
    results = measured_stage(bench, latency)

    assert len(bench.loads) == 12, "three nodes, each direction of each pair on two rails"
    assert {"gpu02" in (t.client, t.server) for t in results if t.outcome == "failed"} == {True}
    assert sum(t.outcome == "measured" for t in results) == 12


def test_of_a_hiccup_that_is_larger_than_the_sample_of_suspects_each_transfer_has_a_second_try(lab: Lab) -> None:
    sixteen = with_nodes(lab, 16)
    first = plan_for(sixteen).stages[0]
    keys = [t.flow for transfers in plan_for(sixteen).rounds_of(first) for t in transfers if t.rail == "rail-a"]
    failing = keys[:64]
    bench = flaky(sixteen, dict.fromkeys(failing, 1))
    results = measured_stage(bench, first, locates=True)

    assert len(failing) > MANY
    assert {t.outcome for t in results} == {"measured"}
    assert {(t.rail, t.client, t.server) for t in results if t.second_try} == set(failing)


def test_two_nodes_whose_transfer_failed_once_take_part_in_the_later_tests(lab: Lab) -> None:
    hosts, plan = two_hosts(), without_nccl(lab)
    fine, asked = hosts[0].programs["client"], [0]

    async def client(process: Process, words: list[str]) -> None:
        asked[0] += 1
        await (with_stderr("Failed status 12\n", 1) if asked[0] == 2 else fine)(process, words)

    hosts[0].programs["client"] = client
    for host in hosts:
        facts = with_values(ports_of(host.name), {"programs": ["ib_write_bw", "ib_send_bw"]})
        host.programs["facts"] = answering(facts)
    verbs = plan.verbs.model_copy(update={"tests": ("ib_write_bw", "ib_send_bw")})
    record, _ = run(plan.model_copy(update={"rails": plan.rails[:1], "verbs": verbs}), hosts)

    later = [t for t in record.transfers if t.test == "ib_send_bw"]
    assert later
    assert "skipped" not in {t.outcome for t in later}


RAILS, NODES = ["rail-a", "rail-b"], ["gpu01", "gpu02", "gpu03", "gpu04", "gpu05"]
ENDS = st.lists(st.sampled_from(NODES), min_size=2, max_size=2, unique=True)
TRANSFERS = st.builds(lambda rail, ends: Transfer(rail, *ends, 18515), st.sampled_from(RAILS), ENDS)


@given(transfers=st.lists(TRANSFERS, unique=True), most=st.integers(1, 6))
def test_rounds_of_further_tries_have_each_transfer_once_and_no_nic_twice(transfers: list[Transfer], most: int) -> None:
    rounds = apart(transfers, most)

    assert sorted(transfer for packed in rounds for transfer in packed) == sorted(transfers)
    for packed in rounds:
        nics = [(transfer.rail, node) for transfer in packed for node in (transfer.client, transfer.server)]
        assert len(nics) == len(set(nics))
        assert 1 <= len(packed) <= most

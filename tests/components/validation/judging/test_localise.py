"""Where a fault lies: one fabric without noise for each kind, and what must not be said."""

import json

import pytest

from components.validation.records import Flow
from components.validation.search.localise import Localiser
from components.validation.search.located import Located
from components.validation.search.measured_fabric import FabricParts, MeasuredFabric, Value
from tests.components.validation.judging.fabrics import CEILING, SOUND, all_flows, names, searched
from tests.components.validation.judging.simulation import rounds_of
from tests.messages import states

Part = tuple[str | None, ...]


def parts(located: Located) -> list[Part]:
    """Code, nodes or leaves, and rail of each fault, which its words have too."""
    for fault in located.faults:
        assert states(fault.where, *fault.nodes, *fault.leaves, fault.rail or "all rails")
    return [(fault.code, *fault.nodes, *fault.leaves, fault.rail) for fault in located.faults]


def sound(_: Flow) -> Value:
    return 1.0


def test_a_sound_fabric_is_not_accused_and_nothing_is_measured_again() -> None:
    located = searched(all_flows(6, "ab"), sound)

    assert (located.faults, located.measured_again) == ((), 0)


@pytest.mark.parametrize("nodes", [3, 4, 5, 9])
@pytest.mark.parametrize("factor", [0.8, 0.5, None])
def test_a_bad_node_is_named_and_not_its_rails_or_paths(nodes: int, factor: Value) -> None:
    located = searched(all_flows(nodes, "ab"), lambda flow: factor if "gpu02" in flow else 1.0)

    assert parts(located) == [("NODE_DOWN" if factor is None else "NODE_SLOW", "gpu02", None)]


def test_one_bad_nic_is_named_with_its_rail() -> None:
    located = searched(all_flows(5, "ab"), lambda flow: 0.7 if flow.rail == "b" and "gpu03" in flow else 1.0)

    assert parts(located) == [("NIC_SLOW", "gpu03", "b")]
    assert located.faults[0].kind == "rail"


def test_one_rail_alone_cannot_distinguish_the_nic_from_its_node() -> None:
    located = searched(all_flows(5), lambda flow: 0.7 if "gpu03" in flow else 1.0)

    assert [(fault.kind, fault.nodes) for fault in located.faults] == [("node", ("gpu03",))]


@pytest.mark.parametrize(("place", "direction"), [(1, "tx"), (2, "rx")])
def test_a_bad_direction_of_a_nic_is_named(place: int, direction: str) -> None:
    located = searched(all_flows(5, "ab"), lambda flow: 0.7 if flow.rail == "a" and flow[place] == "gpu04" else 1.0)

    assert [(f.kind, f.nodes, f.rail, f.direction) for f in located.faults] == [
        ("direction", ("gpu04",), "a", direction)
    ]


def test_a_rail_that_is_slow_as_a_whole_is_seen_by_its_ceiling() -> None:
    located = searched(all_flows(4, "ab"), lambda flow: 0.8 if flow.rail == "b" else 1.0)

    assert parts(located) == [("RAIL_SLOW", "b")]


def test_without_a_ceiling_a_rail_is_compared_with_itself_alone() -> None:
    flows = all_flows(6, "ab")

    assert parts(searched(flows, lambda flow: 0.25 if flow.rail == "b" else 1.0, ceilings=False)) == []
    located = searched(flows, lambda flow: 0.7 if "gpu01" in flow else 1.0, ceilings=False)
    assert parts(located) == [("NODE_SLOW", "gpu01", None)]


def test_all_rails_slow_are_one_fault() -> None:
    assert parts(searched(all_flows(4, "ab"), lambda _: 0.8)) == [("RAIL_SLOW", None)]


def test_two_bad_nodes_among_four_are_no_bad_rail() -> None:
    factors = {"gpu01": 0.6, "gpu03": 0.8}
    located = searched(all_flows(4), lambda flow: min(factors.get(name, 1.0) for name in flow[1:]))

    assert {part[:2] for part in parts(located)} == {("NODE_SLOW", "gpu01"), ("NODE_SLOW", "gpu03")}


def test_a_bad_pair_is_a_path_and_no_link_is_named() -> None:
    located = searched(
        all_flows(6, "ab"), lambda flow: 0.6 if flow[0] == "a" and {"gpu02", "gpu05"} <= set(flow) else 1.0
    )

    assert parts(located) == [("PATH_SLOW", "gpu02", "gpu05", "a")]
    assert located.faults[0].kind == "path"
    assert located.faults[0].leaves == ()


def test_one_direction_of_a_pair_is_distinguished_from_the_pair() -> None:
    located = searched(all_flows(6, "ab"), lambda flow: 0.6 if flow == ("a", "gpu02", "gpu05") else 1.0)

    assert parts(located) == [("PATH_ONE_WAY_SLOW", "gpu02", "gpu05", "a")]


def test_two_nodes_show_only_their_path() -> None:
    located = searched(all_flows(2), lambda _: 0.6)

    assert [(fault.kind, fault.nodes) for fault in located.faults] == [("path", ("gpu01", "gpu02"))]


@pytest.mark.parametrize("nodes", [4, 8, 16])
def test_what_is_slow_together_and_good_with_half_as_many_is_congestion(nodes: int) -> None:
    located = searched(all_flows(nodes, "ab"), lambda flow: 0.7 if flow.rail == "a" else 1.0, halved=sound)

    assert [(fault.kind, fault.rail, fault.nodes) for fault in located.faults] == [("congestion", "a", ())]
    assert located.faults[0].evidence.recovered == located.faults[0].evidence.measured_again


def test_a_broken_node_is_seen_behind_congestion() -> None:
    def slow(flow: Flow) -> Value:
        return 0.5 if "gpu03" in flow else 0.7

    located = searched(all_flows(16), slow, halved=lambda flow: 0.5 if "gpu03" in flow else 1.0)

    assert sorted(fault.kind for fault in located.faults) == ["congestion", "node"]


def test_single_slow_transfers_that_recover_are_counted_and_not_accused() -> None:
    strays = {("a", "gpu01", "gpu04"), ("a", "gpu05", "gpu02")}
    located = searched(all_flows(8), lambda flow: 0.6 if flow in strays else 1.0, halved=sound)

    assert (located.faults, located.cleared, located.measured_again) == ((), 2, 2)


LEAVES = {(name, "a"): f"leaf{number % 3 + 1}" for number, name in enumerate(names(12))}


def between(flow: Flow, *leaves: str) -> bool:
    return {LEAVES[flow.client, "a"], LEAVES[flow.server, "a"]} == set(leaves)


def test_a_known_topology_names_the_pair_of_leaves() -> None:
    located = searched(all_flows(12), lambda flow: 0.7 if between(flow, "leaf1", "leaf3") else 1.0, leaf_of=LEAVES)

    assert parts(located) == [("LEAF_PATH_SLOW", "leaf1", "leaf3", "a")]


def test_a_known_topology_names_the_leaf_whose_uplinks_are_slow() -> None:
    def slow(flow: Flow) -> Value:
        return 0.7 if between(flow, "leaf2", "leaf1") or between(flow, "leaf2", "leaf3") else 1.0

    assert parts(searched(all_flows(12), slow, leaf_of=LEAVES)) == [("LEAF_UPLINK_SLOW", "leaf2", "a")]


def test_congestion_between_leaves_is_distinguished_from_that_inside_them() -> None:
    def slow(flow: Flow) -> Value:
        return 1.0 if LEAVES[flow.client, "a"] == LEAVES[flow.server, "a"] else 0.7

    located = searched(all_flows(12), slow, halved=sound, leaf_of=LEAVES)

    assert parts(located) == [("CONGESTION", "leaf1", "leaf2", "leaf3", "a")]


def test_a_topology_changes_nothing_for_a_bad_node() -> None:
    located = searched(all_flows(12), lambda flow: 0.7 if "gpu02" in flow else 1.0, leaf_of=LEAVES)

    assert parts(located) == [("NODE_SLOW", "gpu02", None)]


def sampled(nodes: int, rails: str) -> list[Flow]:
    some = names(nodes)
    return [Flow(rail, some[x], some[y]) for pairs in rounds_of(nodes, "sampled") for rail in rails for x, y in pairs]


@pytest.mark.parametrize(
    ("slow", "found"),
    [
        (lambda flow: 0.7 if "gpu30" in flow else 1.0, [("NODE_SLOW", "gpu30", None)]),
        (lambda flow: 0.7 if flow.rail == "a" and flow.client == "gpu07" else 1.0, [("NIC_TX_SLOW", "gpu07", "a")]),
        (lambda flow: 0.7 if flow.rail == "b" else 1.0, [("RAIL_SLOW", "b")]),
    ],
)
def test_a_ring_with_random_pairings_is_enough(slow: object, found: list[Part]) -> None:
    assert callable(slow)
    assert parts(searched(sampled(64, "ab"), slow)) == found


def test_missing_pairs_are_no_evidence_at_all() -> None:
    flows = [flow for number, flow in enumerate(all_flows(8, "ab")) if number % 3]

    located = searched(flows, lambda flow: 0.7 if "gpu05" in flow else 1.0)
    assert parts(located) == [("NODE_SLOW", "gpu05", None)]


def test_unrated_speeds_accuse_no_part_but_failures_do() -> None:
    def slow(flow: Flow) -> Value:
        return None if "gpu02" in flow else 0.02 if flow.server == "gpu03" else 1.0

    located = searched(all_flows(4, "ab"), slow, rated=False)

    assert parts(located) == [("NODE_DOWN", "gpu02", None)]
    evidence = located.faults[0].evidence
    assert (evidence.tested, evidence.bad, evidence.failed) == (12, 12, 12)
    assert states(located.faults[0].numbers, "12 of 12")
    assert searched(all_flows(4), lambda flow: 0.1 if "gpu02" in flow else 1.0, rated=False).faults == ()


def test_a_repetition_of_nothing_is_a_failed_one() -> None:
    flows = all_flows(4)
    values = {flow: None if "gpu02" in flow else SOUND for flow in flows}
    search = Localiser(MeasuredFabric(values=values, rated=False))
    retests = {flow: [0.0] for flow in search.suspects({})}

    assert [fault.nodes for fault in search.localise(retests).faults] == [("gpu02",)]


def test_a_node_with_a_slower_line_is_judged_by_its_own_ceiling() -> None:
    flows = all_flows(5)
    values: dict[Flow, Value] = {flow: SOUND / 4 if "gpu02" in flow else SOUND for flow in flows}
    own = {flow: CEILING / 4 for flow in flows if "gpu02" in flow}

    assert Localiser(MeasuredFabric(values=values, expected={"a": CEILING}, ceiling_of=own)).suspects({}) == ()
    assert Localiser(MeasuredFabric(values=values, expected={"a": CEILING})).suspects({}) != ()


def test_nothing_measured_is_nothing_located() -> None:
    search = Localiser(MeasuredFabric(values={}))

    assert search.suspects({}) == ()
    assert search.localise({}).faults == ()


def test_without_repetitions_a_fault_says_that_it_may_be_congestion() -> None:
    values: dict[Flow, Value] = {flow: SOUND * (0.7 if "gpu02" in flow else 1) for flow in all_flows(8)}
    (fault,) = Localiser(MeasuredFabric(values=values, expected={"a": CEILING})).localise({}).faults

    assert "may be congestion" in fault.finding().evidence


def test_one_slow_transfer_alone_is_never_a_fault() -> None:
    values: dict[Flow, Value] = dict.fromkeys(all_flows(8), SOUND)
    values[Flow("a", "gpu01", "gpu02")] = 0.3 * SOUND
    search = Localiser(MeasuredFabric(values=values, expected={"a": CEILING}))

    assert search.localise({}).faults == ()
    assert search.suspects({}) == (Flow("a", "gpu01", "gpu02"),)


def test_an_answer_survives_json_and_names_its_numbers() -> None:
    located = searched(all_flows(4, "ab"), lambda flow: 0.7 if "gpu02" in flow else 1.0)
    again = Located.model_validate(json.loads(located.model_dump_json()))

    assert again == located
    finding = again.faults[0].finding()
    assert states(finding.evidence, "12 of 12", "70%", "0 of 12")
    assert "PCIe" in finding.hint


@pytest.mark.parametrize("bad", [0, 1, 2, 3])
def test_the_same_values_give_the_same_answer_in_any_order(bad: int) -> None:
    slow = names(6)[:bad]
    flows = all_flows(6, "ab")
    answers = [
        searched(order, lambda flow: 0.7 if set(slow) & set(flow) else 1.0).faults for order in (flows, flows[::-1])
    ]

    assert {fault.where for fault in answers[0]} == {fault.where for fault in answers[1]}
    assert len(answers[0]) == bad


def test_a_single_pair_of_nodes_on_two_leaves_is_no_link() -> None:
    there, back = Flow("rail", "a", "b"), Flow("rail", "b", "a")
    leaf_of = {("a", "rail"): "leaf1", ("b", "rail"): "leaf2"}
    parts = FabricParts(MeasuredFabric(values={there: 100.0, back: 50.0}, leaf_of=leaf_of))

    assert [cause for cause in parts.structure if cause.part.startswith("leaf")] == []

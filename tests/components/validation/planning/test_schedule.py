"""Who measures with whom."""

from collections.abc import Iterable
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.validation.benchmarks.verbs.plan import (
    Pairs,
    directed,
    in_one_direction,
    incast_rounds,
    pair_rounds,
    ring_rounds,
    sampled_rounds,
)

TWO_RAILS = {"rail-a": ["x", "y"], "rail-b": ["x", "y"]}


def named(count: int) -> list[str]:
    return [f"n{i}" for i in range(count)]


def met(rounds: Iterable[Pairs]) -> list[frozenset[str]]:
    return [frozenset(pair) for pairs in rounds for pair in pairs]


@given(count=st.integers(2, 64))
def test_each_pair_meets_exactly_once_and_no_node_twice_in_a_round(count: int) -> None:
    names = named(count)
    rounds = list(pair_rounds(names))

    assert sorted(map(sorted, met(rounds))) == sorted(map(sorted, combinations(names, 2)))
    assert len(rounds) == (count if count % 2 else count - 1)
    assert all(len({name for pair in pairs for name in pair}) == 2 * len(pairs) for pairs in rounds)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_nodes_make_no_pair(count: int) -> None:
    for rounds in (pair_rounds, ring_rounds):
        assert met(rounds(named(count))) == []


@given(count=st.integers(2, 64))
def test_a_ring_joins_each_with_the_next_in_two_rounds_or_three(count: int) -> None:
    names = named(count)
    ring = list(ring_rounds(names))

    steps = {frozenset((names[i], names[(i + 1) % count])) for i in range(count)}
    assert (set(met(ring)), len(met(ring))) == (steps, len(steps))
    assert len(ring) == (1 if count == 2 else 2 + count % 2)
    assert all(len({name for pair in pairs for name in pair}) == 2 * len(pairs) for pairs in ring)


@given(count=st.integers(2, 64), samples=st.integers(0, 8))
def test_a_sample_holds_the_ring_and_no_pair_twice_and_is_the_same_each_time(count: int, samples: int) -> None:
    names = named(count)
    rounds = list(sampled_rounds(names, samples, "lab"))

    assert set(met(ring_rounds(names))) <= set(met(rounds))
    assert len(met(rounds)) == len(set(met(rounds)))
    assert all(len({name for pair in pairs for name in pair}) == 2 * len(pairs) for pairs in rounds)
    assert rounds == list(sampled_rounds(names, samples, "lab"))


def test_another_lab_has_another_sample() -> None:
    names = named(20)

    assert list(sampled_rounds(names, 3, "lab")) != list(sampled_rounds(names, 3, "other"))


def test_as_many_samples_as_there_are_rounds_are_all_pairs() -> None:
    names = named(9)

    assert set(met(sampled_rounds(names, 256, "lab"))) == {frozenset(pair) for pair in combinations(names, 2)}


def test_both_directions_run_on_all_rails_at_once_on_ports_of_their_own() -> None:
    rounds = list(directed(pair_rounds(["x", "y"]), TWO_RAILS, 18515))

    assert [[(t.rail, t.client, t.server, t.port) for t in transfers] for transfers in rounds] == [
        [("rail-a", "x", "y", 18515), ("rail-b", "x", "y", 18516)],
        [("rail-a", "y", "x", 18515), ("rail-b", "y", "x", 18516)],
    ]


def test_what_runs_in_both_directions_at_once_runs_once_a_pair() -> None:
    rounds = list(in_one_direction(pair_rounds(["x", "y"]), TWO_RAILS, 18515))

    assert [[t.flow for t in transfers] for transfers in rounds] == [[("rail-a", "x", "y"), ("rail-b", "x", "y")]]


def test_a_node_that_misses_a_rail_is_measured_on_the_others() -> None:
    ends = {"rail-a": ["x", "y", "z"], "rail-b": ["x", "y"]}
    rounds = list(directed(pair_rounds(["x", "y", "z"]), ends, 18515))

    on_b = [(t.client, t.server) for transfers in rounds for t in transfers if t.rail == "rail-b"]
    assert sorted(on_b) == [("x", "y"), ("y", "x")]
    assert sum(t.rail == "rail-a" for transfers in rounds for t in transfers) == 6


@st.composite
def rails(draw: st.DrawFn) -> dict[str, list[str]]:
    """Up to four rails; a node may miss any of them."""
    names = named(draw(st.integers(2, 12)))
    members = st.lists(st.sampled_from(names), unique=True)
    return {f"rail-{number}": sorted(draw(members), key=names.index) for number in range(draw(st.integers(1, 4)))}


@given(ends=rails())
def test_all_that_share_a_rail_write_to_each_other_once_and_no_nic_serves_two_tests_at_once(
    ends: dict[str, list[str]],
) -> None:
    names = sorted({name for members in ends.values() for name in members})
    rounds = list(directed(pair_rounds(names), ends, 18515))

    for transfers in rounds:
        nics = [(t.rail, node) for t in transfers for node in (t.client, t.server)]
        assert len(nics) == len(set(nics))
    expected = [(rail, *pair) for rail, members in ends.items() for pair in permutations(members, 2)]
    assert sorted(t.flow for transfers in rounds for t in transfers) == sorted(expected)


def test_an_incast_sends_to_one_port_on_one_rail_after_the_other() -> None:
    names = named(5)
    rounds = list(incast_rounds({"rail-a": names, "rail-b": names[:2]}, 3, 18515))

    assert [[(t.flow, t.port) for t in transfers] for transfers in rounds] == [
        [(("rail-a", f"n{i + 1}", "n0"), 18515 + i) for i in range(3)]
    ]

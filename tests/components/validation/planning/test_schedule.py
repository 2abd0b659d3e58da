"""Who measures with whom."""

from itertools import combinations

import pytest

from components.validation.planning.schedule import pair_rounds, transfer_rounds


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8, 33, 64])
def test_each_pair_meets_exactly_once_and_no_node_twice_in_a_round(count: int) -> None:
    names = [f"n{i}" for i in range(count)]
    rounds = list(pair_rounds(names))

    met = [frozenset(pair) for pairs in rounds for pair in pairs]
    assert sorted(map(sorted, met)) == sorted(map(sorted, combinations(names, 2)))
    assert len(rounds) == (count if count % 2 else count - 1)
    assert all(len({name for pair in pairs for name in pair}) == 2 * len(pairs) for pairs in rounds)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_nodes_make_no_pair(count: int) -> None:
    assert [pair for pairs in pair_rounds(["a"][:count]) for pair in pairs] == []


def test_both_directions_run_on_all_rails_at_once_on_ports_of_their_own() -> None:
    rounds = list(transfer_rounds({"rail-a": ["x", "y"], "rail-b": ["x", "y"]}, 18515))

    assert [[(t.rail, t.client, t.server, t.port) for t in transfers] for transfers in rounds] == [
        [("rail-a", "x", "y", 18515), ("rail-b", "x", "y", 18516)],
        [("rail-a", "y", "x", 18515), ("rail-b", "y", "x", 18516)],
    ]


def test_a_node_that_misses_a_rail_is_measured_on_the_others() -> None:
    rounds = list(transfer_rounds({"rail-a": ["x", "y", "z"], "rail-b": ["x", "y"]}, 18515))

    on_b = [(t.client, t.server) for transfers in rounds for t in transfers if t.rail == "rail-b"]
    assert sorted(on_b) == [("x", "y"), ("y", "x")]
    assert sum(t.rail == "rail-a" for transfers in rounds for t in transfers) == 6


def test_no_nic_serves_two_tests_at_once() -> None:
    names = [f"n{i}" for i in range(9)]
    for transfers in transfer_rounds({"rail-a": names, "rail-b": names}, 18515):
        nics = [(t.rail, node) for t in transfers for node in (t.client, t.server)]
        assert len(nics) == len(set(nics))

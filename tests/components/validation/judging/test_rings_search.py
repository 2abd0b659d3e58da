"""A slow ring over all nodes is narrowed down by pairs and halves, on fabrics whose fault is known."""

import random
from dataclasses import dataclass, field

import pytest

from components.finding import Finding
from components.validation.benchmarks.nccl.search import RingResult, RingSearch

LINE_GBYTE_S = 390.0
SLOW = 0.6
SIZES = (2, 3, 4, 5, 8, 9, 16, 31, 32, 64)
LEAF_NODES = 8
MOST_ROUNDS = 30


@dataclass
class Rings:
    """A fabric in which a ring is as slow as its slowest part, with 2 % of noise; two of a hundred rings stray."""

    nodes: int
    bad_node: str = ""
    bad_leaf: str = ""
    crowded: frozenset[str] = frozenset()
    """Nodes whose ring is slow only if more than four of them are in it."""
    even: float = 1.0
    seed: int = 0
    runs: int = 0
    leaves: bool = True
    noise: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self.noise.seed(f"{self.nodes} {self.bad_node} {self.bad_leaf} {self.seed}")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"gpu{number:02}" for number in range(1, self.nodes + 1))

    @property
    def leaf_of(self) -> dict[str, str]:
        return {name: f"leaf{number // LEAF_NODES + 1}" for number, name in enumerate(self.names)}

    def value(self, ring: tuple[str, ...], *, strays: bool = True) -> float:
        leaves = {self.leaf_of[node] for node in ring}
        share = self.even * self.noise.gauss(0.98, 0.01)
        slow = self.bad_node in ring or (self.bad_leaf in leaves and len(leaves) > 1)
        if slow or len(self.crowded & {*ring}) > 4:
            share *= SLOW
        if strays and self.noise.random() < 0.02:
            share *= self.noise.uniform(0.5, 0.9)
        return LINE_GBYTE_S * share

    def searched(self) -> tuple[Finding, ...]:
        leaf_of = self.leaf_of if self.leaves else {}
        whole = self.value(self.names, strays=False)
        results: list[RingResult] = []

        def search() -> RingSearch:
            return RingSearch(nodes=self.names, leaf_of=leaf_of, whole_gbyte_s=whole, results=results)

        while rings := search().next_rings():
            self.runs += 1
            assert self.runs <= MOST_ROUNDS
            busy = [node for ring in rings for node in ring]
            assert len(busy) == len({*busy}), "rings that run at once share no node"
            for ring in rings:
                results.append(RingResult(nodes=ring, busbw_gbyte_s=self.value(ring)))
        return search().findings()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("nodes", SIZES[1:])
def test_one_bad_node_is_named_and_nothing_else(nodes: int, seed: int) -> None:
    rings = Rings(nodes, bad_node=f"gpu{1 + (7 * (seed + 1)) % nodes:02}", seed=seed)

    findings = rings.searched()

    assert [(found.code, found.where) for found in findings] == [("NODE_SLOW", f"{rings.bad_node}, all rails")]
    assert rings.runs <= 14


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("nodes", [24, 32, 64])
def test_one_bad_leaf_is_named_and_nothing_else(nodes: int, seed: int) -> None:
    rings = Rings(nodes, bad_leaf="leaf2", seed=seed)

    findings = rings.searched()

    assert [(found.code, found.where) for found in findings] == [("LEAF_UPLINK_SLOW", "uplinks of leaf2 on all rails")]


@pytest.mark.parametrize("nodes", [12, 16])
def test_of_two_leaves_the_link_between_them_is_named(nodes: int) -> None:
    findings = Rings(nodes, bad_leaf="leaf2").searched()

    assert [(found.code, found.where) for found in findings] == [("LEAF_PATH_SLOW", "leaf1 to leaf2 on all rails")]


@pytest.mark.parametrize("nodes", SIZES)
def test_where_all_are_alike_no_part_is_named(nodes: int) -> None:
    findings = Rings(nodes, even=0.7).searched()

    assert [found.code for found in findings] == ["RING_EVENLY_SLOW"]


def test_of_two_nodes_none_is_accused() -> None:
    findings = Rings(2, bad_node="gpu02").searched()

    assert [found.code for found in findings] == ["RING_EVENLY_SLOW"]


@pytest.mark.parametrize("nodes", [16, 64])
def test_what_no_pair_shows_is_narrowed_down_by_halves(nodes: int) -> None:
    crowded = frozenset(f"gpu{number:02}" for number in range(1, 9))

    [finding] = Rings(nodes, crowded=crowded).searched()

    assert finding.code == "RING_SLOW_WITHIN"
    assert finding.where == "gpu[01-08]"


def test_without_cables_a_bad_leaf_accuses_its_nodes_together() -> None:
    rings = Rings(32, bad_leaf="leaf2", leaves=False)

    [finding] = rings.searched()

    assert (finding.code, finding.where) == ("GROUP_UPLINK_SLOW", "gpu[09-16]")

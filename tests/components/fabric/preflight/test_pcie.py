"""Where cards are plugged in: at one processor or across, and what is not told."""

import pytest

from components.fabric.preflight.facts import Pcie

NIC, GPU = "0000:3b:00.0", "0000:3c:00.0"


@pytest.mark.parametrize(
    ("numa_nodes", "way"),
    [
        ({NIC: 0, GPU: 0}, "on its NUMA node"),
        ({NIC: 0, GPU: 1}, "on another NUMA node"),
        ({NIC: 0}, ""),
        ({}, ""),
    ],
)
def test_cards_are_at_one_processor_or_across_or_nobody_knows(numa_nodes: dict[str, int], way: str) -> None:
    assert Pcie(numa_nodes=numa_nodes).way(NIC, GPU) == way


def test_cards_are_counted_by_their_way_without_unknown_ones() -> None:
    pcie = Pcie(numa_nodes={NIC: 0, "g1": 1, "g2": 0, "g3": 1})

    assert pcie.ways(NIC, ["g1", "g2", "g3", "g4"]) == "1 on its NUMA node, 2 on another NUMA node"
    assert pcie.ways("nobody", ["g1"]) == ""

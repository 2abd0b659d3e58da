"""Where cards are plugged in: what is below one root port, at one processor or across, and what is not told."""

import pytest

from components.fabric.preflight.facts import Pcie

NIC, GPU = "0000:3b:00.0", "0000:3c:00.0"
SWITCH = {NIC: "0000:3a:01.0", GPU: "0000:3a:02.0", "0000:3a:01.0": "0000:39:00.0", "0000:3a:02.0": "0000:39:00.0"}
"""Both behind a PCIe switch, whose upstream port stands below the root port."""
ROOT = {"0000:39:00.0": "0000:38:00.0"}


@pytest.mark.parametrize(
    ("bridges", "numa_nodes", "way"),
    [
        (SWITCH | ROOT, {NIC: 0, GPU: 0}, "below its root port"),
        (SWITCH | ROOT, {}, "below its root port"),
        ({NIC: "0000:3a:00.0", GPU: "0000:5d:00.0"}, {NIC: 0, GPU: 0}, "on its NUMA node"),
        ({NIC: "0000:3a:00.0", GPU: "0000:ae:00.0"}, {NIC: 0, GPU: 1}, "on another NUMA node"),
        ({}, {NIC: 0, GPU: 0}, "on its NUMA node"),
        ({NIC: "0000:3a:00.0", GPU: "0000:5d:00.0"}, {NIC: 0}, ""),
        ({}, {}, ""),
    ],
)
def test_the_nearest_thing_that_two_cards_share_is_named(bridges, numa_nodes, way):
    assert Pcie(bridges=bridges, numa_nodes=numa_nodes).way(NIC, GPU) == way


def test_all_bridges_above_a_card_are_listed_up_to_the_root():
    assert Pcie(bridges=SWITCH | ROOT).above(NIC) == ["0000:3a:01.0", "0000:39:00.0", "0000:38:00.0"]


def test_a_loop_of_pci_bridges_ends():
    assert Pcie(bridges={"a": "b", "b": "a"}).above("a") == ["b", "a"]


def test_cards_are_counted_by_their_way_without_unknown_ones():
    pcie = Pcie(numa_nodes={NIC: 0, "g1": 1, "g2": 0, "g3": 1})

    assert pcie.ways(NIC, ["g1", "g2", "g3", "g4"]) == "1 on its NUMA node, 2 on another NUMA node"
    assert pcie.ways("nobody", ["g1"]) == ""

"""Where cards are plugged in: at one processor or across, and what is not told."""

from dataclasses import replace

import pytest

from components.fabric.preflight.facts import HostFacts
from components.fabric.vcenter.nics import Nic

NIC = Nic(name="vmnic4", mac="02:00:00:00:00:01", driver="nmlx5_core", speed_mbit=100_000, pci="0000:3b:00.0")
GPU = "0000:3c:00.0"


@pytest.mark.parametrize(
    ("numa_nodes", "way"),
    [
        ({NIC.pci: 0, GPU: 0}, ["on its NUMA node"]),
        ({NIC.pci: 0, GPU: 1}, ["on another NUMA node"]),
        ({NIC.pci: 0}, []),
        ({}, []),
    ],
)
def test_cards_are_at_one_processor_or_across_or_nobody_knows(numa_nodes: dict[str, int], way: list[str]) -> None:
    assert HostFacts(name="esx1", gpus=(GPU,), numa_nodes=numa_nodes).gpu_ways(NIC) == way


def test_cards_are_counted_by_their_way_without_unknown_ones() -> None:
    host = HostFacts(name="esx1", gpus=("g1", "g2", "g3", "g4"), numa_nodes={NIC.pci: 0, "g1": 1, "g2": 0, "g3": 1})

    assert host.gpus_from(NIC) == "1 on its NUMA node, 2 on another NUMA node"
    assert host.gpus_from(replace(NIC, pci="nobody")) == ""

"""Facts beside the log: a lab file, a file of `rocelab look`, and what wins."""

from dataclasses import replace

from components.inventory.model import Host
from components.inventory.reading import known
from components.judge.known import KnownHardware, of_inventory, of_lab
from stacks.read import read_stack_file
from tests.components.inventory.fabricate import changed, fabricate
from tests.conftest import ROOT

LAB = ROOT / "Pulumi.lab.yaml"


def test_a_lab_file_says_rails_nodes_mtu_and_gpus() -> None:
    facts = of_lab(read_stack_file(LAB))

    assert (facts.nics_per_node, facts.nodes, facts.gpus_per_node) == (2, 2, 8)
    assert facts.path_mtu_bytes == 4096
    assert facts.nic_gbit_s is None, "a line rate is the hardware's"


def test_an_inventory_says_rates_slots_and_link() -> None:
    facts = of_inventory(fabricate(hosts=3, rails=4))

    assert facts.nics_per_node == facts.gpus_per_node == 4
    assert facts.framing == "roce_v2"
    assert facts.path_mtu_bytes == 4096
    assert facts.nic_gbit_s
    assert facts.pcie_gbit_s


def test_a_slower_port_for_storage_or_management_is_no_rail() -> None:
    """A DGX A100 has eight ports of 200 Gbit/s and one of 100 (the topology in NVIDIA/nccl#1505)."""

    def rated(host: Host) -> Host:
        *rails, last = host.pfs.or_else(())
        ports = [replace(pf, speed_mbit_s=known(200_000, "sysfs")) for pf in rails]
        return replace(host, pfs=known((*ports, replace(last, speed_mbit_s=known(100_000, "sysfs"))), "sysfs"))

    rack = fabricate(hosts=2, rails=9)
    for host in rack.hosts:
        rack = changed(rack, host.name, rated)

    facts = of_inventory(rack)

    assert (facts.nic_gbit_s, facts.nics_per_node) == (200.0, 8)


def test_what_hosts_disagree_on_stays_unknown() -> None:
    def without_gpus(host: Host) -> Host:
        return replace(host, gpus=known((), "lspci"))

    facts = of_inventory(changed(fabricate(hosts=3, rails=4), "gpu02", without_gpus))

    assert facts.gpus_per_node is None
    assert facts.nics_per_node == 4


def test_what_is_said_first_wins_and_silence_does_not() -> None:
    options = KnownHardware(nodes=4)

    assert options.over(KnownHardware(nodes=2, nic_gbit_s=100.0)) == KnownHardware(nodes=4, nic_gbit_s=100.0)

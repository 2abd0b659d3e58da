"""Addresses that a lab gives to new vmkernel adapters: one that is taken is refused, unless it is our own adapter."""

from dataclasses import replace

from components.fabric.preflight.claims import adapters_made, refused_adapters
from components.fabric.preflight.facts import FabricFacts, HostFacts, VmkernelFacts
from stacks.fabric import DistributedSwitch, Vmkernel
from tests.messages import states

TAKEN = HostFacts(
    name="esx1",
    vmkernels={
        "vmk0": VmkernelFacts(address="10.0.0.1", mtu_bytes=1500),
        "vmk3": VmkernelFacts(address="192.168.0.24", mtu_bytes=9000),
    },
)
FREE = replace(TAKEN, name="esx2", vmkernels={"vmk0": VmkernelFacts(address="", mtu_bytes=1500)})
ADDRESS = {"address": "192.168.0.24/24"}


def a_switch(vmkernel: dict[str, str], host: str = "esx1") -> DistributedSwitch:
    given = {"name": "roce", "rail": "pvrdma", "uplink": {"rdma_device": "vmrdma0"}, "port_group": "pvrdma"}
    wanted = Vmkernel.model_validate(vmkernel)
    return DistributedSwitch.model_validate({**given, "hosts": [{"name": host, "vmkernel": wanted}]})


def refused(switch: DistributedSwitch, ours: list[str] | None = None) -> list[str]:
    facts = FabricFacts(hosts={one.name: one for one in (TAKEN, FREE)}, switches={})
    return list(refused_adapters([switch], facts, frozenset(ours or [])))


def test_an_address_that_the_host_has_is_refused_with_the_adapter_that_could_be_taken_instead() -> None:
    said = refused(a_switch(ADDRESS))

    assert len(said) == 1
    assert states(said[0], "esx1", "192.168.0.24", "vmkernel: {existing: vmk3}")
    assert said[0].count("vmk3") == 2, "what has it, and the remedy"


def test_an_address_of_another_host_is_refused_without_an_adapter_to_take() -> None:
    said = refused(a_switch(ADDRESS, host="esx2"))

    assert len(said) == 1
    assert states(said[0], "esx2", "192.168.0.24", "vmk3 of esx1")


def test_an_adapter_that_this_stack_has_made_is_no_hindrance() -> None:
    switch = a_switch(ADDRESS)

    assert adapters_made([switch]) == ["esx1: 192.168.0.24"]
    assert refused(switch, adapters_made([switch])) == []


def test_addresses_that_are_free_and_adapters_that_are_only_taken_are_passed() -> None:
    assert refused(a_switch({"address": "192.168.0.25/24"})) == []
    assert refused(a_switch({"existing": "vmk3"})) == []

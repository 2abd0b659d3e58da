"""A switch that is taken over: what it would never be changed to is refused before anything is changed."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from components.fabric.preflight.facts import FabricFacts
from components.fabric.preflight.judge import judge
from components.fabric.vcenter.objects import MEMBER, ExistingSwitch
from stacks.base import LabError
from stacks.fabric import DistributedSwitch
from tests.components.fabric.preflight.facts import EXISTING, HOST, NIC, a_switch
from tests.messages import states, stating

OTHER = replace(NIC, name="vmnic5", mac="ec:0d:9a:00:00:01", rdma_device="vmrdma1")


def adopted(**others: object) -> DistributedSwitch:
    hosts = [{"name": "esx1", "vmkernel": {"existing": "vmk0"}}]
    return DistributedSwitch.model_validate(a_switch(use="adopt", hosts=hosts, **others))


def faults(*members: str) -> tuple[str, ...]:
    host = replace(HOST, nics=(NIC, OTHER))
    facts = FabricFacts(hosts={"esx1": host}, switches={"roce": replace(EXISTING, members={"esx1": members})})
    return judge([adopted()], facts, {"pvrdma": 1500}, frozenset()).faults


def test_a_host_that_is_on_the_switch_with_another_nic_is_refused_in_the_preview() -> None:
    [said] = faults("vmnic5")

    assert states(said, "esx1", "roce", "vmnic5", "vmnic4")


def test_a_host_with_the_lab_s_nic_or_without_one_is_passed() -> None:
    assert faults("vmnic4") == faults() == ()


def test_a_host_with_two_uplinks_is_refused_although_one_of_them_is_the_lab_s() -> None:
    [said] = faults("vmnic4", "vmnic5")
    assert states(said, "esx1", "2 uplinks", "roce", "PVRDMA")


def test_an_uplink_that_was_swapped_after_the_preview_is_not_swapped_back() -> None:
    host = object()
    backing = SimpleNamespace(pnicSpec=[SimpleNamespace(pnicDevice="vmnic5")])
    member = SimpleNamespace(config=SimpleNamespace(host=host, backing=backing))
    switch = SimpleNamespace(config=SimpleNamespace(configVersion="1", host=[member]))
    vcenter = SimpleNamespace(host=lambda _name: host)

    with pytest.raises(LabError, check=stating("esx1", "corp", "vmnic5", "vmnic4")):
        ExistingSwitch(vcenter, switch, "corp").put({f"{MEMBER}esx1": "vmnic4"})

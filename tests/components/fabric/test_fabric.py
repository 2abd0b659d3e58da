"""The fabric under the recording engine: what is asked for, under which name, and in which order."""

from typing import Any

import pulumi
import pytest

from components.fabric.fabric import VsphereFabric, VsphereFabricArgs
from components.fabric.vcenter.session import VcenterEndpoint
from stacks.fabric import Fabric
from stacks.lab import Lab
from tests.components.fabric.lookups import CANARY, LOOKUPS
from tests.engine import Engine, Recorded
from tests.labs import lab_of, section_of


@pytest.fixture(scope="module")
def lab() -> Lab:
    content = section_of("Pulumi.lab-pvrdma.yaml")
    return lab_of(content)


@pytest.fixture(scope="module")
def seen(lab: Lab, peers: list[VcenterEndpoint]) -> Recorded:
    del peers  # used for its effect
    assert lab.fabric is not None
    return recorded(lab, lab.fabric)


def recorded(lab: Lab, fabric: Fabric) -> Recorded:
    def program() -> None:
        VsphereFabric("fabric", VsphereFabricArgs(lab=lab, fabric=fabric, password=pulumi.Output.secret(CANARY)))

    def answer(kind: str, _name: str, _inputs: Any) -> dict[str, Any]:
        return {"device": "vmnic4"} if kind.endswith(":Uplink") else {}

    return Engine(answer, LOOKUPS).run(program)


def test_the_names_in_the_state_are_these(seen: Recorded) -> None:
    assert sorted(seen.resources) == [
        "fabric",
        "fabric-DC0_C0_H0-baseline",
        "fabric-DC0_C0_H0-settings",
        "fabric-DC0_C0_H1-baseline",
        "fabric-DC0_C0_H1-settings",
        "fabric-DC0_C0_H2-baseline",
        "fabric-DC0_C0_H2-settings",
        "fabric-DC0_C0_H3-baseline",
        "fabric-DC0_C0_H3-settings",
        "fabric-machines",
        "fabric-machines-apart",
        "fabric-machines-gpu01",
        "fabric-machines-gpu01-hardware",
        "fabric-machines-gpu02",
        "fabric-machines-gpu02-hardware",
        "fabric-machines-placement",
        "fabric-preflight",
        "fabric-provider",
        "fabric-pvrdma-DC0_C0_H0-uplink",
        "fabric-pvrdma-DC0_C0_H0-vmkernel",
        "fabric-pvrdma-DC0_C0_H1-uplink",
        "fabric-pvrdma-DC0_C0_H1-vmkernel",
        "fabric-pvrdma-DC0_C0_H2-uplink",
        "fabric-pvrdma-DC0_C0_H2-vmkernel",
        "fabric-pvrdma-DC0_C0_H3-uplink",
        "fabric-pvrdma-DC0_C0_H3-vmkernel",
        "fabric-pvrdma-group",
        "fabric-pvrdma-group-read-back",
        "fabric-pvrdma-switch",
        "fabric-pvrdma-switch-read-back",
    ]


def test_a_switch_has_one_uplink_that_we_name_and_no_teaming(seen: Recorded) -> None:
    switch = seen["fabric-pvrdma-switch"].inputs

    assert (switch["uplinks"], switch["activeUplinks"], switch["standbyUplinks"]) == (["uplink1"], ["uplink1"], [])
    assert switch["networkResourceControlEnabled"] is False
    assert [host["devices"] for host in switch["hosts"]] == [["vmnic4"]] * 4


@pytest.mark.parametrize(("vlan", "given"), [(0, None), (211, 211)])
def test_a_vlan_is_read_back_since_the_provider_takes_0_for_none_given(
    lab: Lab, peers: list[VcenterEndpoint], vlan: int, given: int | None
) -> None:
    del peers  # used for its effect
    assert lab.fabric is not None
    switch = lab.fabric.switches[0].model_copy(update={"vlan_id": vlan})
    seen = recorded(lab, lab.fabric.model_copy(update={"switches": (switch,)}))

    kept = seen["fabric-pvrdma-group-read-back"]
    assert seen["fabric-pvrdma-group"].inputs.get("vlanId") == given
    assert kept.inputs["fields"] == {"vlan_id": vlan}
    assert "fabric-pvrdma-group" in kept.depends_on


def test_a_referenced_switch_has_no_field_to_set(lab: Lab, peers: list[VcenterEndpoint]) -> None:
    del peers  # used for its effect
    assert lab.fabric is not None
    switch = lab.fabric.switches[0].model_copy(update={"use": "reference"})
    seen = recorded(lab, lab.fabric.model_copy(update={"switches": (switch,)}))

    assert seen["fabric-pvrdma-switch-existing"].inputs["fields"] == {}


def test_switches_are_changed_one_after_the_other(lab: Lab, peers: list[VcenterEndpoint]) -> None:
    del peers  # used for its effect
    assert lab.fabric is not None
    (switch,) = lab.fabric.switches
    hosts = tuple(host.model_copy(update={"vmkernel": None}) for host in switch.hosts)
    second = switch.model_copy(update={"rail": "b", "name": "b", "port_group": "b-ports", "hosts": hosts})
    seen = recorded(lab, lab.fabric.model_copy(update={"switches": (switch, second)}))

    assert "fabric-pvrdma-switch" in seen["fabric-b-switch"].depends_on
    assert "fabric-b-switch" not in seen["fabric-pvrdma-switch"].depends_on


def test_a_setting_comes_after_its_baseline_and_adapter(seen: Recorded) -> None:
    wanted = seen["fabric-DC0_C0_H0-settings"]

    assert {"fabric-DC0_C0_H0-baseline", "fabric-pvrdma-DC0_C0_H0-vmkernel"} <= wanted.depends_on


def test_nothing_is_changed_before_the_preflight_has_passed(seen: Recorded) -> None:
    changing = ("switch", "group", "vmkernel", "baseline", "settings", "uplink")

    for name, resource in seen.resources.items():
        if name.endswith(changing):
            assert "fabric-preflight" in resource.depends_on, name


def test_machines_come_after_the_preflight_and_their_hosts_settings_and_go_before_them(seen: Recorded) -> None:
    settings = {f"fabric-DC0_C0_H{n}-settings" for n in range(4)}

    for machine in seen.of_type("vsphere:index/virtualMachine:VirtualMachine").values():
        assert {"fabric-preflight", *settings} <= machine.depends_on, "the cluster may place it on any of them"


def test_the_vcenter_is_looked_at_before_the_provider_which_trusts_any_then(
    seen: Recorded, peers: list[VcenterEndpoint]
) -> None:
    assert seen["fabric-provider"].inputs["allowUnverifiedSsl"] == "true"
    assert {(peer.address, peer.password) for peer in peers} == {("127.0.12.201", "")}


def test_the_password_goes_to_the_provider_alone_and_as_a_secret(seen: Recorded) -> None:
    assert "password" in seen["fabric-provider"].secrets
    for name, resource in seen.resources.items():
        assert name == "fabric-provider" or CANARY not in repr(resource.inputs)


def test_a_machine_has_all_its_memory_reserved_and_pvrdma_after_management(seen: Recorded) -> None:
    machine = seen["fabric-machines-gpu01"].inputs

    assert machine["memory"] == machine["memoryReservation"] == 24576
    assert machine["memoryReservationLockedToMax"] is True
    assert [one["adapterType"] for one in machine["networkInterfaces"]] == ["vmxnet3", "vmxnet3vrdma"]
    assert len(seen["fabric-machines-apart"].inputs["virtualMachineIds"]) == 2

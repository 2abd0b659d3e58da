"""What machines are made from: what is missing is named with where it was asked for, and what there is instead."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from components.fabric.preflight.claims import refused_supplies
from components.fabric.preflight.facts import FabricFacts, HostFacts, MachineFacts
from tests.labs import lab_of, section_of
from tests.messages import states

LAB = section_of("Pulumi.lab-pvrdma.yaml")
TEMPLATE = MachineFacts(template=True, firmware="efi", guest_id="debian12_64Guest")
FACTS = FabricFacts(
    hosts={},
    switches={},
    networks=frozenset({"VM Network", "other"}),
    host_names=frozenset({"DC0_C0_H0", "DC0_C0_H1", "DC0_C0_H2"}),
    datastores=frozenset({"LocalDS_0"}),
    machines={
        "DC0_C0_RP0_VM0": TEMPLATE,
        "somebodys": MachineFacts(template=False, firmware="bios", guest_id="otherGuest"),
    },
)


def refused(facts: FabricFacts = FACTS, edit: Callable[[dict[str, Any]], None] = lambda _: None) -> list[str]:
    content = copy.deepcopy(LAB)
    edit(content)
    return list(refused_supplies(lab_of(content), facts))


def with_machine(**others: Any) -> Callable[[dict[str, Any]], None]:
    return lambda lab: lab["nodes"][0].update(machine={**lab["nodes"][0]["machine"], **others})


def test_what_is_there_and_fits_is_passed_without_a_word() -> None:
    assert refused() == []


@pytest.mark.parametrize(
    ("field", "name", "what", "others"),
    [
        ("template", "gone", "VM or template", "DC0_C0_RP0_VM0"),
        ("datastore", "nvme", "datastore", "LocalDS_0"),
        ("management_network", "lan", "network", "VM Network, other"),
    ],
)
def test_what_is_missing_is_named_with_what_there_is(field: str, name: str, what: str, others: str) -> None:
    said = refused(edit=with_machine(**{field: name}))

    assert len(said) == 1
    assert said[0].startswith(f"nodes.gpu01.machine.{field}: ")
    assert states(said[0], what, name, others)


def test_a_host_that_is_not_there_is_named_though_no_switch_has_it() -> None:
    def plane(lab: dict[str, Any]) -> None:
        del lab["cluster"], lab["benchmarks"]
        machine = {**lab["nodes"][0]["machine"], "host": "esx-m01"}
        own = {"name": "plane01", "address": "127.0.12.31", "management_interface": "ens192", "gpus": 0}
        lab["nodes"].append({"kind": "vsphere_vm", "role": "control_plane", "machine": machine, **own})

    [said] = refused(edit=plane)
    assert said.startswith("nodes.plane01.machine.host: ")
    assert states(said, "esx-m01", "DC0_C0_H0, DC0_C0_H1, DC0_C0_H2")


def test_what_several_machines_miss_is_one_line() -> None:
    said = refused(replace(FACTS, datastores=frozenset()))

    assert len(said) == 1
    assert said[0].startswith("nodes.gpu01, gpu02.machine.datastore: ")
    assert states(said[0], "LocalDS_0", "none")


def test_a_template_of_another_firmware_or_guest_is_refused_and_an_ordinary_machine_is_not_judged() -> None:
    other = replace(TEMPLATE, firmware="bios", guest_id="ubuntu64Guest")
    untold = replace(TEMPLATE, firmware="", guest_id="")

    said = refused(replace(FACTS, machines={"DC0_C0_RP0_VM0": other}))

    firmware = [one for one in said if one.startswith("nodes.gpu01.machine.firmware: ")]
    assert [states(one, "efi", "DC0_C0_RP0_VM0", "bios") for one in firmware] == [True]
    guest = [one for one in said if one.startswith("nodes.gpu02.machine.guest_id: ")]
    assert [states(one, "debian12_64Guest", "DC0_C0_RP0_VM0", "ubuntu64Guest") for one in guest] == [True]
    assert len(said) == 4
    assert refused(replace(FACTS, machines={"DC0_C0_RP0_VM0": replace(other, template=False)})) == []
    assert refused(replace(FACTS, machines={"DC0_C0_RP0_VM0": untold})) == []


@pytest.mark.parametrize(
    ("esxi", "wanted", "newest"), [("6.7.0", 17, 15), ("7.0.0", 18, 17), ("8.0.1", 21, 20), ("7.0.3", 19, None)]
)
def test_virtual_hardware_that_a_host_is_too_old_for_is_refused_with_what_it_runs(
    esxi: str, wanted: int, newest: int | None
) -> None:
    facts = replace(FACTS, hosts={"DC0_C0_H1": HostFacts(name="DC0_C0_H1", version=esxi)})

    def lab(content: dict[str, Any]) -> None:
        content["nodes"][1]["machine"] = {**content["nodes"][1]["machine"], "hardware_version": 13}
        with_machine(hardware_version=wanted)(content)

    said = refused(facts, lab)

    assert len(said) == (1 if newest else 0)
    for fault in said:
        assert fault.startswith("nodes.gpu01.machine.hardware_version: ")
        assert states(fault, wanted, "DC0_C0_H1", f"ESXi {esxi}", newest)


def test_only_the_host_that_a_machine_is_pinned_to_has_to_run_its_hardware() -> None:
    old = replace(FACTS, hosts={"DC0_C0_H1": HostFacts(name="DC0_C0_H1", version="6.5.0")})

    def pinned(content: dict[str, Any]) -> None:
        for number, node in zip((0, 2), content["nodes"], strict=True):
            node["machine"] = {**node["machine"], "host": f"DC0_C0_H{number}"}

    assert refused(old, pinned) == []


def test_a_machine_that_is_absent_misses_nothing() -> None:
    def gone(lab: dict[str, Any]) -> None:
        del lab["cluster"], lab["benchmarks"]
        with_machine(template="gone")(lab)
        lab["nodes"][0]["state"] = "absent"

    assert refused(edit=gone) == []

"""Machines under the recording engine: what each kind of VM is made of, and what has to be true before the next."""

import base64
import copy
import json
from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Any

import pulumi
import pytest
import yaml

from components.fabric.fabric import VsphereFabric, VsphereFabricArgs
from components.fabric.inspection import hosts_with_vgpus
from stacks.host_keys import host_key
from tests.components.fabric.lookups import LOOKUPS
from tests.engine import Engine, Recorded
from tests.labs import lab_of, section_of
from tests.messages import states

LAB = section_of("Pulumi.lab-pvrdma.yaml")
CONTROL_PLANE = {"kind": "vsphere_vm", "role": "control_plane", "management_interface": "ens192", "gpus": 0}


def seen_with(edit: Callable[[dict[str, Any]], None], *, keyed: bool = False) -> Recorded:
    content = copy.deepcopy(LAB)
    edit(content)
    lab = lab_of(content)
    fabric = lab.fabric
    assert fabric is not None

    def program() -> None:
        keys = {node.name: host_key("x" * 32, node.address, node.ssh_port) for node in lab.nodes} if keyed else {}
        VsphereFabric("fabric", VsphereFabricArgs(lab=lab, fabric=fabric, password="x", machine_keys=keys))

    def answer(kind: str, _name: str, _inputs: Any) -> dict[str, Any]:
        if kind.endswith(":ReferencedMachines"):
            return {"uuids": {"gpu01": "uuid-1"}}
        return {"device": "vmnic4"} if kind.endswith(":Uplink") else {}

    return Engine(answer, LOOKUPS).run(program)


def vgpu_worker(lab: dict[str, Any]) -> None:
    first = lab["nodes"][0]
    first["vgpu"] = {"profile": "grid_v100d-16c", "count": 2}
    first["gpus"] = 2
    first["machine"] = {**first["machine"], "firmware": "efi", "roce_version": "rocev2", "host": "DC0_C0_H1"}
    del lab["nodes"][1]["vgpu"]


def two_control_planes(lab: dict[str, Any]) -> None:
    del lab["cluster"], lab["benchmarks"]
    shape = {**lab["nodes"][0]["machine"], "memory_mbytes": 16384, "datastore": "management"}
    for number in (1, 2):
        plane = {**CONTROL_PLANE, "name": f"plane0{number}", "address": f"127.0.12.3{number}", "machine": dict(shape)}
        lab["nodes"].append(plane)
    lab["nodes"][2]["machine"]["host"] = "DC0_H0"


@pytest.fixture(scope="module")
def with_vgpu() -> Recorded:
    return seen_with(vgpu_worker)


@pytest.fixture(scope="module")
def with_planes() -> Recorded:
    return seen_with(two_control_planes)


def test_a_vgpu_worker_gets_its_profiles_and_space_for_their_memory(with_vgpu: Recorded) -> None:
    machine = with_vgpu["fabric-machines-gpu01"].inputs
    hardware = with_vgpu["fabric-machines-gpu01-hardware"].inputs

    assert machine["extraConfig"] == {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "64"}
    assert (machine["firmware"], machine["memoryReservationLockedToMax"]) == ("efi", True)
    assert hardware["vgpus"] == ["grid_v100d-16c"] * 2
    assert hardware["hosts"] == ["DC0_C0_H1"], "only there must the profile be offered"
    assert (hardware["roce_version"], hardware["may_restart"]) == ("rocev2", False)


def test_a_worker_without_vgpu_is_watched_for_one(with_vgpu: Recorded) -> None:
    assert with_vgpu["fabric-machines-gpu02-hardware"].inputs["vgpus"] == []
    assert "extraConfig" not in with_vgpu["fabric-machines-gpu02"].inputs


def test_a_pinned_worker_lives_in_the_pool_of_its_host_and_drs_leaves_it_there(with_vgpu: Recorded) -> None:
    machine = with_vgpu["fabric-machines-gpu01"].inputs

    assert (machine["hostSystemId"], machine["resourcePoolId"]) == ("host-1", "resgroup-of-host")
    assert with_vgpu["fabric-machines-gpu01-stays"].inputs["drsEnabled"] is False
    assert len(with_vgpu["fabric-machines-apart"].inputs["virtualMachineIds"]) == 2, "the free one is not put beside it"
    assert "fabric-machines-gpu01-stays" in with_vgpu["fabric-machines-apart"].depends_on
    assert with_vgpu["fabric-machines-placement"].inputs["pinned"] == {"gpu01": "DC0_C0_H1"}


def test_a_pinned_machine_waits_for_the_settings_of_its_own_host_alone(with_vgpu: Recorded) -> None:
    before = with_vgpu["fabric-machines-gpu01"].depends_on

    assert {"fabric-preflight", "fabric-DC0_C0_H1-settings"} <= before
    assert not {"fabric-DC0_C0_H0-settings", "fabric-DC0_C0_H2-settings"} & before


def test_a_control_plane_is_not_made_before_the_preflight_has_passed(with_planes: Recorded) -> None:
    assert "fabric-preflight" in with_planes["fabric-machines-plane01"].depends_on


def test_whatever_is_pinned_to_a_host_of_the_cluster_is_left_there_by_drs() -> None:
    def inside(lab: dict[str, Any]) -> None:
        two_control_planes(lab)
        lab["nodes"][3]["machine"]["host"] = "DC0_C0_H2"
        lab["nodes"][1]["machine"] = {**lab["nodes"][1]["machine"], "host": "DC0_C0_H0", "apart": False}

    seen = seen_with(inside)

    assert seen["fabric-machines-plane02-stays"].inputs["drsEnabled"] is False
    assert seen["fabric-machines-gpu02-stays"].inputs["drsEnabled"] is False
    assert "fabric-machines-plane01-stays" not in seen.resources, "it stands with the management hosts, outside"


def test_the_placement_is_looked_at_when_nothing_moves_any_more(with_planes: Recorded) -> None:
    waits = with_planes["fabric-machines-placement"].depends_on

    assert {"fabric-machines-apart", "fabric-machines-gpu01-hardware", "fabric-machines-plane01-hardware"} <= waits
    assert with_planes["fabric-machines-placement"].inputs["apart"] == ["gpu01", "gpu02"]
    assert "fabric-machines-apart" in with_planes["fabric-machines-gpu01-hardware"].depends_on


@pytest.mark.row("B 130", "B 288-294")
def test_a_control_plane_has_no_high_speed_adapter_and_keeps_no_memory_from_others(with_planes: Recorded) -> None:
    plane = with_planes["fabric-machines-plane01"].inputs

    assert [one["adapterType"] for one in plane["networkInterfaces"]] == ["vmxnet3"]
    assert (plane["memory"], plane["memoryReservation"], plane["memoryReservationLockedToMax"]) == (16384, 0, False)
    assert plane["resourcePoolId"] == "resgroup-of-host", "a host outside the cluster has a pool of its own"


@pytest.mark.row("B 184-188, 244-246", "B 196", "B 248-278")
def test_every_adapter_gets_its_static_address_by_its_place(with_vgpu: Recorded) -> None:
    customised = with_vgpu["fabric-machines-gpu02"].inputs["clone"]["customize"]

    assert [(one["ipv4Address"], one["ipv4Netmask"]) for one in customised["networkInterfaces"]] == [
        ("127.0.12.2", 24),
        ("192.168.0.32", 24),
    ]
    assert customised["linuxOptions"]["hostName"] == "gpu02"


@pytest.mark.row("B 324-346")
def test_free_control_planes_are_kept_apart_as_long_as_there_are_hosts() -> None:
    def free(lab: dict[str, Any]) -> None:
        two_control_planes(lab)
        del lab["nodes"][2]["machine"]["host"]

    rule = seen_with(free)["fabric-machines-planes-apart"].inputs

    assert (rule["mandatory"], len(rule["virtualMachineIds"])) == (False, 2)


def test_several_pvrdma_adapters_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: said.append(text))

    def three(lab: dict[str, Any]) -> None:
        rail = copy.deepcopy(lab["rails"][0])
        rail.update(name="second", host_subnet="192.168.1.0/24", network_name="second", resource_name="second")
        lab["rails"].append(rail)
        del lab["cluster"], lab["benchmarks"]
        switch = copy.deepcopy(lab["fabric"]["switches"][0])
        hosts = [{"name": one["name"]} for one in switch["hosts"]]
        switch.update(name="second", rail="second", port_group="second", hosts=hosts, uplink={"rdma_device": "vmrdma1"})
        lab["fabric"]["switches"].append(switch)
        for number, node in enumerate(lab["nodes"], start=31):
            pf = {**node["pfs"][0], "rail": "second", "interface": "enp6s0", "rdma_device": "rxe1"}
            node["pfs"].append({**pf, "address": f"192.168.1.{number}/24"})
            node["machine"] = {**node["machine"], "several_pvrdma": True}

    seen = seen_with(three)

    assert len(seen["fabric-machines-gpu01"].inputs["networkInterfaces"]) == 3
    assert any(states(text, "gpu01", "2 PVRDMA adapters", "KB 328676") for text in said)


def test_workers_that_are_all_pinned_need_no_rule() -> None:
    def pinned(lab: dict[str, Any]) -> None:
        for number, node in enumerate(lab["nodes"]):
            node["machine"] = {**node["machine"], "host": f"DC0_C0_H{number}"}

    assert "fabric-machines-apart" not in seen_with(pinned).resources


def test_a_vm_gets_its_host_key_before_its_first_start_and_the_state_keeps_it_secret() -> None:
    machine = seen_with(lambda _lab: None, keyed=True)["fabric-machines-gpu02"]
    told = machine.inputs["extraConfig"]
    userdata = base64.b64decode(told["guestinfo.userdata"]).decode()
    wanted = yaml.safe_load(userdata)

    assert userdata.startswith("#cloud-config\n"), "or cloud-init takes it for a script"
    assert wanted["ssh_keys"]["ed25519_public"] == host_key("x" * 32, IPv4Address("127.0.12.2"), 2222).public
    assert "BEGIN OPENSSH PRIVATE KEY" in wanted["ssh_keys"]["ed25519_private"]
    assert wanted["ssh_deletekeys"] is True, "anyone with the template knows its keys"
    assert machine.secrets == {"extraConfig"}
    assert told["guestinfo.userdata.encoding"] == "base64"


def test_cloud_init_leaves_addresses_and_name_to_the_customisation_of_the_clone() -> None:
    told = seen_with(lambda _lab: None, keyed=True)["fabric-machines-gpu01"].inputs["extraConfig"]
    metadata = json.loads(base64.b64decode(told["guestinfo.metadata"]))
    userdata = yaml.safe_load(base64.b64decode(told["guestinfo.userdata"]))

    assert metadata["network"] == {"config": "disabled"}, "or it asks DHCP beside the static address"
    assert userdata["preserve_hostname"] is True
    assert metadata["instance-id"] == "rocelab-127.0.12.1-2222", "a renamed node is the same instance"


def test_without_a_derived_key_a_vm_gets_no_settings(with_planes: Recorded) -> None:
    assert not [key for key in with_planes["fabric-machines-gpu01"].inputs["extraConfig"] if "guestinfo" in key]


def theirs(lab: dict[str, Any]) -> None:
    """The first worker is a VM that is there; it was called otherwise before."""
    first = lab["nodes"][0]
    first.update(formerly="worker01", vgpu={"profile": "grid_v100d-16c", "mmio_gbytes": 64})
    first["machine"] = {"existing": "corp-gpu", "host": "DC0_C0_H1", "roce_version": "rocev2", "cpus": 8}


def test_an_existing_vm_is_compared_with_what_the_lab_declares_and_nothing_is_made_for_it() -> None:
    seen = seen_with(theirs)
    inputs = seen["fabric-machines-existing"].inputs

    assert "fabric-machines-gpu01" not in seen.resources, "no clone"
    assert inputs["machines"] == {
        "gpu01": {
            "path": "DC0/corp-gpu",
            "fields": {
                "cpus": 8,
                "memory_reservation_mbytes": "all",
                "vgpus": "grid_v100d-16c",
                "option.pciPassthru.use64bitMMIO": "TRUE",
                "option.pciPassthru.64bitMMIOSizeGB": "64",
            },
            "rails": ["pvrdma"],
            "roce_version": "rocev2",
            "hosts": ["DC0_C0_H1"],
            "host": "DC0_C0_H1",
            "least_hardware": 13,
            "needs": "PVRDMA works",
        }
    }
    assert inputs["port_groups"].keys() == inputs["networks"].keys() == {"pvrdma"}
    assert "fabric-preflight" in seen["fabric-machines-existing"].depends_on


def test_no_rule_moves_a_machine_that_is_there_and_its_place_is_verified() -> None:
    seen = seen_with(theirs)
    placement = seen["fabric-machines-placement"]

    assert "fabric-machines-gpu01-stays" not in seen.resources
    assert "fabric-machines-apart" not in seen.resources, "one new worker needs no rule"
    assert placement.inputs["apart"] == ["gpu01", "gpu02"]
    assert placement.inputs["ruled"] == ["gpu02"]
    assert placement.inputs["pinned"] == {"gpu01": "DC0_C0_H1"}
    assert "fabric-machines-existing" in placement.depends_on


def test_a_vm_without_declared_fields_gets_no_default() -> None:
    def plain(lab: dict[str, Any]) -> None:
        lab["nodes"][0]["machine"] = {"existing": "corp-gpu"}
        del lab["nodes"][0]["vgpu"]

    inputs = seen_with(plain)["fabric-machines-existing"].inputs

    assert inputs["machines"]["gpu01"]["fields"] == {"memory_reservation_mbytes": "all"}


def test_the_preflight_asks_for_vgpus_where_a_machine_that_is_there_says_to_be() -> None:
    content = copy.deepcopy(LAB)
    for number, node in enumerate(content["nodes"]):
        node["machine"] = {"existing": f"corp-{number}"}
    content["nodes"][0]["machine"]["host"] = "DC0_C0_H1"

    assert hosts_with_vgpus(lab_of(content), ["DC0_C0_H0", "DC0_C0_H1"]) == {"DC0_C0_H1"}


def test_each_wait_for_a_new_machine_has_a_bound_of_its_own() -> None:
    def slow(lab: dict[str, Any]) -> None:
        bounds = {"clone_timeout_minutes": 45, "customize_timeout_minutes": 20, "address_timeout_minutes": 25}
        lab["nodes"][0]["machine"] = {**lab["nodes"][0]["machine"], **bounds}

    seen = seen_with(slow)

    first, second = (seen[f"fabric-machines-{name}"].inputs for name in ("gpu01", "gpu02"))
    assert (first["clone"]["timeout"], first["clone"]["customize"]["timeout"]) == (45, 20)
    assert (second["clone"]["timeout"], second["clone"]["customize"]["timeout"]) == (30, 10)
    assert first["waitForGuestNetTimeout"] == 0, "a simulated machine's power-on has waited for its guest already"

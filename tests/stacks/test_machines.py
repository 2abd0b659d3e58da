"""VMs: every rule of PVRDMA and vGPU that a lab file can break is refused by path, with value and remedy."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from stacks.base import LabError
from stacks.machines import Vgpu
from stacks.nodes import VsphereVm
from stacks.rules.machines import hardware_needed
from tests.labs import lab_of, section_of

Edit = Callable[[dict[str, Any]], object]
LAB = section_of("Pulumi.lab-pvrdma.yaml")
VGPU = {"profile": "grid_v100d-32c"}


def said_of(*edits: Edit) -> str:
    lab = copy.deepcopy(LAB)
    for edit in edits:
        edit(lab)
    try:
        lab_of(lab)
    except LabError as error:
        return str(error)
    return ""


def machine(number: int = 0, **changes: Any) -> Edit:
    return lambda lab: lab["nodes"][number].update(machine={**lab["nodes"][number]["machine"], **changes})


def node(**changes: Any) -> Edit:
    return lambda lab: lab["nodes"][0].update(changes)


def a_bare_metal_peer(lab: dict[str, Any]) -> None:
    peer = {key: value for key, value in lab["nodes"][1].items() if key not in ("kind", "machine", "vgpu")}
    lab["nodes"].append({**copy.deepcopy(peer), "name": "dgx01", "address": "127.0.12.9"})
    lab["nodes"][2]["pfs"][0]["address"] = "192.168.0.39/24"


def one_worker_more_than_hosts(lab: dict[str, Any]) -> None:
    for number in (3, 4, 5):
        more = copy.deepcopy(lab["nodes"][0])
        more.update(name=f"gpu0{number}", address=f"127.0.12.{number}")
        more["pfs"][0]["address"] = f"192.168.0.3{number}/24"
        lab["nodes"].append(more)


def existing(number: int = 0, **fields: Any) -> Edit:
    """The node is a VM that is there, of which this is declared."""
    return lambda lab: lab["nodes"][number].update(machine={"existing": "corp-gpu", **fields})


def bare_host(lab: dict[str, Any]) -> None:
    del lab["fabric"]["switches"][0]["hosts"][2]["vmkernel"]


def test_the_lab_itself_and_a_vgpu_worker_are_taken():
    assert said_of() == ""
    assert said_of(machine(firmware="efi"), node(vgpu=VGPU)) == ""
    assert said_of(machine(roce_version="rocev2", host="DC0_C0_H0")) == ""
    assert said_of(existing()) == ""
    assert said_of(existing(host="DC0_C0_H0", cpus=8, roce_version="rocev2"), existing(1, existing="corp-2")) == ""


CASES: dict[str, tuple[list[Edit], str]] = {
    "hardware of no ESXi": ([machine(hardware_version=16)], "no ESXi has hardware_version 16"),
    "hardware older than PVRDMA": ([machine(hardware_version=12)], "hardware_version: 12 should be greater than or"),
    "a Windows guest": (
        [machine(guest_id="windows9Server64Guest")],
        "guest_id windows9Server64Guest is not a 64-bit Linux",
    ),
    "a 32-bit guest": ([machine(guest_id="ubuntuGuest")], "guest_id ubuntuGuest is not a 64-bit Linux"),
    "a guest that vCenter does not know": ([machine(guest_id="otherGuest64")], "otherGuest64 is not a 64-bit Linux"),
    "less memory reserved than there is": ([machine(memory_reservation_mbytes=1024)], "unknown key"),
    "a second PVRDMA adapter": (
        [
            lambda lab: lab["nodes"][0]["pfs"].append(
                {**lab["nodes"][0]["pfs"][0], "interface": "enp6s0", "rail": "b", "rdma_device": "rxe1"}
            )
        ],
        "2 PVRDMA adapters, but VMware documents one per VM (KB 328676)",
    ),
    "VFs of PVRDMA": (
        [lambda lab: lab["nodes"][0]["pfs"][0].update(vfs=2, driver="igb")],
        "a PVRDMA adapter has no VFs",
    ),
    "PVRDMA as the first adapter": ([machine(management_network="pvrdma")], "is the port group of pvrdma"),
    "a driver of bare metal": (
        [lambda lab: lab["nodes"][0]["pfs"][0].update(driver="mlx5_core")],
        "nodes[0].pfs[0].driver: mlx5_core on a vsphere_vm",
    ),
    "a host without the switch": ([machine(host="DC0_C0_H9")], "DC0_C0_H9 is not a host of roce"),
    "a host that would fall back to TCP": ([bare_host], "gpu01 may run on DC0_C0_H2, which has no vmkernel adapter"),
    "a pinned host that would fall back": (
        [bare_host, machine(host="DC0_C0_H2")],
        "PVRDMA would silently fall back to TCP",
    ),
    "more workers than hosts": ([one_worker_more_than_hosts], "5 workers need a host each"),
    "two workers pinned to one host": (
        [machine(host="DC0_C0_H0"), machine(1, host="DC0_C0_H0")],
        "host DC0_C0_H0 is also that of nodes[0].machine.host",
    ),
    "bare metal on the rail of old hardware": ([a_bare_metal_peer], "17 is too old: pvrdma has bare-metal nodes"),
    "namespaces on old hardware": (
        [machine(hardware_version=15), lambda lab: lab.update(hosts={"rdma_namespaces": "exclusive"})],
        "15 is too old for hosts.rdma_namespaces exclusive",
    ),
    "RoCE v1 over a router": (
        [machine(roce_version="rocev1"), lambda lab: lab["rails"][0].update(host_gateway="192.168.0.1")],
        "rocev1 cannot cross the routers",
    ),
    "RoCE v1 under benchmarks": (
        [machine(roce_version="rocev1")],
        "nodes[0].machine.roce_version: rocev1 cannot be measured",
    ),
    "a switch older than PVRDMA": (
        [lambda lab: lab["fabric"]["switches"][0].update(version="6.0.0")],
        "fabric.switches[0].version",
    ),
    "a machine that is there and cloned at once": (
        [machine(existing="corp-gpu")],
        "template, datastore, disk_gbytes, guest_id, firmware, management_network with existing: corp-gpu",
    ),
    "hardware of a machine that is there": (
        [existing(hardware_version=18)],
        "nodes[0].machine: hardware_version with existing: corp-gpu: an existing VM is not cloned, moved or",
    ),
    "a key that no machine that is there has": (
        [existing(roce_versoin="rocev2")],
        "nodes[0].machine.roce_versoin: unknown key; did you mean roce_version?",
    ),
    "one machine as two nodes": (
        [existing(), existing(1)],
        "nodes[1].machine.existing: machine corp-gpu is also that of nodes[0].machine.existing",
    ),
    "a new machine under the name of one that is there": (
        [existing(existing="gpu02")],
        "nodes[1].name: rocelab would create gpu02, but another node is the existing VM of that name",
    ),
    "a machine that is there on a host that would fall back": (
        [bare_host, existing(host="DC0_C0_H2")],
        "nodes[0].machine.host: gpu01 may run on DC0_C0_H2, which has no vmkernel adapter",
    ),
    "RoCE v1 over a router, of a machine that is there": (
        [existing(roce_version="rocev1"), lambda lab: lab["rails"][0].update(host_gateway="192.168.0.1")],
        "rocev1 cannot cross the routers",
    ),
    "a vGPU without EFI": ([machine(firmware="bios")], "on firmware bios"),
    "GPUs that are not there": ([machine(firmware="efi"), node(vgpu=VGPU, gpus=2)], "gpus 2, but the VM has 1"),
    "a desktop vGPU": (
        [machine(firmware="efi"), node(vgpu={"profile": "grid_v100d-1b"})],
        "is of the B series, which has no CUDA",
    ),
    "a profile that is none": ([machine(firmware="efi"), node(vgpu={"profile": "V100"})], "nodes[0].vgpu.profile"),
    "MMIO space that is no power of two": (
        [machine(firmware="efi"), node(vgpu={**VGPU, "mmio_gbytes": 48})],
        "mmio_gbytes 48 is not a power of two",
    ),
}


@pytest.mark.row("B 380-382")
@pytest.mark.row("B 53", case="a host without the switch")
@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_with_path_and_remedy(name):
    edits, words = CASES[name]

    assert words in said_of(*edits)


def test_roce_v1_is_taken_where_nothing_is_measured():
    assert said_of(machine(roce_version="rocev1"), lambda lab: lab["benchmarks"].update(mode="off")) == ""


@pytest.mark.row("B 350-368")
def test_workers_that_need_not_be_apart_may_outnumber_the_hosts():
    alike: Edit = lambda lab: [one["machine"].update(apart=False) for one in lab["nodes"]]  # noqa: E731  # one edit

    assert said_of(one_worker_more_than_hosts, alike) == ""


def test_bare_metal_is_reached_from_hardware_18_on():
    newer: list[Edit] = [machine(number, hardware_version=18) for number in (0, 1)]

    assert said_of(a_bare_metal_peer, *newer) == ""


@pytest.mark.parametrize(
    ("vgpu", "gbytes"),
    [
        (Vgpu(profile="grid_v100d-16c"), 64),
        (Vgpu(profile="grid_v100d-32c", count=2), 128),
        (Vgpu(profile="grid_a100-4-20c"), 64),
        (Vgpu(profile="nvidia_h100xm-80c", count=4), 512),
        (Vgpu(profile="grid_v100d-32q", mmio_gbytes=256), 256),
    ],
)
def test_the_mmio_space_holds_all_frame_buffers(vgpu, gbytes):
    assert vgpu.mmio_space_gbytes == gbytes


def needed(*edits: Edit) -> tuple[int, str]:
    content = copy.deepcopy(LAB)
    for edit in edits:
        edit(content)
    lab = lab_of(content)
    first = lab.nodes[0]
    assert isinstance(first, VsphereVm)
    return hardware_needed(first, lab.nodes, lab.hosts)


def test_the_hardware_that_a_machine_needs_follows_from_whom_it_talks_to():
    def exclusive(lab: dict[str, Any]) -> None:
        lab["hosts"] = {"rdma_namespaces": "exclusive"}
        del lab["cluster"], lab["benchmarks"]

    assert needed(existing()) == (13, "PVRDMA works")
    assert needed(existing(), exclusive)[0] == 17
    assert needed(existing(), a_bare_metal_peer, machine(1, hardware_version=18))[0] == 18

"""VMs that rocelab did not create: what is compared, and what a difference says."""

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from pyVmomi import vim

from components.fabric import login, referenced_machines
from components.fabric.referenced_machines import ReferencedMachines, ReferencedMachinesInputs
from components.fabric.vms.existing import DeclaredMachine, ExistingVm, differences
from components.provider import log
from components.provider.base import UNKNOWN, ProviderConfig
from stacks.base import LabError
from tests.messages import states, stating

GROUPS = {"rail-a": "DC0/rails/rail-a-hosts"}
NETWORKS = {"rail-a": "dvportgroup-1"}
PORT = vim.dvs.PortConnection(portgroupKey="dvportgroup-1")
BACKING = vim.vm.device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=PORT)
ADAPTER = vim.vm.device.VirtualVmxnet3Vrdma(key=1, backing=BACKING, deviceProtocol="rocev2")
DECLARED = {
    "path": "DC0/corp-gpu",
    "fields": {"cpus": 4, "memory_reservation_mbytes": "all"},
    "rails": ("rail-a",),
    "roce_version": "rocev2",
    "hosts": ("esx1", "esx2"),
    "least_hardware": 13,
    "needs": "PVRDMA works",
}
FACTS = {
    "config.uuid": "uuid-1",
    "config.version": "vmx-17",
    "config.firmware": "bios",
    "config.guestId": "ubuntu64Guest",
    "config.hardware.numCPU": 4,
    "config.hardware.memoryMB": 2048,
    "config.memoryReservationLockedToMax": True,
    "config.hardware.device": [ADAPTER],
}


def vm(host: str = "esx1", **facts: Any) -> ExistingVm:
    return ExistingVm({**FACTS, **{f"config.{key.replace('__', '.')}": value for key, value in facts.items()}}, host)


def faults(there: ExistingVm, **declared: Any) -> list[str]:
    machine = DeclaredMachine.model_validate({**DECLARED, **declared})
    return list(differences(there, machine, NETWORKS, GROUPS))


def test_a_vm_that_is_as_declared_has_no_difference() -> None:
    assert faults(vm()) == []


UNRESERVED: dict[str, Any] = {
    "memoryReservationLockedToMax": False,
    "memoryAllocation": vim.ResourceAllocationInfo(reservation=512),
}


@pytest.mark.parametrize(
    ("there", "declared", "facts"),
    [
        (vm(hardware__numCPU=2), {}, ["cpus 2", "should have 4", "Edit Settings, CPU"]),
        (vm(**UNRESERVED), {}, ["memory_reservation_mbytes 512", "'all'", "Reserve all guest memory"]),
        (vm(hardware__device=[]), {}, ["PVRDMA", "rail-a-hosts", "rail-a", "Edit Settings, Add new device"]),
        (vm(), {"roce_version": "rocev1"}, ["rail-a-hosts", "rocev2", "rocev1", "Device Protocol"]),
        (vm(), {"fields": {"option.pciPassthru.x": "TRUE"}}, ["pciPassthru.x", "'TRUE'", "Configuration Parameters"]),
        (vm(firmware="efi"), {"fields": {"vgpus": "grid_v100d-8c"}}, ["vgpus ''", "grid_v100d-8c", "PCI Device"]),
        (vm("esx3"), {}, ["esx3", "rails", "esx1 or esx2"]),
        (vm("esx1"), {"host": "esx2"}, ["esx1", "machine.host", "esx2"]),
        (vm(), {"least_hardware": 18}, ["virtual hardware 17", "PVRDMA works", 18]),
        (vm(guestId="windows9Server64Guest"), {}, ["windows9Server64Guest", "64-bit Linux"]),
        (vm(template=True), {}, ["template", "machine.template"]),
    ],
)
def test_a_difference_names_the_field_both_values_and_the_place(
    there: ExistingVm, declared: dict[str, Any], facts: list[Any]
) -> None:
    [fault] = faults(there, **declared)

    assert states(fault, *facts)


def test_a_vgpu_needs_efi() -> None:
    assert any(states(fault, "bios", "efi") for fault in faults(vm(), fields={"vgpus": "grid_v100d-8c"}))


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> dict[str, ExistingVm]:
    """The VMs of a vCenter by path."""
    vms: dict[str, ExistingVm] = {}

    def by_name(_vcenter: object, path: str) -> ExistingVm:
        if path not in vms:
            raise LabError(f"{path}: fabric.user sees no VM of that name")
        return vms[path]

    monkeypatch.setattr(login, "configured_session", lambda _config: nullcontext())
    monkeypatch.setattr(referenced_machines, "by_name", by_name)
    monkeypatch.setattr(referenced_machines, "find", lambda *_: SimpleNamespace(ids={"moid": "dvportgroup-1"}))
    return vms


MACHINES = ReferencedMachines(ProviderConfig({}))


def inputs(networks: Any = NETWORKS) -> ReferencedMachinesInputs:
    machines = {"gpu01": DECLARED, "gpu02": {**DECLARED, "path": "DC0/other"}}
    return ReferencedMachinesInputs.model_validate({"machines": machines, "port_groups": GROUPS, "networks": networks})


def test_one_refusal_has_the_differences_of_all_vms(there: dict[str, ExistingVm]) -> None:
    there["DC0/corp-gpu"] = vm(hardware__numCPU=2)

    [failure] = asyncio.run(MACHINES.check(None, inputs()))

    assert states(failure.reason, "DC0/corp-gpu", "cpus", "DC0/other", "no VM of that name", "vCenter")
    with pytest.raises(LabError, check=stating("DC0/corp-gpu", "DC0/other")):
        asyncio.run(MACHINES.create(inputs()))


def test_adapters_wait_for_a_port_group_that_this_run_creates(
    there: dict[str, ExistingVm], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise LabError("switch rails has no port group rail-a-hosts")

    said: list[str] = []
    monkeypatch.setattr(log, "warn", said.append)
    monkeypatch.setattr(referenced_machines, "find", missing)
    there |= {"DC0/corp-gpu": vm(hardware__device=[]), "DC0/other": vm()}

    assert asyncio.run(MACHINES.check(None, inputs(UNKNOWN))) == []
    assert states(said[0], "rail-a-hosts", "PVRDMA", "gpu01, gpu02")
    with pytest.raises(LabError, check=stating("DC0/corp-gpu", "rail-a-hosts")):
        asyncio.run(MACHINES.create(inputs()))


def test_a_change_by_hand_is_drift_that_the_next_run_refuses(there: dict[str, ExistingVm]) -> None:
    there |= {"DC0/corp-gpu": vm(), "DC0/other": vm()}
    state = asyncio.run(MACHINES.create(inputs()))
    assert state.uuids == {"gpu01": "uuid-1", "gpu02": "uuid-1"}
    assert asyncio.run(MACHINES.diff(state, inputs())) == []

    there["DC0/other"] = vm(hardware__numCPU=2)
    drifted = asyncio.run(MACHINES.read(state))

    assert [states(fault, "DC0/other", "cpus") for fault in drifted.differences] == [True]
    assert asyncio.run(MACHINES.diff(drifted, inputs())) == ["differences"]
    with pytest.raises(LabError):
        asyncio.run(MACHINES.update(drifted, inputs()))

"""The hardware of a VM that has to be off for the change, and may not come on again."""

import asyncio
from contextlib import nullcontext

import pytest

from components.fabric import login, machine_hardware
from components.fabric.machine_hardware import HardwareInputs, HardwareState, MachineHardware
from components.fabric.vms import hardware
from components.fabric.vms.hardware import Hardware, HardwareChange, put
from components.provider.base import ProviderConfig
from stacks.base import LabError

PROFILE = "grid_a100-40c"
INPUTS = HardwareInputs(
    name="gpu01",
    machine="uuid",
    hosts=("esx1",),
    vgpus=(PROFILE,),
    roce_version="",
    may_restart=True,
    guest_s=0,
)
BEFORE = HardwareState(**{**dict(INPUTS), "vgpus": ()}, now=Hardware(vgpus=(), roce_version=""))


class Machine:
    """A running VM on a host whose GPUs are taken until there is room."""

    def __init__(self) -> None:
        self.is_on = True
        self.has_room = False
        self.vgpus: tuple[str, ...] = ()
        self.refusal = ""

    def turn_off(self, *_: object) -> None:
        self.is_on = False

    def turn_on(self, *_: object, **__: object) -> None:
        if not self.has_room:  # vim.fault.InsufficientGraphicsResourcesFault
            raise LabError("gpu01: cannot power it on: Insufficient graphics resources")
        self.is_on = True

    def reconfigure(self, *_: object) -> None:
        if self.refusal:
            raise LabError(self.refusal)
        self.vgpus = INPUTS.vgpus

    def observe(self, *_: object) -> Hardware:
        return Hardware(vgpus=self.vgpus, roce_version="")

    def changes(self, _: object, declared: Hardware) -> list[str]:
        return [] if self.vgpus == declared.vgpus else ["add"]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """In place of the functions that call the vCenter: the simulated one never lacks GPUs."""
    vm = Machine()
    for module in (hardware, machine_hardware):
        monkeypatch.setattr(module, "find", lambda *_: vm)
        monkeypatch.setattr(module, "is_on", lambda *_: vm.is_on)
        monkeypatch.setattr(module, "observe", vm.observe)
    monkeypatch.setattr(hardware, "_devices", lambda *_: [])
    monkeypatch.setattr(hardware, "device_changes", vm.changes)
    monkeypatch.setattr(hardware.vim.vm, "ConfigSpec", lambda **_: None)
    monkeypatch.setattr(hardware, "turn_off", vm.turn_off)
    monkeypatch.setattr(hardware, "turn_on", vm.turn_on)
    monkeypatch.setattr(hardware, "finish", vm.reconfigure)
    monkeypatch.setattr(login, "configured_session", lambda _: nullcontext(None))
    return vm


@pytest.mark.parametrize("refreshed", [False, True])
def test_a_vm_that_could_not_be_powered_on_again_is_powered_on_by_the_next_run(machine, refreshed):
    resource = MachineHardware(ProviderConfig({}))
    with pytest.raises(LabError, match="Insufficient graphics") as failed:
        asyncio.run(resource.update(BEFORE, INPUTS))
    assert not machine.is_on

    machine.has_room = True
    state = failed.value.state
    if refreshed:
        state = asyncio.run(resource.read(state))
    assert asyncio.run(resource.diff(state, INPUTS)) == ["left_off"]
    state = asyncio.run(resource.update(state, INPUTS))

    assert machine.is_on
    assert asyncio.run(resource.diff(state, INPUTS)) == []


def test_a_vm_whose_change_is_refused_runs_again_with_its_old_hardware(machine):
    machine.has_room, machine.refusal = True, "gpu01: the virtual machine's configuration is invalid"

    with pytest.raises(LabError, match="configuration is invalid"):
        put(None, "uuid", "gpu01", INPUTS.hardware, HardwareChange(new=False, may_restart=True, guest_s=0))

    assert machine.is_on
    assert machine.vgpus == ()

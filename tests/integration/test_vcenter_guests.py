"""What the simulated vCenter does with the power of a VM that has a guest; the guest is a script of the test."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyVmomi import vim

from components.fabric.vcenter.client import VCenter, session
from components.fabric.vcenter.esxcli import esxcli
from components.fabric.vcenter.power import finish, is_on
from components.fabric.vcenter.properties import Found, collect
from components.fabric.vms.hardware import find
from simulator.vcenter.control import Control
from stacks.base import LabError
from tests.integration.conftest import require_engine
from tests.integration.vcenter import machine_named, running
from tests.messages import stating

pytestmark = [pytest.mark.sim, pytest.mark.whole]

ADDRESS = "127.0.12.77"
SECRET = "canary-of-the-guest"
KEEPER = """#!/bin/sh
order=$(cat)
echo "$order" >> {folder}/orders
case $order in *'"on"'*) while [ -e {folder}/wait ]; do sleep 0.05; done; esac
if [ -e {folder}/fail ]; then echo 'no disk space for gpu77' >&2; exit 1; fi
case $order in *'"on"'*) echo '{{"address": "{address}"}}';; *) echo '{{}}';; esac
"""


@dataclass
class Scene:
    """A vCenter with one VM that has an address, and a function that gives it a guest."""

    vcenter: VCenter
    machine: vim.VirtualMachine
    folder: Path

    def powers(self) -> list[str]:
        """What the guest's keeper was asked for."""
        orders = self.folder / "orders"
        return [json.loads(line)["power"] for line in orders.read_text().splitlines()] if orders.exists() else []

    def shown(self) -> Found:
        paths = ["guest.ipAddress", "guest.toolsRunningStatus", "runtime.powerState"]
        return collect(self.vcenter.content, [self.machine], paths)[0]

    def turn_on(self) -> None:
        finish(self.vcenter, self.machine.PowerOnVM_Task, "vm", "power it on")

    def turn_off(self) -> None:
        finish(self.vcenter, self.machine.PowerOffVM_Task, "vm", "power it off")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    require_engine()
    keeper = tmp_path / "keeper"
    keeper.write_text(KEEPER.format(folder=tmp_path, address=ADDRESS))
    keeper.chmod(0o755)
    control = tmp_path / "control.sock"
    with running(tmp_path, f"-control={control}", str(keeper)) as endpoint, session(endpoint) as vcenter:
        machine = machine_named(vcenter.host("DC0_C0_H0"), "DC0_C0_RP0_VM0")
        found = Scene(vcenter, machine, tmp_path)
        found.turn_off()
        given = vim.vm.customization.FixedIp(ipAddress=ADDRESS)
        adapter = vim.vm.customization.AdapterMapping(
            adapter=vim.vm.customization.IPSettings(ip=given, subnetMask="255.255.255.0")
        )
        name = vim.vm.customization.FixedName(name="gpu77")
        customised = vim.vm.customization.Specification(
            identity=vim.vm.customization.LinuxPrep(hostName=name, domain="lab"),
            globalIPSettings=vim.vm.customization.GlobalIPSettings(),
            nicSettingMap=[adapter],
        )
        finish(vcenter, lambda: machine.CustomizeVM_Task(customised), "vm", "customise it")
        told = vim.vm.ConfigSpec(
            extraConfig=[
                vim.option.OptionValue(key="guestinfo.userdata", value=SECRET),
                vim.option.OptionValue(key="other.setting", value="not for the guest"),
            ]
        )
        finish(vcenter, lambda: machine.ReconfigVM_Task(told), "vm", "tell it")
        yield found


def test_a_machine_that_has_no_address_has_no_guest(scene: Scene) -> None:
    assert scene.powers() == [], "the template was powered off"


def test_power_on_ends_when_the_guest_answers_and_shows_its_address(scene: Scene) -> None:
    (scene.folder / "wait").touch()
    task = scene.machine.PowerOnVM_Task()
    state = collect(scene.vcenter.content, [task], ["info.state"])[0]["info.state"]
    assert str(state) == "running"
    assert scene.shown()["guest.toolsRunningStatus"] == "guestToolsNotRunning", "it can be read meanwhile"
    (scene.folder / "wait").unlink()

    finish(scene.vcenter, lambda: task, "vm", "power it on")

    assert scene.shown()["guest.ipAddress"] == ADDRESS
    assert scene.shown()["guest.toolsRunningStatus"] == "guestToolsRunning"
    order = json.loads((scene.folder / "orders").read_text())
    assert order == {
        "power": "on",
        "name": "DC0_C0_RP0_VM0",
        "address": ADDRESS,
        "guestinfo": {"guestinfo.userdata": SECRET},
    }


def test_the_simulator_learns_which_machines_are_on(scene: Scene) -> None:
    control = Control(scene.folder / "control.sock")
    scene.turn_on()
    on = [(guest.name, guest.address, dict(guest.guestinfo)) for guest in control.guests()]
    scene.turn_off()

    assert on == [("DC0_C0_RP0_VM0", ADDRESS, {"guestinfo.userdata": SECRET})]
    assert control.guests() == []


def test_a_guest_that_does_not_start_leaves_the_machine_off_and_says_why(scene: Scene) -> None:
    (scene.folder / "fail").touch()

    with pytest.raises(LabError, check=stating("guest", "exit status 1", "gpu77")):
        scene.turn_on()

    assert not is_on(scene.vcenter, scene.machine)
    (scene.folder / "fail").unlink()
    scene.turn_on()
    assert is_on(scene.vcenter, scene.machine)


def test_a_guest_ends_before_its_machine_is_off_however_it_is_asked(scene: Scene) -> None:
    scene.turn_on()
    scene.turn_off()
    assert scene.shown()["guest.toolsRunningStatus"] == "guestToolsNotRunning"
    scene.turn_on()
    scene.machine.ShutdownGuest()

    deadline = time.monotonic() + 60
    while is_on(scene.vcenter, scene.machine):
        assert time.monotonic() < deadline, "its guest was shut down, and it is still on"
        time.sleep(0.05)
    assert scene.powers() == ["on", "off", "on", "off"]


def test_machines_are_found_by_uuid_beside_objects_that_are_no_part_of_the_inventory(scene: Scene) -> None:
    host = scene.vcenter.host("DC0_C0_H0")
    esxcli(host, "DC0_C0_H0", "software vib list")  # a host's esxcli is an object from then on
    uuid = collect(scene.vcenter.content, [scene.machine], ["config.uuid"])[0]["config.uuid"]

    # a library that looks through everything, in no order, breaks at that object in most of twenty tries
    assert {find(scene.vcenter, uuid) for _ in range(20)} == {scene.machine}
    assert find(scene.vcenter, "00000000-0000-0000-0000-000000000000") is None

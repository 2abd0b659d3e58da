"""Who runs with PVRDMA on a host, while machines come, move and go."""

import pytest
from pyVmomi import vim, vmodl

from components.fabric.vcenter import client
from components.fabric.vcenter.client import VCenter

HOST, OTHER = vim.HostSystem("host-1"), vim.HostSystem("host-2")
ADAPTER = vim.vm.device.VirtualVmxnet3Vrdma()
PLAIN = vim.vm.device.VirtualVmxnet3()


def a_machine(name, *, host=HOST, power="poweredOn", device=ADAPTER):
    values = {"name": name, "runtime.host": host, "runtime.powerState": power, "config.hardware.device": [device]}
    return {vim.VirtualMachine(f"vm-{name}"): values}


class Told(VCenter):
    def __init__(self):
        self.content = None


def running(monkeypatch, listed, there):
    """What is told of a host whose list has machines that are not all there any more."""

    def collect(_content, objects, _paths):
        for one in objects:
            if one not in there:
                raise vmodl.fault.ManagedObjectNotFound(obj=one)
        return [there[one] for one in objects]

    monkeypatch.setattr(client, "collect", collect)
    monkeypatch.setattr(client, "known", lambda _host, _path: list(listed))
    return Told().running_pvrdma_vms(HOST)


def test_machines_that_are_off_elsewhere_or_without_pvrdma_do_not_count(monkeypatch):
    there = {
        **a_machine("b"),
        **a_machine("a"),
        **a_machine("off", power="poweredOff"),
        **a_machine("moved", host=OTHER),
        **a_machine("plain", device=PLAIN),
    }

    assert running(monkeypatch, there, there) == ["a", "b"]


def test_machines_that_are_deleted_while_we_ask_are_left_out(monkeypatch):
    gone = {**a_machine("gone1"), **a_machine("gone2")}
    there = a_machine("stays")

    assert running(monkeypatch, {**gone, **there}, there) == ["stays"]


def test_another_object_that_is_gone_is_no_machine_of_the_host(monkeypatch):
    def collect(_content, _objects, _paths):
        raise vmodl.fault.ManagedObjectNotFound(obj=OTHER)

    monkeypatch.setattr(client, "collect", collect)
    monkeypatch.setattr(client, "known", lambda _host, _path: [])

    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        Told().running_pvrdma_vms(HOST)

"""RDMA devices of hosts: told in their description or by esxcli, and never taken for none where nobody answers."""

from types import SimpleNamespace

import pytest
from pyVmomi import vim

from components.fabric.vcenter import client, nics
from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.nics import RdmaDevice, RdmaDevices, needs_esxcli, rdma_by_esxcli, rdma_in
from stacks.base import LabError
from tests.messages import states

UPLINK = "key-vim.host.PhysicalNic-vmnic4"
OF_6_7 = {
    "Name": "vmrdma0",
    "Driver": "nmlx5_rdma",
    "State": "Active",
    "MTU": "1024",
    "Speed": "100 Gbps",
    "PairedUplink": "vmnic4",
    "Description": "MT27800 Family [ConnectX-5]",
}


def a_network(*devices):
    nic = vim.host.PhysicalNic(key=UPLINK, device="vmnic4", mac="ec:0d:9a:00:00:00", pci="0000:3b:00.0")
    return vim.host.NetworkInfo(pnic=[nic], rdmaDevice=list(devices))


def a_device(uplink=UPLINK, state="active"):
    return vim.host.RdmaDevice(
        key="key-vim.host.RdmaDevice-vmrdma0",
        device="vmrdma0",
        backing=vim.host.RdmaDevice.PnicBacking(pairedUplink=uplink),
        connectionInfo=vim.host.RdmaDevice.ConnectionInfo(state=state, mtu=4096, speedInMbps=100_000),
    )


def answered(monkeypatch, *rows):
    def answer(_host, place, command):
        assert (place, command) == ("esx1", "rdma device list")
        if rows and isinstance(rows[0], LabError):
            raise rows[0]
        return list(rows)

    monkeypatch.setattr(nics, "esxcli", answer)
    return rdma_by_esxcli(None, "esx1")


@pytest.mark.parametrize(
    ("version", "devices", "expected"),
    [
        ("6.5.0", [], True),
        ("6.7.0", [], True),
        ("", [], True),
        ("7.0.0", [], False),
        ("8.0.2", [], False),
        ("10.0.0", [], False),
        ("6.7.0", [a_device()], False),
    ],
)
def test_esxcli_is_asked_where_the_description_cannot_tell_and_nowhere_else(version, devices, expected):
    assert needs_esxcli(version, a_network(*devices)) is expected


def test_a_described_device_is_found_by_its_nic_and_one_without_is_left_out():
    assert rdma_in(a_network(a_device())).of == {"vmnic4": RdmaDevice(name="vmrdma0", state="active")}
    assert rdma_in(a_network(a_device(uplink="key-vim.host.PhysicalNic-vmnic9"))) == RdmaDevices()


@pytest.mark.parametrize("spelled", ["PairedUplink", "Paired Uplink", "pairedUplink"])
def test_a_listed_device_is_found_by_its_nic_however_the_host_spells_it(monkeypatch, spelled):
    row = {spelled if key == "PairedUplink" else key: value for key, value in OF_6_7.items()}

    assert answered(monkeypatch, row).of == {"vmnic4": RdmaDevice(name="vmrdma0", state="active")}


def test_esxi_6_5_reports_no_speed_but_all_that_matters(monkeypatch):
    row = {key: value for key, value in OF_6_7.items() if key != "Speed"} | {"State": "Down"}

    assert answered(monkeypatch, row).of["vmnic4"].state == "down"


@pytest.mark.parametrize("rows", [[], [{}]])
def test_a_list_without_devices_says_that_there_is_none(monkeypatch, rows):
    assert answered(monkeypatch, *rows) == RdmaDevices()


def test_a_device_without_a_nic_belongs_to_none(monkeypatch):
    found = answered(monkeypatch, OF_6_7, OF_6_7 | {"Name": "vmrdma1", "PairedUplink": ""})

    assert (found.of.keys(), found.unknown) == ({"vmnic4"}, "")


def test_a_table_of_other_fields_does_not_count_as_no_device(monkeypatch):
    found = answered(monkeypatch, {"Device": "vmrdma0", "Uplink": "vmnic4"})
    assert (found.of, states(found.unknown, "esxcli rdma device list", "Paired Uplink", "Device, Uplink")) == ({}, True)


@pytest.mark.row("B 57")
def test_a_refusal_does_not_count_as_no_device(monkeypatch):
    found = answered(monkeypatch, LabError("esx1: cannot run esxcli rdma device list: no privilege"))

    assert (found.of, found.unknown) == ({}, "cannot run esxcli rdma device list: no privilege")


def test_each_host_is_asked_once_a_session_and_one_that_refused_too(monkeypatch):
    asked_of = []

    def answer(host, name):
        asked_of.append((host, name))
        return RdmaDevices(unknown="refused") if host == "second" else RdmaDevices()

    monkeypatch.setattr(client, "rdma_by_esxcli", answer)
    vcenter = VCenter(SimpleNamespace(RetrieveContent=lambda: None))
    for host in ("first", "second", "first", "second"):
        found = vcenter.rdma(host, host, "6.7.0", a_network())

    assert found.unknown == "refused"
    assert asked_of == [("first", "first"), ("second", "second")]
    assert vcenter.rdma("third", "third", "8.0.2", a_network(a_device())).of.keys() == {"vmnic4"}
    assert len(asked_of) == 2

"""Where machines run, by what a vCenter tells of them, and what of a host's counters cannot be used."""

from types import SimpleNamespace

import pytest
from pyVmomi import vim

from components.fabric import hcas
from components.fabric.vcenter.nics import Nic
from components.fabric.vms import spread
from stacks.base import LabError
from stacks.fabric import Fabric
from tests.messages import states, stating

FABRIC = Fabric.model_validate(
    {
        "vcenter": "vc.lab",
        "user": "rocelab",
        "datacenter": "dc",
        "cluster": "c",
        "switches": [
            {
                "name": "roce",
                "rail": "a",
                "uplink": {"rdma_device": "vmrdma1"},
                "port_group": "a",
                "hosts": [{"name": "esx1"}, {"name": "esx2", "uplink": {"name": "vmnic9"}}],
            }
        ],
    }
)
MACHINES = {"gpu01": ["esx1"], "gpu02": ["esx2"], "twice": ["esx1", "esx2"], "nowhere": [None]}
"""Hosts of all machines of each name."""
NICS = [
    Nic(
        name=f"vmnic{number}",
        mac=f"00:00:00:00:00:0{number}",
        driver="nmlx5_core",
        speed_mbit=100_000,
        rdma_device=rdma,
    )
    for number, rdma in ((4, "vmrdma0"), (5, "vmrdma1"), (9, "vmrdma2"))
]


@pytest.fixture
def vcenter(monkeypatch):
    def all_of(_content, kind, _paths):
        if kind is vim.HostSystem:
            return [(name, {"name": name}) for name in ("esx1", "esx2")]
        return [
            (name, {"name": name} | ({"runtime.host": host} if host else {}))
            for name, hosts in MACHINES.items()
            for host in hosts
        ]

    monkeypatch.setattr(spread, "collect_all", all_of)
    return SimpleNamespace(content=None, host=lambda name: name, nics=lambda _: NICS)


def looked(vcenter, monkeypatch, row, names=("gpu01",)):
    asked = []

    def answer(_host, place, command, **options):
        asked.append((place, command, options))
        if isinstance(row, LabError):
            raise row
        return [row]

    monkeypatch.setattr(hcas, "esxcli", answer)
    return hcas.VcenterHcas(vcenter, FABRIC).look([("a", name) for name in names]), asked


def test_a_name_of_two_vms_or_of_one_without_a_host_is_unknown(vcenter):
    assert hcas.machines_on_hosts(vcenter, MACHINES) == {"gpu01": "esx1", "gpu02": "esx2"}


def test_each_host_is_asked_once_for_the_device_of_its_own_uplink(vcenter, monkeypatch):
    row = {"BytesSent": "10", "BytesReceived": "20"}
    found, asked = looked(vcenter, monkeypatch, row, names=("gpu01", "gpu02", "gpu01"))

    assert [(place, options) for place, _, options in asked] == [
        ("esx1", {"device": "vmrdma1"}),
        ("esx2", {"device": "vmrdma2"}),
    ]
    assert {command for _, command, _ in asked} == {"rdma device stats get"}
    assert (found["a", "gpu02"].device, found["a", "gpu02"].sent_bytes, found["a", "gpu02"].why) == ("vmrdma2", 10, "")


def test_a_table_without_the_two_counters_is_unknown_and_names_what_it_has(vcenter, monkeypatch):
    found, _ = looked(vcenter, monkeypatch, {"PacketsSent": "1", "BytesSent": "5"})
    seen = found["a", "gpu01"]

    assert (seen.sent_bytes, seen.received_bytes) == (5, None)
    assert states(seen.why, "Bytes received", "BytesSent, PacketsSent")


def test_a_host_that_refuses_the_command_is_unknown_and_still_a_place(vcenter, monkeypatch):
    found, _ = looked(vcenter, monkeypatch, LabError("esx1: no such command"))
    seen = found["a", "gpu01"]

    assert (seen.host, seen.sent_bytes, seen.why) == ("esx1", None, "esx1: no such command")


def test_a_vcenter_that_breaks_off_is_one_reason_for_all(vcenter, monkeypatch):
    def broken(*_):
        raise ConnectionResetError("reset by peer")

    monkeypatch.setattr(spread, "collect_all", broken)

    with pytest.raises(LabError, check=stating("vCenter", "reset by peer")):
        hcas.VcenterHcas(vcenter, FABRIC).look([("a", "gpu01")])

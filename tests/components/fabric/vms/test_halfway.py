"""What a run has left half made: what is waited for, and what is said of it."""

from types import SimpleNamespace

import pytest
from pyVmomi import vim

from components.fabric.joining import left, taken
from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.nics import Nic
from components.fabric.vms import halfway
from components.fabric.vms.halfway import refuse_unready, remedy
from stacks.base import LabError
from stacks.fabric import DistributedSwitch
from stacks.machines import Machine
from tests.messages import states, stating

MACHINE = Machine(
    template="ubuntu", datastore="nvme", cpus=2, memory_mbytes=4096, disk_gbytes=40, management_network="VM Network"
)
VM = vim.VirtualMachine("vm-1")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "error cloning virtual machine: timeout waiting for clone to complete",
            ["template ubuntu", "datastore nvme", "machine.clone_timeout_minutes", 30],
        ),
        (
            'Virtual machine customization failed on "/DC0/vm/gpu01":\n\ntimeout waiting for customization to complete',
            ["machine.customize_timeout_minutes", 10],
        ),
        ("timeout waiting for an available IP address", ["machine.address_timeout_minutes", 15]),
        (
            'cannot locate virtual machine or template with UUID "4216"',
            ["template ubuntu", "restore"],
        ),
        ("The name 'gpu01' already exists.", ["nodes.gpu01.machine: {existing: gpu01}"]),
    ],
)
def test_the_remedy_names_the_node_the_cause_and_its_field(said, told):
    text = remedy("gpu01", MACHINE, [f"1 error occurred:\n\t* {said}"])

    assert text.startswith("nodes.gpu01: ")
    assert states(text, *told)


def test_an_error_that_says_enough_gets_no_second_one():
    assert remedy("gpu01", MACHINE, ["insufficient disk space on datastore nvme"]) == ""


def unready(monkeypatch, *, status, words="", there=VM, on=True):
    vcenter = SimpleNamespace(say=lambda _: None)
    monkeypatch.setattr(halfway, "find", lambda _vcenter, _uuid: there)
    monkeypatch.setattr(halfway, "is_on", lambda _vcenter, _machine: on)
    monkeypatch.setattr(halfway, "_customised", lambda _vcenter, _machine: (status, words))
    refuse_unready(vcenter, "4216", "gpu01", 0)


@pytest.mark.parametrize("status", ["", "TOOLSDEPLOYPKG_IDLE", "TOOLSDEPLOYPKG_SUCCEEDED"])
def test_a_guest_that_is_customised_or_was_never_to_be_is_ready(monkeypatch, status):
    unready(monkeypatch, status=status)


def test_a_guest_whose_vm_is_gone_is_left_to_the_next_step(monkeypatch):
    unready(monkeypatch, status="TOOLSDEPLOYPKG_FAILED", there=None)


def test_a_vm_that_never_started_is_left_to_the_step_that_starts_it(monkeypatch):
    unready(monkeypatch, status="TOOLSDEPLOYPKG_PENDING", on=False)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("TOOLSDEPLOYPKG_RUNNING", ["0 s"]),
        ("TOOLSDEPLOYPKG_PENDING", ["0 s"]),
        ("TOOLSDEPLOYPKG_FAILED", ["no perl", "toolsDeployPkg.log"]),
    ],
)
def test_a_guest_that_is_not_customized_is_reported_with_the_remedy(monkeypatch, status, told):
    with pytest.raises(LabError, check=stating("gpu01", *told, "delete gpu01", "pulumi up --refresh")):
        unready(monkeypatch, status=status, words="no perl")


class Hosts(VCenter):
    """Hosts by name: what their NIC vmnic4 is the uplink of."""

    def __init__(self, uplink_of):
        self.uplink_of = uplink_of

    def host(self, name):
        return name

    def nics(self, host):
        return [
            Nic(name="vmnic4", mac="m", driver="d", speed_mbit=1, rdma_device="vmrdma0", switch=self.uplink_of[host])
        ]

    def uplinks(self, host, switch):
        return ("vmnic4",) if self.uplink_of[host] == switch else ()


SWITCH = DistributedSwitch.model_validate(
    {
        "name": "rdma",
        "rail": "rail-a",
        "uplink": {"rdma_device": "vmrdma0"},
        "port_group": "group",
        "hosts": [{"name": "esx01", "vmkernel": {"existing": "vmk0"}}, {"name": "esx02"}, {"name": "esx03"}],
    }
)


def test_of_the_hosts_of_a_switch_only_those_are_named_whose_nic_another_has():
    said = list(taken(Hosts({"esx01": "rdma", "esx02": "vSwitch1", "esx03": ""}), SWITCH))

    assert len(said) == 1
    assert states(said[0], "esx02", "vmnic4", "uplink of vSwitch1", "in use")


@pytest.mark.parametrize(("uplink_of", "named"), [("rdma", 0), ("", 1)])
def test_a_host_is_reported_off_its_switch_only_if_it_is(uplink_of, named):
    said = list(left(Hosts({"esx01": uplink_of}), SWITCH, "esx01"))

    assert [states(one, "esx01", "rdma") for one in said] == [True] * named

"""Choosing an uplink: what is in doubt is refused with the list."""

from dataclasses import replace

import pytest

from components.fabric.vcenter.nics import Nic, choose
from stacks.base import LabError
from stacks.fabric import UplinkChoice
from tests.messages import stating

NICS = [
    Nic(name="vmnic0", mac="00:50:56:10:00:00", driver="ixgben", speed_mbit=10_000, switch="vSwitch0"),
    Nic(name="vmnic4", mac="ec:0d:9a:00:00:00", driver="nmlx5_core", speed_mbit=100_000, rdma_device="vmrdma0"),
    Nic(name="vmnic5", mac="ec:0d:9a:00:00:01", driver="nmlx5_core", speed_mbit=0, rdma_device="vmrdma1"),
    Nic(name="vmnic6", mac="ec:0d:9a:00:00:02", driver="bnxtnet", speed_mbit=25_000),
]


@pytest.mark.row("C 76-84")
@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"name": "vmnic4"}, "vmnic4"),
        ({"mac": "ec:0d:9a:00:00:01"}, "vmnic5"),
        ({"rdma_device": "vmrdma0"}, "vmnic4"),
        ({"driver": "nmlx5_core", "min_speed_mbit": 100_000}, "vmnic4"),
        ({"driver": "bnxtnet"}, "vmnic6"),
    ],
)
def test_the_one_that_fits_is_taken(asked, name):
    assert choose("esx1", NICS, UplinkChoice(**asked), "rails", rdma=False).name == name


@pytest.mark.row("B 57", "C 39", "C 76-84")
@pytest.mark.parametrize(
    ("asked", "rdma", "said"),
    [
        ({"driver": "nmlx5_core"}, True, ["2 NICs", "driver nmlx5_core", "vmnic4", "vmnic5", "uplink.name"]),
        ({"driver": "i40en"}, True, ["no NIC", "driver i40en", "vmnic0", "vmnic6"]),
        ({"name": "vmnic0"}, False, ["vmnic0", "uplink of vSwitch0", "in use"]),
        ({"name": "vmnic6"}, True, ["vmnic6", "no RDMA device", "PVRDMA", "TCP"]),
        ({"name": "vmnic5", "min_speed_mbit": 1}, True, ["no NIC", "name vmnic5", "vmnic4"]),
    ],
)
def test_what_is_in_doubt_is_refused_with_the_list(asked, rdma, said):
    with pytest.raises(LabError, check=stating("esx1", *said)):
        choose("esx1", NICS, UplinkChoice(**asked), "rails", rdma=rdma)


def test_a_nic_that_is_this_switchs_uplink_already_is_no_conflict():
    ours = [Nic(name="vmnic4", mac="ec:0d:9a:00:00:00", driver="nmlx5_core", speed_mbit=1, switch="rails")]

    assert choose("esx1", ours, UplinkChoice(name="vmnic4"), "rails", rdma=False).name == "vmnic4"
    with pytest.raises(LabError, match="uplink of rails"):
        choose("esx1", ours, UplinkChoice(name="vmnic4"), "others", rdma=False)


@pytest.mark.row("B 57")
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rdma_device": "vmrdma0"}, "vmrdma0"),
        ({"name": "vmnic4"}, "vmnic4"),
    ],
)
def test_a_host_that_does_not_report_its_rdma_devices_is_refused_with_the_reason_and_the_remedy(asked, said):
    silent = [replace(nic, rdma_device="", rdma_unknown="cannot run esxcli: no privilege") for nic in NICS]

    with pytest.raises(LabError, check=stating("esx1", said, "cannot run esxcli: no privilege", "fabric.user")):
        choose("esx1", silent, UplinkChoice(**asked), "rails", rdma=True)
    assert choose("esx1", silent, UplinkChoice(name="vmnic4"), "rails", rdma=False).name == "vmnic4"

"""Objects that an administrator made: taken over as declared, only looked up, never removed, and never skipped."""

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyVim.task import WaitForTask
from pyVmomi import vim

from components.fabric.vcenter import session
from components.fabric.waits import TOLD_AFTER_S
from simulator.vcenter.control import SOCKET, Control
from tests.integration.conftest import missing
from tests.integration.test_fabric import Vsphere, a_stack
from tests.integration.vcenter import running

pytestmark = pytest.mark.sim

DVS = vim.dvs.VmwareDistributedVirtualSwitch


@pytest.fixture(scope="module")
def vsphere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vsphere]:
    if reason := missing():
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(f"SIM LANE NOT RUN: {reason}")
    folder = tmp_path_factory.mktemp("adoption")
    with running(folder, f"-control={folder / SOCKET}") as endpoint:
        made = a_stack(folder, endpoint)
        with session(endpoint) as vcenter:
            an_administrators_switch(vcenter.host("DC0_C0_H0"))
        made.fabric["switches"][0].update(name="corp", port_group="corp-rdma", hosts=[{"name": "DC0_C0_H0"}])
        yield made


def an_administrators_switch(host: vim.HostSystem) -> None:
    """With one host, small frames, VLAN 5, and a contact that is nobody's business."""
    backing = vim.dvs.HostMember.PnicBacking(pnicSpec=[vim.dvs.HostMember.PnicSpec(pnicDevice="vmnic4")])
    config = DVS.ConfigSpec(
        name="corp",
        maxMtu=1500,
        contact=vim.DistributedVirtualSwitch.ContactInfo(name="netops"),
        host=[vim.dvs.HostMember.ConfigSpec(operation="add", host=host, backing=backing)],
    )
    product = vim.dvs.ProductSpec(version="7.0.2")
    folder = host.parent.parent.parent.networkFolder
    made = folder.CreateDVS_Task(vim.DistributedVirtualSwitch.CreateSpec(configSpec=config, productInfo=product))
    WaitForTask(made)
    ports = DVS.VmwarePortConfigPolicy(vlan=DVS.VlanIdSpec(vlanId=5, inherited=False))
    group = vim.dvs.DistributedVirtualPortgroup.ConfigSpec(
        name="corp-rdma", type="earlyBinding", numPorts=8, description="of netops", defaultPortConfig=ports
    )
    WaitForTask(made.info.result.AddDVPortgroup_Task([group]))


def seen(vsphere: Vsphere) -> dict[str, Any]:
    with session(vsphere.endpoint) as vcenter:
        host = vcenter.host("DC0_C0_H1")
        network = host.parent.parent.parent.networkFolder
        switch = next(one for one in network.childEntity if one.name == "corp")
        group = next(one for one in switch.portgroup if one.name == "corp-rdma")
        return {
            "mtu": switch.config.maxMtu,
            "version": switch.config.productInfo.version,
            "contact": switch.config.contact.name,
            "members": {
                one.config.host.name: [nic.pnicDevice for nic in one.config.backing.pnicSpec]
                for one in switch.config.host
            },
            "vlan": group.config.defaultPortConfig.vlan.vlanId,
            "group": (group.config.description, group.config.numPorts),
            "vmkernel": {nic.device: (nic.spec.ip.ipAddress, nic.spec.mtu) for nic in host.config.network.vnic},
        }


def test_a_name_that_is_taken_stops_a_preview_with_both_remedies(vsphere: Vsphere) -> None:
    before = seen(vsphere)

    said = vsphere.pulumi("preview", fails=True)

    assert "distributed switch corp exists and is not this stack's: use: adopt takes it over" in said
    assert "network corp-rdma exists and is not this stack's" in said
    assert "Traceback" not in said
    vsphere.pulumi("up", fails=True)
    assert seen(vsphere) == before, "nothing was changed"


def test_adopting_sets_what_is_declared_and_nothing_else(vsphere: Vsphere) -> None:
    hosts = [
        {"name": "DC0_C0_H0"},
        {"name": "DC0_C0_H1", "vmkernel": {"existing": "vmk0", "use": "adopt", "mtu_bytes": 9000}},
    ]
    vsphere.fabric["switches"][0].update(use="adopt", mtu_bytes=9000, vlan_id=111, hosts=hosts)
    before = seen(vsphere)

    vsphere.pulumi("up")
    vsphere.pulumi("up", "--expect-no-changes")

    now = seen(vsphere)
    assert (now["mtu"], now["vlan"]) == (9000, 111)
    assert now["members"] == {"DC0_C0_H0": ["vmnic4"], "DC0_C0_H1": ["vmnic4"]}
    assert now["vmkernel"]["vmk0"] == (before["vmkernel"]["vmk0"][0], 9000)
    for untouched in ("version", "contact", "group"):
        assert now[untouched] == before[untouched], "the lab does not declare it"


def test_what_somebody_changes_of_it_by_hand_is_seen_and_put_back(vsphere: Vsphere) -> None:
    with session(vsphere.endpoint) as vcenter:
        network = vcenter.host("DC0_C0_H0").parent.parent.parent.networkFolder
        switch = next(one for one in network.childEntity if one.name == "corp")
        WaitForTask(switch.ReconfigureDvs_Task(DVS.ConfigSpec(configVersion=switch.config.configVersion, maxMtu=1600)))

    control = Control(vsphere.folder / SOCKET)
    control.fault("slow", method="ReconfigureDvs_Task", seconds=TOLD_AFTER_S + 2, times=1)

    shown = vsphere.pulumi("preview", "--refresh", "--run-program", "--diff")
    done = vsphere.pulumi("up", "--refresh", "--run-program")

    control.clear()
    assert re.search(r"corp: vCenter is to change mtu_bytes: not done after 1\d s; 600 s at most", done), done
    assert re.search(r"DC0/corp: mtu_bytes 1600 => 9000", shown), shown
    assert "contact" not in shown
    assert seen(vsphere)["mtu"] == 9000


def test_a_version_never_goes_back_and_the_error_says_what_to_declare(vsphere: Vsphere) -> None:
    switch = vsphere.fabric["switches"][0]
    switch["version"] = "6.6.0"

    said = vsphere.pulumi("up", fails=True)

    assert "corp: has version 7.0.2, and a switch never goes back to 6.6.0: declare 7.0.2" in said
    switch["version"] = "7.0.3"
    vsphere.pulumi("up")
    assert seen(vsphere)["version"] == "7.0.3"


def test_a_destroy_leaves_it_and_says_what_was_different_before(vsphere: Vsphere) -> None:
    kept = seen(vsphere)

    said = vsphere.pulumi("destroy", "--run-program")

    assert seen(vsphere) == kept
    assert re.search(r"DC0/corp stays as it is; before us its .*mtu_bytes was 1500, version was '7.0.2'", said), said


def test_a_reference_changes_nothing_and_is_refused_where_the_lab_says_something_else(vsphere: Vsphere) -> None:
    switch = vsphere.fabric["switches"][0]
    switch.update(use="reference", vlan_id=7)
    switch["hosts"] = [{"name": "DC0_C0_H0", "vmkernel": {"address": "10.10.11.201/24"}}]
    before = seen(vsphere)

    said = vsphere.pulumi("preview", fails=True)
    switch["vlan_id"] = 111
    vsphere.pulumi("up")

    assert "port group corp-rdma has VLAN 111, the lab says 7" in said
    assert seen(vsphere) == before
    assert vsphere.seen("DC0_C0_H0") == ("vmk1", True), "an adapter of ours on a port group of theirs"
    vsphere.pulumi("destroy", "--run-program")
    assert seen(vsphere) == before

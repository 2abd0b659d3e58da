"""Objects that an administrator made: taken over as declared, only looked up, never removed, and never skipped."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyVmomi import vim

from components.fabric.vcenter.client import LOG_AFTER_S, session
from simulator.vcenter.control import SOCKET, Control
from tests.integration.conftest import require_engine
from tests.integration.fabric_stack import Vsphere, a_stack, a_worker
from tests.integration.role import CALLED, beyond_the_role
from tests.integration.vcenter import HOSTS, a_machine, done, machine_named, network_named, running
from tests.messages import lines_naming

pytestmark = pytest.mark.sim

DVS = vim.dvs.VmwareDistributedVirtualSwitch
BY_HAND = frozenset(
    ["AddDVPortgroup_Task", "CreateDVS_Task", "CreateVM_Task", "PowerOffVM_Task", "PowerOnVM_Task", "ReconfigVM_Task"]
)
"""What a test here does itself."""


@pytest.fixture(scope="module")
def vsphere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vsphere]:
    require_engine()
    folder = tmp_path_factory.mktemp("adoption")
    with running(folder, f"-control={folder / SOCKET}") as endpoint:
        made = a_stack(folder, endpoint)
        with session(endpoint) as vcenter:
            an_administrators_switch(vcenter.host("DC0_C0_H0"))
            a_machine(vcenter.host("DC0_C0_H1"), "corp-gpu")
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
    done(made)
    ports = DVS.VmwarePortConfigPolicy(vlan=DVS.VlanIdSpec(vlanId=5, inherited=False))
    group = vim.dvs.DistributedVirtualPortgroup.ConfigSpec(
        name="corp-rdma", type="earlyBinding", numPorts=8, description="of netops", defaultPortConfig=ports
    )
    done(made.info.result.AddDVPortgroup_Task([group]))


def their_machine() -> dict[str, Any]:
    """A node that is a VM of theirs, with PVRDMA and more CPUs than it has."""
    return {**a_worker(1), "machine": {"existing": "corp-gpu", "host": "DC0_C0_H1", "cpus": 4}}


def as_declared(vsphere: Vsphere) -> None:
    """What the refusal says, done by its owner: CPUs, memory and a PVRDMA adapter."""
    with session(vsphere.endpoint) as vcenter:
        host = vcenter.host("DC0_C0_H1")
        group = network_named(host, "corp-rdma")
        switch = group.config.distributedVirtualSwitch
        port = vim.dvs.PortConnection(portgroupKey=group.key, switchUuid=switch.uuid)
        backing = vim.vm.device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
        adapter = vim.vm.device.VirtualVmxnet3Vrdma(key=-1, backing=backing, addressType="generated")
        added = vim.vm.device.VirtualDeviceSpec(operation="add", device=adapter)
        machine = machine_named(host, "corp-gpu")
        done(machine.PowerOffVM_Task())
        spec = vim.vm.ConfigSpec(numCPUs=4, memoryReservationLockedToMax=True, deviceChange=[added])
        done(machine.ReconfigVM_Task(spec))
        done(machine.PowerOnVM_Task())


def of_their_machine(vsphere: Vsphere) -> dict[str, Any]:
    with session(vsphere.endpoint) as vcenter:
        config = machine_named(vcenter.host("DC0_C0_H1"), "corp-gpu").config
        adapters = [one for one in config.hardware.device if isinstance(one, vim.vm.device.VirtualEthernetCard)]
        return {
            "adapters": [type(one).__name__.rpartition(".")[2] for one in adapters],
            "cpus": config.hardware.numCPU,
            "memory": (config.hardware.memoryMB, config.memoryReservationLockedToMax or False),
        }


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

    assert lines_naming(said, "corp", "use: adopt", "use: reference")
    assert lines_naming(said, "corp-rdma", "corp", "port_group_use: adopt", "reference")
    assert "Traceback" not in said
    vsphere.pulumi("up", fails=True)
    assert seen(vsphere) == before, "nothing was changed"


@pytest.mark.row("B 190-228")
def test_adopting_sets_what_is_declared_and_nothing_else(vsphere: Vsphere) -> None:
    hosts = [
        {"name": "DC0_C0_H0"},
        {"name": "DC0_C0_H1", "vmkernel": {"existing": "vmk0", "use": "adopt", "mtu_bytes": 9000}},
        {"name": "DC0_C0_H2"},
        {"name": "DC0_C0_H3"},
    ]
    vsphere.fabric["switches"][0].update(use="adopt", mtu_bytes=9000, vlan_id=111, hosts=hosts)
    vsphere.nodes = [their_machine()]
    before, machine_before = seen(vsphere), of_their_machine(vsphere)

    said = vsphere.pulumi("preview", fails=True)
    assert lines_naming(said, "DC0/corp-gpu", "cpus 1", "should have 4", "Edit Settings")
    assert lines_naming(said, "DC0/corp-gpu", "corp-rdma", "PVRDMA", "Edit Settings")
    assert "Traceback" not in said
    vsphere.pulumi("up", fails=True)
    assert of_their_machine(vsphere) == machine_before
    as_declared(vsphere)
    vsphere.pulumi("up")
    vsphere.pulumi("up", "--expect-no-changes")

    now = seen(vsphere)
    assert (now["mtu"], now["vlan"]) == (9000, 111)
    assert now["members"] == {name: ["vmnic4"] for name in HOSTS}
    assert now["vmkernel"]["vmk0"] == (before["vmkernel"]["vmk0"][0], 9000)
    for untouched in ("version", "contact", "group"):
        assert now[untouched] == before[untouched], "the lab does not declare it"


def test_a_change_of_it_by_hand_is_drift_and_restored(vsphere: Vsphere) -> None:
    with session(vsphere.endpoint) as vcenter:
        network = vcenter.host("DC0_C0_H0").parent.parent.parent.networkFolder
        switch = next(one for one in network.childEntity if one.name == "corp")
        done(switch.ReconfigureDvs_Task(DVS.ConfigSpec(configVersion=switch.config.configVersion, maxMtu=1600)))
    control = Control(vsphere.folder / SOCKET)
    control.fault("slow", method="ReconfigureDvs_Task", seconds=LOG_AFTER_S + 2, times=1)

    shown = vsphere.pulumi("preview", "--refresh", "--diff")
    repaired = vsphere.pulumi("up", "--refresh")

    control.clear()
    assert lines_naming(repaired, "mtu_bytes", "600 s"), repaired
    assert lines_naming(shown, "DC0/corp", "mtu_bytes", "1600 => 9000"), shown
    assert "contact" not in shown
    assert seen(vsphere)["mtu"] == 9000


@pytest.mark.row("B 21")
def test_a_version_never_goes_back_and_the_error_says_what_to_declare(vsphere: Vsphere) -> None:
    switch = vsphere.fabric["switches"][0]
    switch["version"] = "6.6.0"

    said = vsphere.pulumi("up", fails=True)

    assert lines_naming(said, "corp", "6.6.0", "version: 7.0.2")
    switch["version"] = "7.0.3"
    vsphere.pulumi("up")
    assert seen(vsphere)["version"] == "7.0.3"


def test_a_destroy_leaves_it_and_says_what_was_different_before(vsphere: Vsphere) -> None:
    kept, machine_before = seen(vsphere), of_their_machine(vsphere)

    refused = vsphere.pulumi("destroy", fails=True)
    with session(vsphere.endpoint) as vcenter:
        done(machine_named(vcenter.host("DC0_C0_H1"), "corp-gpu").PowerOffVM_Task())
    said = refused + vsphere.pulumi("destroy")

    assert lines_naming(refused, "DC0_C0_H1", "corp-gpu", "power them off")
    assert of_their_machine(vsphere) == machine_before
    vsphere.nodes = []

    assert seen(vsphere) == kept
    assert lines_naming(said, "DC0/corp", "mtu_bytes", "1500", "version", "'7.0.2'"), said


def test_a_reference_changes_nothing_and_is_refused_where_the_lab_says_something_else(vsphere: Vsphere) -> None:
    switch = vsphere.fabric["switches"][0]
    switch.update(use="reference", vlan_id=7)
    switch["hosts"] = [{"name": "DC0_C0_H0", "vmkernel": {"address": "10.10.11.201/24"}}]
    before = seen(vsphere)

    said = vsphere.pulumi("preview", fails=True)
    switch["vlan_id"] = 111
    vsphere.pulumi("up")

    assert lines_naming(said, "corp-rdma", "VLAN 111", "7", "vlan_id", "port_group_use: adopt")
    assert seen(vsphere) == before
    assert vsphere.seen("DC0_C0_H0") == ("vmk1", True), "an adapter of ours on a port group of theirs"
    vsphere.pulumi("destroy")
    assert seen(vsphere) == before


def test_nothing_was_called_that_the_role_does_not_have(vsphere: Vsphere) -> None:
    called = Control(vsphere.folder / SOCKET).calls()

    assert CALLED["test_fabric_adoption"] - set(called) == set(), "the role has them, and no run here needs them"
    assert beyond_the_role(called, BY_HAND) == []

"""The vSphere stand-in against the simulated vCenter, through the real CLI: a fabric as seeds B and C have it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_project import Project

from engine.places import BIN, STANDINS, VENV

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(
        not (STANDINS / "pulumi-resource-vsphere").exists() or not (BIN / "vcenter").exists(),
        reason="the vSphere stand-in is not in place: run make setup",
    ),
]

FABRIC = """
    import pulumi
    import pulumi_vsphere as vsphere

    address = pulumi.Config().require("address")
    vcenter = vsphere.Provider("vc", vsphere_server=address, user="user", password="pass", allow_unverified_ssl=True)
    look_up = pulumi.InvokeOptions(provider=vcenter)
    options = pulumi.ResourceOptions(provider=vcenter)
    datacenter = vsphere.get_datacenter(name="DC0", opts=look_up)
    # A virtual machine in a cluster may use a switch only when every host of the cluster is a member.
    hosts = [vsphere.get_host(name=f"DC0_C0_H{i}", datacenter_id=datacenter.id, opts=look_up) for i in range(4)]
    pool = vsphere.get_resource_pool(name="DC0_C0/Resources", datacenter_id=datacenter.id, opts=look_up)
    datastore = vsphere.get_datastore(name="LocalDS_0", datacenter_id=datacenter.id, opts=look_up)
    switch = vsphere.DistributedVirtualSwitch(
        "switch", name="rails", datacenter_id=datacenter.id, max_mtu=9000, uplinks=["up1", "up2"],
        active_uplinks=["up1"], standby_uplinks=["up2"],
        # as vCenter makes a switch; the provider does not turn it off at creation and would say so at the next run
        network_resource_control_enabled=True,
        hosts=[vsphere.DistributedVirtualSwitchHostArgs(host_system_id=host.id, devices=["vmnic1"]) for host in hosts],
        opts=options,
    )
    group = vsphere.DistributedPortGroup(
        "rail-a", name="rail-a", distributed_virtual_switch_uuid=switch.id, vlan_id=111,
        active_uplinks=["up1"], standby_uplinks=[], opts=options,
    )
    vsphere.Vnic(
        "vmk", host=hosts[0].id, distributed_switch_port=switch.id, distributed_port_group=group.id,
        ipv4=vsphere.VnicIpv4Args(ip="10.10.11.1", netmask="255.255.255.0"), opts=options,
    )
    vsphere.VirtualMachine(
        "worker", name="worker", resource_pool_id=pool.id, datastore_id=datastore.id, num_cpus=2, memory=1024,
        memory_reservation=1024, guest_id="otherGuest64", wait_for_guest_net_timeout=0,
        network_interfaces=[
            vsphere.VirtualMachineNetworkInterfaceArgs(network_id=group.id, adapter_type="vmxnet3vrdma")
        ],
        disks=[vsphere.VirtualMachineDiskArgs(label="disk0", size=1)], opts=options,
    )
"""


@pytest.fixture
def vcenter() -> Iterator[str]:
    process = subprocess.Popen([BIN / "vcenter", "-listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    url = process.stdout.readline()  # it prints it once it answers
    yield url.removeprefix("https://").partition("/")[0]
    process.terminate()
    assert process.wait(60) == 0
    process.stdout.close()


def test_a_fabric_with_a_pvrdma_worker_is_made_and_planned_empty_and_destroyed(vcenter: str, tmp_path: Path) -> None:
    project = Project(tmp_path, str(VENV))
    project.write(FABRIC)
    project.pulumi("config", "set", "address", vcenter, "--stack", "t")

    created, again = project.up(), project.up()
    destroyed = project.pulumi("destroy", "--yes", "--skip-preview", "--stack", "t")

    assert "+ 6 created" in created
    assert "6 unchanged" in again, "a second run that changes something would change it at every run"
    assert "- 6 deleted" in destroyed

"""The vSphere fabric on the real engine, the vSphere provider and a simulated vCenter of the test's own."""

import json
import re
from collections.abc import Iterator

import pytest
from pyVmomi import vim

from components.fabric.vcenter.client import OPTION, RULESET, VCenter, session
from tests.integration.conftest import require_engine
from tests.integration.fabric_stack import Vsphere, a_stack, a_worker
from tests.integration.vcenter import HOSTS, PASSWORD, done, machine_named, move_uplink, network_named, running
from tests.messages import lines_naming

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def vsphere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vsphere]:
    require_engine()
    folder = tmp_path_factory.mktemp("vsphere")
    with running(folder) as endpoint:
        yield a_stack(folder, endpoint)


@pytest.mark.row("B 190-228", "B 282", "C 76-84", "C 88-100", "C 101-102", "C 108-117", "C 123-138")
def test_a_fabric_comes_up_with_the_right_uplinks_and_settings(vsphere: Vsphere) -> None:
    before = not_ours(vsphere)

    vsphere.pulumi("up")

    assert not_ours(vsphere) == before, "nobody else's adapter or machine is moved"
    assert vsphere.seen("DC0_C0_H0") == ("vmk1", True), "the adapter that was made"
    assert vsphere.seen("DC0_C0_H1") == ("vmk0", True), "the adapter that was there"
    assert vsphere.seen("DC0_C0_H2") == ("", False), "none was asked for"
    state = json.loads(vsphere.run("stack", "export", "--stack", "t").stdout)
    uplinks = [one["outputs"]["device"] for one in state["deployment"]["resources"] if one["type"].endswith(":Uplink")]
    assert uplinks == ["vmnic4"] * len(HOSTS)
    assert "10.10.11.201" in str([one.get("inputs") for one in state["deployment"]["resources"]])


def not_ours(vsphere: Vsphere) -> dict[str, list[tuple[str, ...]]]:
    """Where the hosts' own vmkernel adapters, and the adapters of machines that are not ours, are connected."""
    found: dict[str, list[tuple[str, ...]]] = {}
    with session(vsphere.endpoint) as vcenter:
        for name in (*HOSTS, "DC0_H0"):
            host = vcenter.host(name)
            own = next(one for one in host.config.network.vnic if one.device == "vmk0")
            port = own.spec.distributedVirtualPort
            where = port.portgroupKey if port else own.portgroup
            found[name] = [(where, own.spec.ip.ipAddress, own.spec.ip.subnetMask)]
        for name in ("DC0_C0_RP0_VM0", "DC0_H0_VM0"):
            machine = machine_named(host, name)
            cards = [
                one for one in machine.config.hardware.device if isinstance(one, vim.vm.device.VirtualEthernetCard)
            ]
            found[name] = [(card.macAddress, str(card.backing.port.portgroupKey)) for card in cards]
            found[name].append(tuple(sorted(one.name for one in machine.network)))
    assert all(len(told) > 1 for name, told in found.items() if name not in {*HOSTS, "DC0_H0"}), (
        "machines have adapters"
    )
    return found


def test_a_second_up_changes_nothing(vsphere: Vsphere) -> None:
    vsphere.pulumi("up", "--expect-no-changes")


def test_the_password_is_not_in_the_state(vsphere: Vsphere) -> None:
    text = "".join(path.read_text(errors="replace") for path in (vsphere.folder / "backend").rglob("*.json*"))

    assert "vmnic4" in text
    assert PASSWORD not in text


def test_a_change_by_hand_is_drift_and_restored(vsphere: Vsphere) -> None:
    with session(vsphere.endpoint) as vcenter:
        vcenter.set_option(vcenter.host("DC0_C0_H0"), OPTION, "vmk0")
        vcenter.set_ruleset(vcenter.host("DC0_C0_H1"), RULESET, enabled=False)

    shown = vsphere.pulumi("preview", "--refresh", "--diff")
    vsphere.pulumi("up", "--refresh")

    assert lines_naming(shown, "DC0_C0_H0", "vmknic", "'vmk0' => 'vmk1'")
    assert lines_naming(shown, "DC0_C0_H1", "firewall_open", "False => True")
    assert "DC0_C0_H2: " not in shown
    assert vsphere.seen("DC0_C0_H0") == ("vmk1", True)
    assert vsphere.seen("DC0_C0_H1") == ("vmk0", True)


@pytest.mark.row("C 26, 146-155", "C 58-65")
def test_a_changed_mtu_and_vlan_reach_the_switch(vsphere: Vsphere) -> None:
    before = frames_and_vlan(vsphere)
    vsphere.fabric["switches"][0].update(vlan_id=111, mtu_bytes=4200)
    vsphere.rail_mtu_bytes = 4200

    shown = vsphere.pulumi("preview", "--diff")
    vsphere.pulumi("up")
    vsphere.pulumi("up", "--expect-no-changes")

    assert re.search(r"vlanId\s*: 0 => 111", shown)
    assert re.search(r"maxMtu\s*: 9000 => 4200", shown)
    assert (before, frames_and_vlan(vsphere)) == ((9000, 9000, 0), (4200, 4200, 111))


def test_a_vlan_that_is_removed_or_set_where_there_is_none_is_none_again(vsphere: Vsphere) -> None:
    vsphere.fabric["switches"][0].update(vlan_id=0)
    try:
        vsphere.pulumi("up")
        vsphere.pulumi("up", "--expect-no-changes")
        taken = frames_and_vlan(vsphere)[2]
        with session(vsphere.endpoint) as vcenter:
            tag(vcenter, 222)
        shown = vsphere.pulumi("preview", "--refresh", "--diff")
        vsphere.pulumi("up", "--refresh")
        put_back = frames_and_vlan(vsphere)[2]
    finally:
        vsphere.fabric["switches"][0].update(vlan_id=111)
        vsphere.pulumi("up", "--refresh")

    assert (taken, put_back, frames_and_vlan(vsphere)[2]) == (0, 0, 111)
    assert lines_naming(shown, "vlan_id", "222 => 0")


@pytest.mark.row("C 58-65", "C 62", "C 88-100")
def test_frames_vlan_and_nic_that_are_changed_by_hand_are_drift_and_restored(vsphere: Vsphere) -> None:
    wanted = frames_and_vlan(vsphere)
    with session(vsphere.endpoint) as vcenter:
        other_frames_vlan_and_nic(vcenter)
    assert frames_and_vlan(vsphere) == (1600, 1500, 222), "the vCenter has them so"

    shown = vsphere.pulumi("preview", "--refresh", "--diff")
    vsphere.pulumi("up", "--refresh")
    vsphere.pulumi("up", "--refresh", "--expect-no-changes")

    assert re.search(r"maxMtu\s*: 1600 => 4200", of_resource(shown, "fabric-rail-a-switch"))
    assert re.search(r'"vmnic4" => "vmnic5"', of_resource(shown, "fabric-rail-a-switch"))
    assert lines_naming(of_resource(shown, "fabric-rail-a-DC0_C0_H2-uplink"), "rail-a", "vmnic5")
    assert re.search(r"vlanId\s*: 222 => 111", of_resource(shown, "fabric-rail-a-group"))
    assert re.search(r"mtu\s*: 1500 => 4200", of_resource(shown, "fabric-rail-a-DC0_C0_H0-vmkernel"))
    assert frames_and_vlan(vsphere) == wanted
    with session(vsphere.endpoint) as vcenter:
        assert {name: vcenter.uplinks(vcenter.host(name), "rail-a") for name in HOSTS} == dict.fromkeys(
            HOSTS, ("vmnic4",)
        )


def other_frames_vlan_and_nic(vcenter: VCenter) -> None:
    """Changes what this stack has made, as an administrator can: one field each of switch, adapter, group, member."""
    host = vcenter.host("DC0_C0_H0")
    switch = network_named(host, "rail-a")
    dvs = vim.dvs.VmwareDistributedVirtualSwitch
    done(switch.ReconfigureDvs_Task(dvs.ConfigSpec(configVersion=switch.config.configVersion, maxMtu=1600)))
    tag(vcenter, 222)
    host.configManager.networkSystem.UpdateVirtualNic("vmk1", vim.host.VirtualNic.Specification(mtu=1500))
    move_uplink(vcenter, "DC0_C0_H2", "vmnic5")


def tag(vcenter: VCenter, vlan_id: int) -> None:
    """Gives the port group of the first rail a VLAN, as its administrator can."""
    group = network_named(vcenter.host("DC0_C0_H0"), "rail-a-hosts")
    ports = group.config.defaultPortConfig
    ports.vlan.vlanId = vlan_id
    tagged = vim.dvs.DistributedVirtualPortgroup.ConfigSpec(
        configVersion=group.config.configVersion, defaultPortConfig=ports
    )
    done(group.ReconfigureDVPortgroup_Task(tagged))


def of_resource(shown: str, name: str) -> str:
    """What a preview says of one resource, by its logical name."""
    told = re.split(r"\[urn=", shown)[1:]
    return "".join(text for text in told if text.partition("]")[0].endswith(f"::{name}"))


def frames_and_vlan(vsphere: Vsphere) -> tuple[int, int, int]:
    """MTU of the switch and of the adapter that was made on it, and the VLAN of its port group, as the vCenter has."""
    with session(vsphere.endpoint) as vcenter:
        host = vcenter.host("DC0_C0_H0")
        switch, group = network_named(host, "rail-a"), network_named(host, "rail-a-hosts")
        adapter = next(one for one in host.config.network.vnic if one.device == "vmk1")
        return switch.config.maxMtu, adapter.spec.mtu, group.config.defaultPortConfig.vlan.vlanId


@pytest.mark.row("C 76-84")
def test_an_uplink_in_doubt_stops_before_anything_changes(vsphere: Vsphere) -> None:
    uplink = vsphere.fabric["switches"][0]["uplink"]
    vsphere.fabric["switches"][0]["uplink"] = {"driver": "nmlx5_core"}
    try:
        said = vsphere.pulumi("up", fails=True)
    finally:
        vsphere.fabric["switches"][0]["uplink"] = uplink

    assert lines_naming(said, "2", "nmlx5_core", "uplink.name", "uplink.mac")
    assert "Traceback" not in said
    vsphere.pulumi("up")


@pytest.mark.row("B 53", "B 350-368", "C 198", "C 204-213")
def test_workers_are_cloned_apart_with_their_memory_reserved_and_pvrdma(vsphere: Vsphere) -> None:
    vsphere.nodes = [a_worker(1), a_worker(2)]
    vsphere.fabric["switches"][0]["hosts"][2]["vmkernel"] = {"existing": "vmk0"}  # a worker may come to run there

    vsphere.pulumi("up")
    vsphere.pulumi("up", "--expect-no-changes")

    with session(vsphere.endpoint) as vcenter:
        machine = machine_named(vcenter.host("DC0_C0_H0"), "gpu01")
        config = machine.config
        adapters = [one for one in config.hardware.device if isinstance(one, vim.vm.device.VirtualEthernetCard)]
        rule = machine.resourcePool.owner.configurationEx.rule
    assert config.memoryReservationLockedToMax
    assert config.memoryAllocation.reservation == config.hardware.memoryMB == 4096
    assert [type(one) for one in adapters] == [
        vim.vm.device.VirtualVmxnet3,
        vim.vm.device.VirtualVmxnet3Vrdma,
    ], "management first: PVRDMA is never the adapter that SSH comes over"
    assert adapters[1].connectable.startConnected, "connect at power on"
    assert [(one.name, one.mandatory, len(one.vm)) for one in rule] == [("rocelab-lab-workers", True, 2)]


def test_the_adapter_of_running_pvrdma_machines_is_not_changed_under_them(vsphere: Vsphere) -> None:
    with session(vsphere.endpoint) as vcenter:
        host = vcenter.host("DC0_C0_H1")
        machine = a_pvrdma_machine_on(host)
        assert machine in vcenter.running_pvrdma_vms(host), "beside workers, wherever the vCenter has put them"
        vcenter.set_option(host, OPTION, "vmk7")

        said = vsphere.pulumi("preview", "--refresh", fails=True)

        assert lines_naming(said, "DC0_C0_H1", OPTION, "vmk7", machine, "vmk0")
        vcenter.set_option(host, OPTION, "vmk0")
        vsphere.pulumi("up", "--refresh")


def a_pvrdma_machine_on(host: vim.HostSystem) -> str:
    """Gives the host a running machine with a PVRDMA adapter; its name."""
    datacenter = host.parent.parent.parent
    device = vim.vm.device.VirtualDeviceSpec(
        operation="add",
        device=vim.vm.device.VirtualVmxnet3Vrdma(
            key=-1,
            backing=vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(deviceName="VM Network"),
        ),
    )
    files = vim.vm.FileInfo(vmPathName=f"[{datacenter.datastore[0].name}]")
    spec = vim.vm.ConfigSpec(name="worker", guestId="otherGuest64", files=files, deviceChange=[device])
    done(datacenter.vmFolder.CreateVM_Task(spec, host.parent.resourcePool, host))
    machine = next(one for one in datacenter.vmFolder.childEntity if one.name == "worker")
    done(machine.PowerOnVM_Task())
    return "worker"


@pytest.mark.row("C 108-117", "C 123-138")
def test_destroy_gives_every_host_back_what_it_had_but_not_under_running_machines(vsphere: Vsphere) -> None:
    said = vsphere.pulumi("destroy", fails=True)

    assert lines_naming(said, "DC0_C0_H1", OPTION, "''", RULESET, "worker")
    assert vsphere.seen("DC0_C0_H1") == ("vmk0", True), "somebody else's machine runs there with PVRDMA"
    with session(vsphere.endpoint) as vcenter:
        done(machine_named(vcenter.host("DC0_C0_H1"), "worker").PowerOffVM_Task())
    vsphere.pulumi("destroy")

    for name in HOSTS:
        assert vsphere.seen(name) == ("", False)
    with session(vsphere.endpoint) as vcenter:
        assert VCenter.vmkernel_names(vcenter, vcenter.host("DC0_C0_H0")).keys() == {"vmk0"}

"""The simulated vCenter's ESXi hosts: how many, what they carry, and what they show of the switches they belong to."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from components.fabric.vcenter.client import VCenter, session
from simulator.part import SimulatorError
from simulator.vcenter.control import SOCKET, Control
from tests.integration.conftest import require_engine
from tests.integration.vcenter import HOSTS, done, running
from tests.messages import lines_naming, stating

pytestmark = [pytest.mark.sim, pytest.mark.whole]

Dvs = vim.dvs.VmwareDistributedVirtualSwitch
MANAGEMENT = "DC0_H0"
NICS = "vmnic0, vmnic1, vmnic4, vmnic5"


@pytest.fixture(scope="module")
def socket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("control") / SOCKET


@pytest.fixture(scope="module")
def vcenter(socket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VCenter]:
    require_engine()
    with running(tmp_path_factory.mktemp("vcenter"), f"-control={socket}") as endpoint, session(endpoint) as opened:
        yield opened


@pytest.fixture
def control(vcenter: VCenter, socket: Path) -> Iterator[Control]:
    del vcenter  # it listens there
    asked = Control(socket)
    yield asked
    asked.clear()


def test_a_fault_that_no_call_could_meet_is_refused_with_the_nearest_names(control: Control) -> None:
    with pytest.raises(SimulatorError, match=r'"UpdateOption"; \w+: UpdateOptions,'):
        control.fault("slow", method="UpdateOption", seconds=1)
    with pytest.raises(SimulatorError, match=r'"reconfigureDvs_task"; \w+: ReconfigureDvs_Task,'):
        control.fault("expire", method="reconfigureDvs_task")
    with pytest.raises(SimulatorError, match=r'"Host.Config.NetServices"; \w+: Host.Config.NetService,'):
        control.fault("refuse", method="UpdateOptions", privilege="Host.Config.NetServices")
    with pytest.raises(SimulatorError, match=r'"host.config.network"; \w+: Host.Config.Network,'):
        control.fault("refuse", method="UpdateOptions", privilege="host.config.network")
    with pytest.raises(SimulatorError, match=r'"UpdateOptionsRequestType"; \w+: '):
        control.hold("UpdateOptionsRequestType")

    control.fault("slow", method="ReconfigureAutostart", seconds=1)
    control.fault("slow", method="ExecuteSoap", seconds=1)
    control.hold("ReconfigureAutostart")
    assert control.held() == {"ReconfigureAutostart": 0}, "a call of the API, though nothing here answers it"
    control.release()


def member(vcenter: VCenter, name: str, nic: str = "", operation: str = "add") -> Any:
    backing = vim.dvs.HostMember.PnicBacking(pnicSpec=[vim.dvs.HostMember.PnicSpec(pnicDevice=nic)] if nic else [])
    return vim.dvs.HostMember.ConfigSpec(operation=operation, host=vcenter.host(name), backing=backing)


def make(vcenter: VCenter, name: str, nic: str, hosts: tuple[str, ...]) -> Any:
    members = [member(vcenter, one, nic) for one in hosts]
    spec = vim.DistributedVirtualSwitch.CreateSpec(configSpec=Dvs.ConfigSpec(name=name, maxMtu=9000, host=members))
    task = vcenter.host(HOSTS[0]).parent.parent.parent.networkFolder.CreateDVS_Task(spec)
    done(task)
    return task.info.result


def change(switch: Any, **fields: Any) -> None:
    done(switch.ReconfigureDvs_Task(Dvs.ConfigSpec(configVersion=switch.config.configVersion, **fields)))


def shown(vcenter: VCenter, switch: str) -> dict[str, tuple[int, list[str]]]:
    """MTU and uplinks of a switch as the hosts that know it show them."""
    found = {}
    for name in (*HOSTS, MANAGEMENT):
        network = vcenter.host(name).config.network
        devices = {nic.key: nic.device for nic in network.pnic}
        for one in network.proxySwitch:
            if one.dvsName == switch:
                found[name] = (one.mtu, [devices[key] for key in one.pnic or []])
    return found


def test_a_cluster_of_four_is_beside_a_management_host_as_in_the_vsphere_guide(vcenter: VCenter) -> None:
    cluster = vcenter.host(HOSTS[0]).parent

    assert isinstance(cluster, vim.ClusterComputeResource)
    assert tuple(sorted(host.name for host in cluster.host)) == HOSTS
    assert not isinstance(vcenter.host(MANAGEMENT).parent, vim.ClusterComputeResource)


@pytest.mark.parametrize("name", HOSTS)
def test_each_host_has_two_fast_nics_with_rdma_devices_and_vgpu_profiles(vcenter: VCenter, name: str) -> None:
    config = vcenter.host(name).config
    devices = {nic.key: nic.device for nic in config.network.pnic}
    rdma = {one.device: devices[one.backing.pairedUplink] for one in config.network.rdmaDevice}
    fast = [nic.device for nic in config.network.pnic if nic.linkSpeed and nic.linkSpeed.speedMb == 100_000]

    assert (fast, rdma) == (["vmnic4", "vmnic5"], {"vmrdma0": "vmnic4", "vmrdma1": "vmnic5"})
    assert "grid_v100d-32c" in config.sharedPassthruGpuTypes


def test_members_show_their_side_of_a_switch_until_they_leave_or_it_goes(vcenter: VCenter) -> None:
    switch = make(vcenter, "rails", "vmnic4", HOSTS)
    made = shown(vcenter, "rails")
    network = vcenter.host(HOSTS[0]).config.network
    known_by = [one.dvsUuid for one in network.proxySwitch if one.dvsName == "rails"]
    uuid = switch.uuid
    change(switch, maxMtu=4200)
    shorter = shown(vcenter, "rails")
    change(switch, host=[member(vcenter, HOSTS[1], "vmnic5", "edit")])
    replugged = shown(vcenter, "rails")
    change(switch, host=[member(vcenter, HOSTS[3], operation="remove")])
    left = shown(vcenter, "rails")
    change(switch, name="tracks")
    renamed = shown(vcenter, "tracks")
    done(switch.Destroy_Task())

    assert made == {name: (9000, ["vmnic4"]) for name in HOSTS}
    assert known_by == [uuid]
    assert shorter == {name: (4200, ["vmnic4"]) for name in HOSTS}
    assert replugged == {**shorter, HOSTS[1]: (4200, ["vmnic5"])}
    assert left == {name: seen for name, seen in replugged.items() if name != HOSTS[3]}
    assert (renamed, shown(vcenter, "rails"), shown(vcenter, "tracks")) == (left, {}, {})


def test_a_nic_is_the_uplink_of_one_switch_and_free_again_when_that_one_goes(vcenter: VCenter) -> None:
    first, second = make(vcenter, "first", "vmnic4", HOSTS[:1]), make(vcenter, "second", "vmnic5", HOSTS[:1])
    for nic in ("vmnic5", "vmnic0"):
        edit = Dvs.ConfigSpec(host=[member(vcenter, HOSTS[0], nic, "edit")])
        with pytest.raises(AssertionError, match=f"The resource '{nic}' is in use"):
            done(first.ReconfigureDvs_Task(edit))
    assert shown(vcenter, "first") == {HOSTS[0]: (9000, ["vmnic4"])}

    done(second.Destroy_Task())
    change(first, host=[member(vcenter, HOSTS[0], "vmnic5", "edit")])

    assert shown(vcenter, "first") == {HOSTS[0]: (9000, ["vmnic5"])}
    done(first.Destroy_Task())


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"link_mbit": 0}, ("link_mbit", HOSTS[1], NICS)),
        ({"pci": "0000:af:00.0", "driver_version": "1"}, ("driver_version, pci", HOSTS[1], NICS)),
        ({"announced_mtu_bytes": 1500}, ("announced_mtu_bytes", HOSTS[1], NICS)),
        ({"nic_switch": "vSwitch1", "nic": "vmnic9"}, ("vmnic9", HOSTS[1], NICS)),
        ({"build": "1", "nic": "vmnic9"}, ("vmnic9", HOSTS[1], NICS)),
        ({"build": "1", "nic": "vmnic4"}, ("vmnic4", "link_mbit, announced_mtu_bytes")),
        ({}, ("nothing", HOSTS[1])),
    ],
)
def test_a_change_of_one_nic_that_names_none_of_the_hosts_changes_nothing_and_says_which_there_are(
    vcenter: VCenter, control: Control, asked: dict[str, Any], named: tuple[str, ...]
) -> None:
    build = vcenter.host(HOSTS[1]).config.product.build

    with pytest.raises(SimulatorError) as refused:
        control.change_host(HOSTS[1], **asked)
    with pytest.raises(SimulatorError) as refused_later:
        control.fault("meanwhile", method="CreateDVS_Task", does={"host": {"name": HOSTS[1], **asked}})

    assert lines_naming(str(refused.value), *named)
    assert lines_naming(str(refused_later.value), *named), "at once, and not when the call comes"
    assert vcenter.host(HOSTS[1]).config.product.build == build


def test_a_host_that_is_not_there_is_answered_with_those_that_are(control: Control) -> None:
    with pytest.raises(SimulatorError, check=stating("esx9", *HOSTS, MANAGEMENT)):
        control.change_host("esx9", build="1")


def test_a_switch_port_at_a_slow_nic_can_announce_an_mtu_too(vcenter: VCenter, control: Control) -> None:
    control.change_host(HOSTS[0], nic="vmnic1", announced_mtu_bytes=1500)

    hints = vcenter.host(HOSTS[0]).configManager.networkSystem.QueryNetworkHint()

    announced = {hint.device: hint.connectedSwitchPort.mtu for hint in hints}
    assert announced == {"vmnic1": 1500, "vmnic4": 9216, "vmnic5": 9216}

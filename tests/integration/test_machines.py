"""Machines with vGPUs on the real engine and a simulated vCenter: made, watched, refused, kept apart."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from components.fabric.vcenter.client import VCenter, session
from components.fabric.vcenter.power import is_on
from components.fabric.vcenter.properties import collect
from components.fabric.vms.hardware import Hardware, observe
from simulator.vcenter.control import SOCKET, Control
from tests.components.fabric.ova import KEYS, stub_ova
from tests.integration.conftest import require_engine
from tests.integration.fabric_stack import Vsphere, a_control_plane, a_stack, a_worker
from tests.integration.role import CALLED, beyond_the_role
from tests.integration.vcenter import PASSWORD, done, machine_named, move_uplink, running
from tests.messages import lines_naming

pytestmark = pytest.mark.sim

H0, H1, H2, BESIDE = "DC0_C0_H0", "DC0_C0_H1", "DC0_C0_H2", "DC0_H0"
"""Hosts of the cluster, and the one beside it."""
VGPU = "grid_v100d-32c"
BY_HAND = frozenset(["RelocateVM_Task"])
"""What a test here does itself."""


@pytest.fixture(scope="module")
def vsphere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vsphere]:
    require_engine()
    folder = tmp_path_factory.mktemp("machines")
    with running(folder, f"-control={folder / SOCKET}") as endpoint:
        stack = a_stack(folder, endpoint)
        stack.fabric["switches"][0]["hosts"][2]["vmkernel"] = {"existing": "vmk0"}
        stack.nodes = [a_worker(1), a_worker(2), *(a_control_plane(number) for number in (1, 2, 3))]
        stack.nodes[2]["machine"]["host"] = BESIDE
        stack.nodes[0]["vgpu"] = {"profile": VGPU}
        stack.nodes[0]["machine"].update(firmware="efi", host=H1, roce_version="rocev2")
        stack.bitfusion = servers(stub_ova(folder / "stub.ova"))
        yield stack


def hardware(vcenter: VCenter, name: str) -> Hardware | None:
    return observe(vcenter, machine_named(vcenter.host(H0), name).config.uuid)


def settings(machine: Any) -> dict[str, str]:
    return {one.key: str(one.value) for one in machine.config.extraConfig}


@pytest.mark.row("B 39a", "C 204-213")
def test_a_worker_comes_up_with_its_vgpu_on_its_host(vsphere: Vsphere) -> None:
    vsphere.pulumi("up")
    vsphere.pulumi("up", "--expect-no-changes")

    with session(vsphere.endpoint) as vcenter:
        machine = machine_named(vcenter.host(H0), "gpu01")
        assert hardware(vcenter, "gpu01") == Hardware(vgpus=(VGPU,), roce_version="rocev2")
        assert is_on(vcenter, machine)
        assert settings(machine)["pciPassthru.64bitMMIOSizeGB"] == "64"
        assert machine.config.firmware == "efi"


@pytest.mark.row("B 130", "B 288-294", "B 324-346")
def test_control_planes_come_up_without_pvrdma_one_beside_the_cluster_and_the_others_apart(vsphere: Vsphere) -> None:
    with session(vsphere.endpoint) as vcenter:
        planes = {name: machine_named(vcenter.host(H0), name) for name in ("plane01", "plane02", "plane03")}
        cluster = vcenter.host(H0).parent
        apart = [
            {machine.name for machine in rule.vm}
            for rule in cluster.configurationEx.rule
            if isinstance(rule, vim.cluster.AntiAffinityRuleSpec)
        ]

        [running_at] = collect(vcenter.content, [planes["plane01"]], ["runtime.host"])
        assert running_at["runtime.host"].name == BESIDE
        assert {"plane02", "plane03"} in apart
        for machine in planes.values():
            size, devices = machine.config.hardware, machine.config.hardware.device
            cards = [device for device in devices if isinstance(device, vim.vm.device.VirtualEthernetCard)]
            [disk] = [device for device in devices if isinstance(device, vim.vm.device.VirtualDisk)]
            assert [type(card) for card in cards] == [vim.vm.device.VirtualVmxnet3]
            assert (size.numCPU, size.memoryMB, disk.capacityInKB) == (4, 16384, 50 << 20)
            assert not machine.config.memoryReservationLockedToMax


@pytest.mark.row("B 184-188, 244-246", "B 196", "B 248-278")
def test_every_guest_has_the_addresses_of_the_lab_file_by_the_place_of_its_adapter(vsphere: Vsphere) -> None:
    with session(vsphere.endpoint) as vcenter:
        machines = [machine_named(vcenter.host(H0), name) for name in ("gpu02", "plane01", "plane03")]
        guests = collect(vcenter.content, machines, ["guest.net"])
        addresses = [[list(nic.ipAddress) for nic in guest["guest.net"]] for guest in guests]

    # gpu01's adapter was edited after its first start, and the simulator then forgets what the guest reported
    assert addresses == [[["127.0.12.2"], ["10.10.11.12"]], [["127.0.12.31"]], [["127.0.12.33"]]]


def test_a_removed_vgpu_is_drift_and_restored_only_if_a_restart_is_allowed(
    vsphere: Vsphere,
) -> None:
    with session(vsphere.endpoint) as vcenter:
        machine = machine_named(vcenter.host(H0), "gpu01")
        done(machine.PowerOffVM_Task())
        device = next(
            one for one in machine.config.hardware.device if isinstance(one, vim.vm.device.VirtualPCIPassthrough)
        )
        change = vim.vm.device.VirtualDeviceSpec(operation="remove", device=device)
        done(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[change])))
        done(machine.PowerOnVM_Task())

        said = vsphere.pulumi("up", "--refresh")
        assert lines_naming(said, "gpu01:", "vgpus", f"[] => ['{VGPU}']")
        assert lines_naming(said, "gpu01", f"1 x {VGPU}", "rocev2", "hosts.reboot: roll")
        assert hardware(vcenter, "gpu01") == Hardware(vgpus=(), roce_version="rocev2"), "it runs, and is left alone"

        vsphere.hosts = {"reboot": "roll"}
        vsphere.pulumi("up", "--refresh")
        assert hardware(vcenter, "gpu01") == Hardware(vgpus=(VGPU,), roce_version="rocev2")


@pytest.mark.row("B 39a")
def test_a_profile_that_no_host_offers_stops_the_preview(vsphere: Vsphere) -> None:
    vsphere.nodes[0]["vgpu"] = {"profile": "grid_t4-16q"}
    try:
        said = vsphere.pulumi("preview", fails=True)
    finally:
        vsphere.nodes[0]["vgpu"] = {"profile": VGPU}

    assert lines_naming(said, "gpu01:", H1, "grid_t4-16q", "grid_v100d-16c")
    assert "Traceback" not in said


@pytest.mark.row("B 380-382")
def test_an_uplink_is_not_changed_under_running_machines(vsphere: Vsphere) -> None:
    host = vsphere.fabric["switches"][0]["hosts"][1]
    host["uplink"] = {"rdma_device": "vmrdma1"}
    try:
        said = vsphere.pulumi("preview", fails=True)
    finally:
        del host["uplink"]

    assert re.search(rf"{H1}: .*rail-a.*vmnic4.*gpu01.*vmnic5", said)
    assert "Traceback" not in said


def test_a_nic_that_another_user_moves_stays_under_running_vms(vsphere: Vsphere) -> None:
    with session(vsphere.endpoint) as vcenter:
        move_uplink(vcenter, H1, "vmnic5")
        assert vcenter.uplinks(vcenter.host(H1), "rail-a") == ("vmnic5",)
        try:
            said = vsphere.pulumi("preview", "--refresh", fails=True)
        finally:
            move_uplink(vcenter, H1, "vmnic4")

    assert re.search(rf"{H1}: .*rail-a.*vmnic5.*gpu01.*vmnic4", said)


@pytest.mark.row("B 55")
def test_two_workers_that_are_put_on_one_host_are_named(vsphere: Vsphere) -> None:
    with session(vsphere.endpoint) as vcenter:
        second = machine_named(vcenter.host(H0), "gpu02")
        done(second.RelocateVM_Task(vim.vm.RelocateSpec(host=vcenter.host(H1))))

        said = vsphere.pulumi("up", "--refresh", fails=True)
        done(second.RelocateVM_Task(vim.vm.RelocateSpec(host=vcenter.host(H2))))

    assert lines_naming(said, "gpu01", "gpu02", H1, "machine.apart: false")
    assert "Traceback" not in said
    vsphere.pulumi("up", "--refresh")


@pytest.mark.row("C 166-168", "C 168, 185", "C 169", "C 171-181", "C 204-213")
def test_a_bitfusion_server_comes_from_its_ova_with_static_addresses_and_pvrdma(vsphere: Vsphere) -> None:
    with session(vsphere.endpoint) as vcenter:
        first = machine_named(vcenter.host(H0), "bitfusion01")
        adapters = [one for one in first.config.hardware.device if isinstance(one, vim.vm.device.VirtualEthernetCard)]
        assert [type(one) for one in adapters] == [vim.vm.device.VirtualVmxnet3, vim.vm.device.VirtualVmxnet3Vrdma]
        assert adapters[1].connectable.startConnected, "connect at power on"
        assert is_on(vcenter, first)
        assert first.config.memoryReservationLockedToMax
        assert told(first)["adapter2.ip"] == "10.10.11.231"
        assert (told(first)["vcenter.password"], told(first)["join"]) == (PASSWORD, " ")
        second = machine_named(vcenter.host(H0), "bitfusion02")
        assert (told(second)["adapter2.ip"], told(second)["join"]) == ("10.10.11.232", "172.16.7.21")
        assert PASSWORD not in told(second).values(), "it joins the first, and needs no account"
    text = "".join(path.read_text(errors="replace") for path in (vsphere.folder / "backend").rglob("*.json*"))
    assert PASSWORD not in text, "it is a secret of the state, like every other"
    assert "adapter2.ip" in text


def servers(ova: Path) -> dict[str, Any]:
    """Two: each takes the provider ten seconds to upload, however small it is."""
    first = {
        "name": "bitfusion01",
        "host": H0,
        "datastore": "LocalDS_0",
        "cpus": 4,
        "memory_mbytes": 16384,
        "address": "172.16.7.21/24",
        "adapters": [{"rail": "rail-a", "address": "10.10.11.231/24"}],
    }
    adapters = [{"rail": "rail-a", "address": "10.10.11.232/24"}]
    second = {**first, "name": "bitfusion02", "host": H2, "address": "172.16.7.22/24", "adapters": adapters}
    return {
        "ova": str(ova),
        "management_network": "VM Network",
        "keys": dict(KEYS),
        "properties": {"licence": "True"},
        "servers": [first, second],
    }


def told(machine: Any) -> dict[str, str]:
    return {one.id: one.value for one in machine.config.vAppConfig.property}


def test_destroy_takes_machines_with_vgpus_away(vsphere: Vsphere) -> None:
    vsphere.pulumi("destroy")

    with session(vsphere.endpoint) as vcenter:
        names = {one.name for one in vcenter.host(H0).parent.parent.parent.vmFolder.childEntity}
    assert not names & {"gpu01", "gpu02", "plane01", "plane02", "plane03", "bitfusion01", "bitfusion02"}


def test_nothing_was_called_that_the_role_does_not_have(vsphere: Vsphere) -> None:
    called = Control(vsphere.folder / SOCKET).calls()

    assert CALLED["test_machines"] - set(called) == set(), "the role has them, and no run here needs them"
    assert beyond_the_role(called, BY_HAND) == []

"""What the preflight reads of hosts' cards and drivers, over the API of a simulated vCenter."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.fabric.preflight.facts import ACROSS, ONE_NODE, HostFacts
from components.fabric.preflight.judge import unlike
from components.fabric.preflight.survey import Scope, survey
from components.fabric.vcenter.client import session
from components.fabric.vcenter.nics import choose
from components.fabric.vcenter.session import VcenterEndpoint
from simulator.vcenter.control import SOCKET, Control
from stacks.base import LabError
from stacks.fabric import UplinkChoice
from tests.integration.conftest import require_engine
from tests.integration.vcenter import HOSTS, running
from tests.messages import lines_naming

pytestmark = [pytest.mark.sim, pytest.mark.whole]

H0, H1, H2, H3 = HOSTS
GPUS = ("0000:5e:00.0", "0000:5e:01.0")
ESXCLI = ("RetrieveManagedMethodExecuter", "ExecuteSoap")


@pytest.fixture
def vcenter(tmp_path: Path) -> Iterator[tuple[VcenterEndpoint, Control]]:
    require_engine()
    control = tmp_path / SOCKET
    with running(tmp_path, f"-control={control}") as endpoint:
        yield endpoint, Control(control)


def read(endpoint: VcenterEndpoint, *, gpus: bool = True) -> dict[str, HostFacts]:
    scope = Scope(datacenter="DC0", cluster="DC0_C0", hosts=HOSTS, machines=False, gpus=gpus)
    with session(endpoint) as opened:
        return dict(survey(opened, scope).hosts)


def warnings(found: dict[str, HostFacts]) -> list[str]:
    chosen = {name: (host, nic) for name, host in found.items() if (nic := host.nic("vmnic4"))}
    assert len(chosen) == len(found)
    return list(unlike("roce", chosen, HOSTS))


def test_cards_drivers_and_places_are_read_and_alike_hosts_give_no_word(
    vcenter: tuple[VcenterEndpoint, Control],
) -> None:
    endpoint, control = vcenter

    found = read(endpoint)

    nic = found[H0].nic("vmnic4")
    assert nic is not None
    assert (nic.driver, nic.driver_version, nic.firmware) == ("nmlx5_core", "4.23.0.36", "16.35.3006")
    assert found[H0].vgpu_driver == "NVIDIA-VMware_ESXi_8.0_Host_Driver 535.154.02"
    assert (found[H0].gpus, found[H0].gpus_from(nic)) == (GPUS, f"2 {ONE_NODE}")
    assert warnings(found) == []
    assert control.calls()["ExecuteSoap"] == len(HOSTS), "for the vGPU driver; this ESXi tells the rest without"


@pytest.mark.row("B 15-23")
def test_an_older_esxi_is_asked_for_the_driver_of_its_rdma_nics_by_esxcli(
    vcenter: tuple[VcenterEndpoint, Control],
) -> None:
    endpoint, control = vcenter
    control.change_host(H1, version="7.0.3", nic="vmnic4", driver_version="4.21.71.101")

    found = read(endpoint)

    nics = {nic.name: (nic.driver_version, nic.firmware) for nic in found[H1].nics}
    assert nics["vmnic4"] == ("4.21.71.101", "16.35.3006")
    assert nics["vmnic5"] == ("4.23.0.36", "16.35.3006")
    assert nics["vmnic0"] == ("", ""), "it can be nobody's rail"
    assert control.calls()["ExecuteSoap"] == 2 + len(HOSTS), "besides the vGPU driver"
    (differ,) = [one for one in warnings(found) if "driver version of the uplink" in one]
    assert (differ.partition(": ")[0], differ.rpartition(": ")[2]) == (
        "roce",
        f"4.21.71.101 on {H1}; 4.23.0.36 on {H0}, {H2}, {H3}",
    )


def test_an_esxi_before_7_is_asked_for_its_rdma_devices_by_esxcli(vcenter: tuple[VcenterEndpoint, Control]) -> None:
    endpoint, control = vcenter
    for host in (H0, H1):
        control.change_host(host, version="6.7.0")
    control.change_host(H1, nic="vmnic5", link_mbit=0)

    found = read(endpoint, gpus=False)
    calls = control.calls()["ExecuteSoap"]
    with session(endpoint) as opened:
        network = opened.host(H0).config.network
        again = [opened.nics(opened.host(H0)) for _ in range(3)][-1]

    assert not network.rdmaDevice, "its description has none"
    assert [(nic.name, nic.rdma_device, nic.rdma_state) for nic in found[H1].nics if nic.rdma_device] == [
        ("vmnic4", "vmrdma0", "active"),
        ("vmnic5", "vmrdma1", "down"),
    ]
    assert [(nic.name, nic.rdma_device) for nic in again] == [(nic.name, nic.rdma_device) for nic in found[H2].nics]
    assert calls == 2 * (1 + 2), "a host is asked for its devices once, and for the driver of either NIC"
    assert control.calls()["ExecuteSoap"] == calls + 1, "once a session"


def test_a_host_without_permission_is_not_reported_as_lacking_an_rdma_device(
    vcenter: tuple[VcenterEndpoint, Control],
) -> None:
    endpoint, control = vcenter
    control.change_host(H1, version="6.7.0")
    control.fault("refuse", method=ESXCLI[0], privilege="Host.Config.Settings")

    nics = read(endpoint, gpus=False)[H1].nics

    for asked in ({"rdma_device": "vmrdma0"}, {"name": "vmnic4"}):
        with pytest.raises(LabError) as said:
            choose(H1, nics, UplinkChoice.model_validate(asked), "roce", rdma=True)
        assert lines_naming(str(said.value), f"{H1}:", *asked.values(), "7.0", "esxcli")
        assert lines_naming(str(said.value), "fabric.user", "Host.Config.Settings")


def test_without_permission_the_version_is_unknown_and_the_run_continues(
    vcenter: tuple[VcenterEndpoint, Control],
) -> None:
    endpoint, control = vcenter
    control.change_host(H1, version="7.0.3")
    for method in ESXCLI:
        control.fault("refuse", method=method, privilege="Host.Config.Image")

    found = read(endpoint)

    assert {nic.driver_version for nic in found[H1].nics} == {""}
    assert found[H1].vgpu_driver == ""
    assert found[H1].version == "7.0.3"


@pytest.mark.row("B 300")
def test_a_card_in_another_slot_is_seen_with_its_way_to_the_gpus(vcenter: tuple[VcenterEndpoint, Control]) -> None:
    endpoint, control = vcenter
    control.change_host(H0, nic="vmnic4", pci="0000:af:00.0")

    said = warnings(read(endpoint))

    assert [one.partition(": ")[0] for one in said] == ["roce", "roce"]
    assert [one.rpartition(": ")[2] for one in said] == [
        f"0000:af:00.0 on {H0}; 0000:3b:00.0 on {H1}, {H2}, {H3}",
        f"2 {ACROSS} on {H0}; 2 {ONE_NODE} on {H1}, {H2}, {H3}",
    ]


def test_cards_are_not_read_where_no_vgpu_is_asked_for(vcenter: tuple[VcenterEndpoint, Control]) -> None:
    endpoint, control = vcenter

    found = read(endpoint, gpus=False)

    assert (found[H0].numa_nodes, found[H0].vgpu_driver) == ({}, "")
    assert "ExecuteSoap" not in control.calls()

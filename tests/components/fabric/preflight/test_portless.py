"""Ports that have no NIC: named where a host has no uplink, with what keeps them from being one."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from components.fabric.preflight import survey as preflight
from components.fabric.preflight.facts import FabricFacts
from components.fabric.preflight.judge import judge
from components.fabric.preflight.survey import portless, without_vmnic
from tests.components.fabric.preflight.facts import HOST, NIC, a_switch
from tests.messages import states

MELLANOX, INTEL = 0x15B3, -32634  # 0x8086, as the API's signed short has it


def port(address: str, kind: int, vendor: int = MELLANOX, name: str = "MT28908 Family [ConnectX-6]") -> Any:
    return SimpleNamespace(id=address, classId=kind, vendorId=vendor, deviceName=name)


def test_a_port_in_infiniband_mode_is_named_with_the_setting_that_makes_it_a_nic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    devices = [port(NIC.pci, 0x0200), port("0000:3b:00.1", 0x0207), port("0000:5e:00.0", 0x0200)]
    monkeypatch.setattr(preflight, "collect", lambda *_: [{"hardware.pciDevice": devices}])
    vcenter: Any = SimpleNamespace(host=lambda name: name, content=None)

    first, second = without_vmnic(vcenter, [HOST])

    assert states(first, "esx1", "0000:3b:00.1", "vmnic", "InfiniBand", "LINK_TYPE_P1=2")
    assert states(second, "esx1", "0000:5e:00.0", "vmnic", "vmkernel.log")
    assert "InfiniBand" not in second


@pytest.mark.parametrize(
    "other",
    [
        port(NIC.pci, 0x0200),
        port("0000:3b:00.1", 0x0207, vendor=INTEL),
        port("0000:3b:00.2", 0x0200, name="MT28908 Family [ConnectX-6 Virtual Function]"),
        port("0000:17:00.0", 0x0604),
    ],
)
def test_nics_other_makers_functions_of_machines_and_bridges_are_not(other: Any) -> None:
    assert list(portless([other], {NIC.pci})) == []


def test_only_hosts_without_an_uplink_are_asked_for() -> None:
    hosts = {"esx1": HOST, "esx2": replace(HOST, name="esx2", nics=())}

    said = judge([a_switch()], FabricFacts(hosts=hosts, switches={}), {"pvrdma": 1500}, frozenset())

    assert said.unlinked == ("esx2",)

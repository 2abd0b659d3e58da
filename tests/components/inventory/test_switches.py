"""What is read of a switch, from the answers in tests/samples/switches (its README names their sources)."""

import asyncio
import json
from collections.abc import Mapping

import pytest

from components.inventory.model import MacEntry, Neighbour, Switch
from components.inventory.reading import known
from components.inventory.switches import (
    EOS_LLDP,
    EOS_MACS,
    EOS_PORTS,
    NVUE_MACS,
    NVUE_PORTS,
    SONIC_MACS,
    WAYS,
    SwitchOs,
    eos_macs,
    read_switch,
)
from components.switches.dialect import RefusedError
from tests.conftest import ROOT

SAMPLES = ROOT / "tests" / "samples" / "switches"
HEARD = Neighbour(system="gpu01", chassis_id="aa:bb:cc:dd:ee:01", port_id="enp5s0", port_description="enp5s0")


class Recorded:
    """A conversation with a switch that gives these answers and refuses all else."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.answers, self.asked = answers, list[str]()

    async def ask(self, command: str) -> str:
        self.asked.append(command)
        if command not in self.answers:
            raise RefusedError(f"the switch refuses `{command}`")
        return self.answers[command]


def sample(system: str) -> dict[str, str]:
    found = json.loads((SAMPLES / f"{system}.json").read_text())
    return {command: text if isinstance(text, str) else json.dumps(text) for command, text in found.items()}


def read(system: SwitchOs, **more: str) -> Switch:
    talk = Recorded({**sample(system), **more})
    switch = Switch(name="leaf1", os=system, address="192.0.2.201")
    return asyncio.run(read_switch(talk, WAYS[system], switch))


def test_sonic_tells_ports_neighbours_and_macs() -> None:
    """`show mac` as the command reference of sonic-utilities prints it."""
    table = (
        "  No.    Vlan  MacAddress         Port       Type\n-----  ------  -----------------  ---------  -------\n"
        "    1     111  02:00:00:00:00:0A  Ethernet0  Dynamic\nTotal number of entries 1\n"
    )
    switch = read("sonic", **{SONIC_MACS: table})
    first, second = switch.ports.or_else(())

    assert (first.name, first.mtu_bytes.value, first.vlans.value, first.native_vlan.value) == (
        "Ethernet0",
        9216,
        (111, 4094),
        4094,
    )
    assert first.pfc_priorities.value == (3,)
    assert first.ecn.value == {3: "150-1500 kB"}
    assert first.dscp_priority.or_else({})[26] == 3
    assert second.mtu_bytes.value == 9100, "SONiC's default"
    assert second.pfc_priorities.value == (3, 4)
    assert first.neighbours.or_else(())[0].system == "gpu01"
    assert switch.macs.value == (MacEntry(mac="02:00:00:00:00:0a", port="Ethernet0", vlan_id=111),)


def test_nvue_tells_ports_neighbours_and_macs() -> None:
    """`bridge -j fdb show` as iproute2 prints it; the interfaces as NVUE's object model nests them."""
    answers = sample("nvue")
    ports = {name: json.loads(answers[f"nv show interface {name} --applied -o json"]) for name in ("swp1", "swp2")}
    entry = {
        "mac": "02:00:00:00:00:0a",
        "ifname": "swp1",
        "vlan": 111,
        "flags": [],
        "master": "br_default",
        "state": "",
    }
    own = {**entry, "mac": "02:00:00:00:00:ff", "state": "permanent"}
    switch = read("nvue", **{NVUE_PORTS: json.dumps({**ports, "lo": {}}), NVUE_MACS: json.dumps([own, entry])})
    first, second = switch.ports.or_else(())

    assert (first.name, first.vlans.value, second.vlans.value) == ("swp1", (111, 4094), (10,))
    assert first.neighbours.value == (
        Neighbour(
            system="gpu01", chassis_id="aa:bb:cc:dd:ee:01", port_id="aa:bb:cc:dd:ee:02", port_description="enp5s0"
        ),
    )
    assert second.neighbours.value == ()
    assert switch.macs.value == (MacEntry(mac="02:00:00:00:00:0a", port="swp1", vlan_id=111),)


def test_onyx_tells_ports_and_neighbours_and_no_macs() -> None:
    switch = read("onyx")
    first, second = switch.ports.or_else(())

    assert (first.name, first.mtu_bytes.value) == ("1/1", 9216)
    assert "for which priorities" in first.pfc_priorities.unknown
    assert first.ecn.value == {3: "150-1500 kB"}
    assert first.neighbours.value == (HEARD,)
    assert second.neighbours.value == (), "a port that nobody speaks on"
    assert "refuses" in second.mtu_bytes.unknown, "a question that is refused costs this port's values"
    assert not switch.macs.is_known


def test_eos_tells_ports_neighbours_and_macs() -> None:
    answers = sample("eos")
    names = ("Ethernet1/1", "Ethernet2/1")
    sections = "".join(answers[f"show running-config interfaces {name}"] for name in names)
    lldp = "".join(answers[f"show lldp neighbors {name} detail"] for name in names)
    switch = read("eos", **{EOS_PORTS: f"{sections}interface Management1\n", EOS_LLDP: lldp, EOS_MACS: ""})
    first, second = switch.ports.or_else(())

    assert (first.name, first.mtu_bytes.value, first.vlans.value) == ("Ethernet1/1", 9214, (111, 4094))
    assert first.pfc_priorities.value == (3,)
    assert first.neighbours.value == (HEARD,)
    assert second.neighbours.value == ()
    assert switch.macs == known((), EOS_MACS)


def test_macs_of_eos_have_the_names_of_its_ports() -> None:
    """A line of `show mac address-table` (EOS user manual)."""
    line = " 111    0200.0000.000a    DYNAMIC     Et1/1      1       0:10:00 ago\n"

    assert eos_macs(line) == [MacEntry(mac="02:00:00:00:00:0a", port="Ethernet1/1", vlan_id=111)]


@pytest.mark.parametrize("system", WAYS)
def test_a_switch_is_only_asked(system: SwitchOs) -> None:
    talk = Recorded(sample(system))
    way = WAYS[system]
    talk.answers = {**talk.answers, way.listing: talk.answers.get(way.listing, "{}")}
    asyncio.run(read_switch(talk, way, Switch(name="leaf1", os=system, address="192.0.2.201")))

    reading = ("show ", "nv show ", "sonic-cfggen -d --print-data", "sudo lldpctl -f json", "bridge -j fdb show")
    assert [command for command in talk.asked if not command.startswith(reading)] == []


@pytest.mark.parametrize("system", WAYS)
def test_an_answer_in_another_form_is_unknown(system: SwitchOs) -> None:
    way = WAYS[system]
    broken = dict.fromkeys([way.listing, way.lldp, *way.dialect.questions(["1/1"])], '["surprise"]')
    switch = asyncio.run(read_switch(Recorded(broken), way, Switch(name="leaf1", os=system, address="192.0.2.201")))

    assert not switch.macs.is_known
    assert switch.ports.value in (None, ())

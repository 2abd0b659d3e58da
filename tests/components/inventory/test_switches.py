"""What is read of a switch, from the answers in tests/samples/switches (its README names their sources)."""

import asyncio
import json
from collections.abc import Mapping

import pytest

from components.inventory.model import Switch
from components.inventory.reading import known
from components.inventory.switches import NO_LLDP, NO_MACS, NO_PORTS, read_switch
from components.switches.dialect import Dialect, RefusedError
from components.switches.os import SWITCH_OSES, default_dialect
from components.switches.os.eos import Eos
from components.switches.os.nvue import Nvue
from components.switches.os.sonic import Sonic
from components.switches.settings import Announcement, LearnedMac
from stacks.switches import SonicSwitch
from tests.conftest import ROOT

SAMPLES = ROOT / "tests" / "samples" / "switches"
HEARD = Announcement(system="gpu01", chassis_id="aa:bb:cc:dd:ee:01", port_id="enp5s0", port_description="enp5s0")


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


def read(system: str, **more: str) -> Switch:
    return looked_at(default_dialect(system), Recorded({**sample(system), **more}))


def looked_at(dialect: Dialect, talk: Recorded) -> Switch:
    return asyncio.run(read_switch(talk, dialect, Switch(name="leaf1", os="any", address="192.0.2.201")))


def test_sonic_reports_ports_neighbors_and_macs() -> None:
    """`show mac` as the command reference of sonic-utilities prints it."""
    table = (
        "  No.    Vlan  MacAddress         Port       Type\n-----  ------  -----------------  ---------  -------\n"
        "    1     111  02:00:00:00:00:0A  Ethernet0  Dynamic\nTotal number of entries 1\n"
    )
    switch = read("sonic", **{Sonic.mac_table: table})
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
    assert switch.macs.value == (LearnedMac(mac="02:00:00:00:00:0a", port="Ethernet0", vlan_id=111),)


def test_nvue_reports_ports_neighbors_and_macs() -> None:
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
    switch = read("nvue", **{Nvue.port_list: json.dumps({**ports, "lo": {}}), Nvue.mac_table: json.dumps([own, entry])})
    first, second = switch.ports.or_else(())

    assert (first.name, first.vlans.value, second.vlans.value) == ("swp1", (111, 4094), (10,))
    assert first.neighbours.value == (
        Announcement(
            system="gpu01", chassis_id="aa:bb:cc:dd:ee:01", port_id="aa:bb:cc:dd:ee:02", port_description="enp5s0"
        ),
    )
    assert second.neighbours.value == ()
    assert switch.macs.value == (LearnedMac(mac="02:00:00:00:00:0a", port="swp1", vlan_id=111),)


def test_onyx_reports_ports_and_neighbors_and_no_macs() -> None:
    answers = sample("onyx")
    del answers["show dcb ets interface ethernet 1/2 | json-print"]
    switch = looked_at(default_dialect("onyx"), Recorded(answers))
    first, second = switch.ports.or_else(())

    assert (first.name, first.mtu_bytes.value) == ("1/1", 9216)
    assert "for which priorities" in first.pfc_priorities.unknown
    assert first.ecn.value == {3: "150-1500 kB"}
    assert first.neighbours.value == (HEARD,)
    assert second.neighbours.value == (), "a port that nobody speaks on"
    assert "refuses" in second.mtu_bytes.unknown, "a question that is refused costs this port's values"
    assert not switch.macs.is_known


def test_eos_reports_ports_neighbors_and_macs() -> None:
    answers = sample("eos")
    names = ("Ethernet1/1", "Ethernet2/1")
    sections = "".join(answers[f"show running-config interfaces {name}"] for name in names)
    listing = f"{sections}interface Management1\n"
    switch = read("eos", **{Eos.port_list: listing, Eos.mac_table: ""})
    first, second = switch.ports.or_else(())

    assert (first.name, first.mtu_bytes.value, first.vlans.value) == ("Ethernet1/1", 9214, (111, 4094))
    assert first.pfc_priorities.value == (3,)
    assert first.neighbours.value == (HEARD,)
    assert second.neighbours.value == ()
    assert switch.macs == known((), Eos.mac_table)


class PortsOnly(Sonic):
    """An OS that cannot be asked for all neighbors and MACs."""

    lldp_table = ""
    mac_table = ""


def test_what_a_system_cannot_be_asked_for_is_unknown_with_the_reason() -> None:
    talk = Recorded(sample("sonic"))
    switch = looked_at(PortsOnly(SonicSwitch.model_construct()), talk)
    first, *_ = switch.ports.or_else(())

    assert first.mtu_bytes.value == 9216
    assert first.neighbours.unknown == NO_LLDP
    assert switch.macs.unknown == NO_MACS
    assert "" not in talk.asked


class Mute(Sonic):
    """An OS that cannot be asked for its ports."""

    port_list = ""


def test_a_system_that_cannot_list_its_ports_is_asked_nothing() -> None:
    talk = Recorded(sample("sonic"))

    assert looked_at(Mute(SonicSwitch.model_construct()), talk).ports.unknown == NO_PORTS
    assert talk.asked == []


@pytest.mark.parametrize("system", SWITCH_OSES)
def test_a_switch_is_only_asked(system: str) -> None:
    dialect = default_dialect(system)
    talk = Recorded({dialect.port_list: "{}", **sample(system)})
    looked_at(dialect, talk)

    reading = (
        "show ",
        "nv show ",
        "cat /etc/os-release",
        "sonic-cfggen -d --print-data",
        "sudo lldpctl -f json",
        "bridge -j fdb show",
    )
    assert [command for command in talk.asked if not command.startswith(reading)] == []


@pytest.mark.parametrize("system", SWITCH_OSES)
def test_an_answer_in_another_form_is_unknown(system: str) -> None:
    dialect = default_dialect(system)
    asked = [dialect.port_list, dialect.lldp_table, *dialect.questions(["1/1"])]
    switch = looked_at(dialect, Recorded(dict.fromkeys(asked, '["surprise"]')))

    assert not switch.macs.is_known
    assert switch.ports.value in (None, ())

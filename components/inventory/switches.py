"""Switches, by questions alone: ports with what they are set to, who is heard on them, and where MACs were learned."""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from ipaddress import IPv4Address
from typing import Literal, cast

from components.inventory.hosts import UNPINNED, pinned
from components.inventory.model import MacEntry, Neighbour, Switch, SwitchPort
from components.inventory.reading import Reading, known, unknown
from components.ssh.connection import Endpoint, Keys, NoAnswerError, in_short, offered_key
from components.switches.dialect import LLDPCTL, AnswerError, Dialect, RefusedError, numbers_in
from components.switches.os import dialect_of
from components.switches.os.onyx import ALL_LLDP, ALL_SWITCHPORTS
from components.switches.os.sonic import DATABASE
from components.switches.settings import PortSettings
from components.switches.talk import Talk, talking
from stacks.access import KnownHosts
from stacks.base import members
from stacks.switches import Switch as Model

SwitchOs = Literal["onyx", "nvue", "sonic", "eos"]
SWITCH_S = 45.0
"""For a whole switch: some have several questions for each port."""
EVERYTHING = PortSettings(
    description="",
    mode=None,
    native_vlan=None,
    tagged_vlans="",
    mtu_bytes=0,
    dscp_priority=dict.fromkeys(range(64), 0),
    ecn=dict.fromkeys(range(8)),
    pfc=dict.fromkeys(range(8), False),
)
"""Asks a dialect for each code point, traffic class and priority."""
NVUE_PORTS = "nv show interface --applied -o json"
SONIC_MACS, NVUE_MACS, EOS_MACS = "show mac", "bridge -j fdb show", "show mac address-table"
EOS_PORTS, EOS_LLDP = "show running-config interfaces", "show lldp neighbors detail"
SOME_PRIORITIES = "flow control is on, and the answer does not tell for which priorities"
NO_MACS = "the MAC table of this system is not read"


@dataclass(frozen=True, kw_only=True, slots=True)
class SwitchTarget:
    """A switch to look at."""

    name: str
    os: SwitchOs
    address: IPv4Address
    ssh_port: int = 22
    user: str = "admin"


Answers = Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """How a system is asked for what its dialect does not ask for."""

    dialect: Dialect
    listing: str
    ports: Callable[[str], list[str]]
    """In the answer to `listing`."""
    lldp: str
    """One question for all ports."""
    neighbours: Callable[[str, str], list[Neighbour]]
    """In the answer to `lldp`, of a port."""
    macs: str = ""
    """Empty: they are not read."""
    entries: Callable[[str], list[MacEntry]] = field(default=lambda _text: [])
    chassis: Callable[[str], str] = field(default=lambda _text: "")
    """In the answer to `listing`; empty when it does not tell."""
    marking: Callable[[Answers, str], dict[int, str]] | None = None
    """By traffic class, where the dialect looks at one class only."""
    pauses_by_priority: bool = True
    """Whether the dialect tells which priorities are paused, and not only that some are."""
    speed: Callable[[Answers, str], int | None] = field(default=lambda _answers, _port: None)


async def look_at_switch(target: SwitchTarget, keys: Keys, known_hosts: KnownHosts) -> Switch:
    """A switch; one that does not answer is given with the reason."""
    switch = Switch(name=target.name, os=target.os, address=str(target.address), ssh_port=target.ssh_port)
    host_key = pinned(known_hosts, (str(target.address), target.name), target.ssh_port)
    try:
        if not host_key:
            offered = await offered_key(str(target.address), target.ssh_port)
            return replace(switch, unread=UNPINNED, offered_key=offered)
        way = WAYS[target.os]
        endpoint = Endpoint(address=str(target.address), port=target.ssh_port, user=target.user, host_key=host_key)
        async with asyncio.timeout(SWITCH_S), talking(endpoint, keys, "", way.dialect.sitting("", 300)) as talk:
            return await read_switch(talk, way, replace(switch, host_key=host_key, read_at=datetime.now(UTC)))
    except TimeoutError:
        return replace(switch, unread=f"it gave no answer within {SWITCH_S:.0f} s")
    except (NoAnswerError, RefusedError) as error:
        return replace(switch, unread=str(error).removeprefix(f"{target.address}:{target.ssh_port} "))
    except Exception as error:  # noqa: BLE001  # whatever one switch does, the others are read
        return replace(switch, unread=f"{type(error).__name__}: {in_short(error)}")


async def read_switch(talk: Talk, way: Way, switch: Switch) -> Switch:
    """What a switch answers; what it refuses or says in another form is unknown."""
    answers: dict[str, str] = {way.listing: await talk.ask(way.listing)}
    try:
        names = way.ports(answers[way.listing])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return replace(switch, ports=unknown(f"the answer has another form: {error}"[:160], way.listing))
    refused: dict[str, str] = {}
    for command in dict.fromkeys((way.lldp, *filter(None, (way.macs,)), *way.dialect.questions(names))):
        if command not in answers:
            try:
                answers[command] = await talk.ask(command)
            except RefusedError as error:
                refused[command] = str(error)[:160]
    chassis = way.chassis(answers[way.listing])
    return replace(
        switch,
        chassis_id=known(chassis, way.listing) if chassis else unknown("it does not tell", way.listing),
        ports=known(tuple(_port(way, name, answers, refused) for name in names), way.listing),
        macs=_macs(way, answers, refused),
    )


def _macs(way: Way, answers: Answers, refused: Mapping[str, str]) -> Reading[tuple[MacEntry, ...]]:
    if not way.macs or way.macs in refused:
        return unknown(refused.get(way.macs, NO_MACS), way.macs)
    try:
        return known(tuple(way.entries(answers[way.macs])), way.macs)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return unknown(f"the answer has another form: {error}"[:160], way.macs)


def _port(way: Way, name: str, answers: Answers, refused: Mapping[str, str]) -> SwitchPort:
    port = SwitchPort(name=name, neighbours=_heard(way, name, answers, refused))
    if (speed := way.speed(answers, name)) is not None:
        port = replace(port, speed_mbit_s=known(speed, way.listing))
    questions = way.dialect.questions([name])
    source = questions[0] if len(questions) == 1 else ", ".join(questions)
    if missing := next((refused[each] for each in questions if each in refused), ""):
        return _unread_port(port, missing, source)
    try:
        settings = way.dialect.facts(name, answers, EVERYTHING).settings
        marked = {tc: f"{ecn.min_kbytes}-{ecn.max_kbytes} kB" for tc, ecn in settings.ecn.items() if ecn}
        ecn = way.marking(answers, name) if way.marking else marked
    except (AnswerError, ValueError, KeyError, TypeError, AttributeError) as error:
        return _unread_port(port, str(error)[:160], source)
    paused = known(tuple(sorted(priority for priority, on in settings.pfc.items() if on)), source)
    native = settings.native_vlan or 0
    vlans = {*numbers_in(settings.tagged_vlans), *([native] if native else [])}
    return replace(
        port,
        description=known(settings.description, source),
        mtu_bytes=known(settings.mtu_bytes, source),
        vlans=known(tuple(sorted(vlans)), source),
        native_vlan=known(native, source),
        trust=known(settings.trust or "", source),
        dscp_priority=known(dict(settings.dscp_priority), source),
        pfc_priorities=paused if way.pauses_by_priority or not paused.value else unknown(SOME_PRIORITIES, source),
        ecn=known(ecn, source),
    )


def _unread_port(port: SwitchPort, reason: str, source: str) -> SwitchPort:
    nothing = unknown(reason, source)
    return replace(
        port,
        description=nothing,
        mtu_bytes=nothing,
        vlans=nothing,
        native_vlan=nothing,
        trust=nothing,
        dscp_priority=nothing,
        pfc_priorities=nothing,
        ecn=nothing,
    )


def _heard(way: Way, name: str, answers: Answers, refused: Mapping[str, str]) -> Reading[tuple[Neighbour, ...]]:
    if way.lldp in refused:
        return unknown(refused[way.lldp], way.lldp)
    try:
        return known(tuple(way.neighbours(answers[way.lldp], name)), way.lldp)
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        return unknown(f"the answer has another form: {error}"[:160], way.lldp)


def lldpctl_neighbours(text: str, port: str) -> list[Neighbour]:
    """Of `lldpctl -f json`: one interface is an object, several are a list of them; the same for its neighbours."""
    interfaces = json.loads(text)["lldp"].get("interface", []) if text.strip() else []
    found = []
    for each in interfaces if isinstance(interfaces, list) else [interfaces]:
        if port in each:
            chassis, about = each[port]["chassis"], each[port]["port"]
            # a chassis without a name has no name around it
            system, of = ("", chassis) if "id" in chassis else next(iter(chassis.items()))
            found.append(
                Neighbour(
                    system=str(system),
                    chassis_id=str(of.get("id", {}).get("value", "")),
                    port_id=str(about["id"]["value"]),
                    port_description=str(about.get("descr", "")),
                )
            )
    return found


def onyx_neighbours(text: str, port: str) -> list[Neighbour]:
    """Of Onyx's JSON; a port in a channel is `Eth1/1 (Po100)`, and what nobody says is `Not Advertised`."""
    found = []
    for entry in cast(list[dict[str, list[dict[str, str]]]], json.loads(text)):
        for name, heard in entry.items():
            if name.split()[0] == f"Eth{port}":
                found += [_of_onyx(each) for each in heard]
    return [each for each in found if each != Neighbour()]


def _of_onyx(heard: Mapping[str, str]) -> Neighbour:
    words = ("system name", "chassis id", "port-id", "port description")
    system, chassis, port, description = (
        "" if heard.get(f"Remote {what}", "") == "Not Advertised" else str(heard.get(f"Remote {what}", ""))
        for what in words
    )
    return Neighbour(system=system, chassis_id=chassis.lower(), port_id=port, port_description=description)


def eos_neighbours(text: str, port: str) -> list[Neighbour]:
    """Of `show lldp neighbors detail`: a section for each port, in it one for each neighbour."""
    section = re.search(rf"^Interface {re.escape(port)} detected.*?(?=^Interface |\Z)", text, re.MULTILINE | re.DOTALL)
    found = []
    for block in re.split(r"^ +Neighbor ", section[0], flags=re.MULTILINE)[1:] if section else []:
        system, chassis, port_id, description = (
            _word(rf'{what} *: "?([^"\n]+?)"?$', block)
            for what in ("System Name", "Chassis ID", "Port ID", "Port Description")
        )
        found.append(
            Neighbour(system=system, chassis_id=colons(chassis), port_id=colons(port_id), port_description=description)
        )
    return found


def sonic_macs(text: str) -> list[MacEntry]:
    """Lines of `show mac` such as `1  111  02:00:00:00:00:01  Ethernet0  Dynamic`."""
    lines = re.findall(r"^\s*\d+\s+(\d+)\s+([0-9A-Fa-f:]{17})\s+(\S+)", text, re.MULTILINE)
    return [MacEntry(mac=mac.lower(), port=port, vlan_id=int(vlan)) for vlan, mac, port in lines]


def nvue_macs(text: str) -> list[MacEntry]:
    """Of `bridge -j fdb show`, without the ports' own addresses."""
    return [
        MacEntry(mac=str(entry["mac"]), port=str(entry["ifname"]), vlan_id=int(entry.get("vlan", 0)))
        for entry in json.loads(text or "[]")
        if entry.get("state") != "permanent" and "master" in entry
    ]


def eos_macs(text: str) -> list[MacEntry]:
    """Lines of EOS such as ` 111    0200.0000.0001    DYNAMIC     Et1/1      1       0:10:00 ago`."""
    lines = re.findall(r"^\s*(\d+)\s+([0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4})\s+\w+\s+Et(\S+)", text, re.MULTILINE)
    return [MacEntry(mac=colons(mac), port=f"Ethernet{port}", vlan_id=int(vlan)) for vlan, mac, port in lines]


def colons(text: str) -> str:
    """`0200.0000.0001` as other systems write it; other texts as they are."""
    if not re.fullmatch(r"[0-9a-f]{4}(\.[0-9a-f]{4}){2}", text):
        return text
    digits = text.replace(".", "")
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def _word(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1].strip() if found else ""


def _sonic_port(text: str, port: str) -> Mapping[str, str]:
    return cast(Mapping[str, str], json.loads(text)["PORT"][port])


def _sonic_speed(answers: Answers, port: str) -> int | None:
    with suppress(ValueError, KeyError, TypeError):
        return int(_sonic_port(answers[DATABASE], port)["speed"])
    return None


def sonic_marking(answers: Answers, port: str) -> dict[int, str]:
    """Thresholds of the queues that mark; a queue's key may name several, and old versions refer in brackets."""
    database = json.loads(answers[DATABASE])
    found: dict[int, str] = {}
    for key, about in database.get("QUEUE", {}).items():
        member, _, classes = key.rpartition("|")
        name = str(about.get("wred_profile", "")).strip("[]").rpartition("|")[2]
        profile = database.get("WRED_PROFILE", {}).get(name, {})
        if member == port and profile.get("ecn", "ecn_none") != "ecn_none":
            least, most = (int(profile[f"green_{end}_threshold"]) // 1000 for end in ("min", "max"))
            found |= dict.fromkeys(numbers_in(classes), f"{least}-{most} kB")
    return found


def _sonic_chassis(text: str) -> str:
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(text)["DEVICE_METADATA"]["localhost"]["mac"]).lower()
    return ""


def _named(pattern: str, names: Iterable[str]) -> list[str]:
    """Those of a form, in the order of their numbers."""
    found = [name for name in names if re.fullmatch(pattern, name)]
    return sorted(found, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def _eos_ports(text: str) -> list[str]:
    return _named(r"Ethernet\d+(/\d+)*", re.findall(r"^interface (\S+)", text, re.MULTILINE))


def _dialect(system: str) -> Dialect:
    """With the settings that a lab file has by default."""
    return dialect_of(cast(Model, members(Model, "os")[system].model_construct(os=system)))


WAYS: Mapping[SwitchOs, Way] = {
    "sonic": Way(
        dialect=_dialect("sonic"),
        listing=DATABASE,
        ports=lambda text: _named(r"Ethernet\d+", json.loads(text)["PORT"]),
        lldp=LLDPCTL,
        neighbours=lldpctl_neighbours,
        macs=SONIC_MACS,
        entries=sonic_macs,
        chassis=_sonic_chassis,
        marking=sonic_marking,
        speed=_sonic_speed,
    ),
    "nvue": Way(
        dialect=_dialect("nvue"),
        listing=NVUE_PORTS,
        ports=lambda text: _named(r"swp\d+(s\d+)?", json.loads(text)),
        lldp=LLDPCTL,
        neighbours=lldpctl_neighbours,
        macs=NVUE_MACS,
        entries=nvue_macs,
    ),
    "onyx": Way(
        dialect=_dialect("onyx"),
        listing=ALL_SWITCHPORTS,
        ports=lambda text: _named(r"\d+/\d+(/\d+)?", (name.removeprefix("Eth") for name in json.loads(text))),
        lldp=ALL_LLDP,
        neighbours=onyx_neighbours,
        pauses_by_priority=False,
    ),
    "eos": Way(
        dialect=_dialect("eos"),
        listing=EOS_PORTS,
        ports=_eos_ports,
        lldp=EOS_LLDP,
        neighbours=eos_neighbours,
        macs=EOS_MACS,
        entries=eos_macs,
    ),
}


async def look_at_switches(targets: Sequence[SwitchTarget], keys: Keys, known_hosts: KnownHosts) -> tuple[Switch, ...]:
    """All switches at the same time, in their order."""
    return tuple(await asyncio.gather(*(look_at_switch(target, keys, known_hosts) for target in targets)))

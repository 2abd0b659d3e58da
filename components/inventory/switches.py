"""Switches, read only: ports with their settings and neighbors, and learned MACs."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import IPv4Address
from typing import Any, TypeVar

from components.inventory.hosts import UNPINNED, pinned, why_unread
from components.inventory.model import Switch, SwitchPort
from components.inventory.reading import Reading, known, unknown
from components.ssh.connection import Endpoint, Keys, offered_key
from components.switches.dialect import AnswerError, Dialect, RefusedError, numbers_in
from components.switches.os import default_dialect
from components.switches.settings import Announcement, PortSettings
from components.switches.talk import Talk, talking
from stacks.access import KnownHosts
from stacks.frozen import frozen

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
SETTINGS = (
    "mtu_bytes",
    "vlans",
    "native_vlan",
    "trust",
    "dscp_priority",
    "pfc_priorities",
    "ecn",
)
"""What a port is set to."""
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, StopIteration)
"""What a parser raises for an answer in an unknown format."""
SOME_PRIORITIES = "flow control is on, and the answer does not say for which priorities"
NO_PORTS = "the port list of this system is not read"
NO_LLDP = "the LLDP neighbors of this system are not read"
NO_MACS = "the MAC table of this system is not read"

Answers = Mapping[str, str]
T = TypeVar("T")


@frozen
class SwitchTarget:
    """A switch to look at."""

    name: str
    os: str
    """As in a lab file, `switches[].os`."""
    address: IPv4Address
    ssh_port: int = 22
    user: str = "admin"


async def look_at_switch(target: SwitchTarget, keys: Keys, known_hosts: KnownHosts) -> Switch:
    """A switch; one that does not answer is given with the reason."""
    switch = Switch(
        name=target.name, os=target.os, address=str(target.address), ssh_port=target.ssh_port
    )
    host_key = pinned(known_hosts, (str(target.address), target.name), target.ssh_port)
    try:
        if not host_key:
            offered = await offered_key(str(target.address), target.ssh_port)
            return replace(switch, unread=UNPINNED, offered_key=offered)
        dialect = default_dialect(target.os)
        endpoint = Endpoint(
            address=str(target.address), port=target.ssh_port, user=target.user, host_key=host_key
        )
        async with (
            asyncio.timeout(SWITCH_S),
            talking(endpoint, keys, "", dialect.session("", 300)) as talk,
        ):
            return await read_switch(
                talk, dialect, replace(switch, host_key=host_key, read_at=datetime.now(UTC))
            )
    except TimeoutError:
        return replace(switch, unread=f"it did not answer within {SWITCH_S:.0f} s")
    except Exception as error:  # noqa: BLE001  # whatever one switch does, the others are read
        return replace(switch, unread=why_unread(error, switch.address, switch.ssh_port))


async def read_switch(talk: Talk, dialect: Dialect, switch: Switch) -> Switch:
    """What a switch answers; refused commands and unknown formats are unknown values."""
    listing = dialect.port_list
    if not listing:
        return replace(switch, ports=unknown(NO_PORTS))
    answers: dict[str, str] = {listing: await talk.ask(listing)}
    try:
        names = dialect.listed_ports(answers[listing])
    except MALFORMED as error:
        return replace(
            switch, ports=unknown(f"the answer has an unknown format: {error}"[:160], listing)
        )
    refused: dict[str, str] = {}
    for command in dict.fromkeys(
        (dialect.lldp_table, dialect.mac_table, *dialect.questions(names))
    ):
        if command and command not in answers:
            try:
                answers[command] = await talk.ask(command)
            except RefusedError as error:
                refused[command] = str(error)[:160]

    chassis = dialect.chassis_id(answers[listing])
    chassis_id: Reading[str] = unknown("the answer has no chassis ID", listing)
    if chassis:
        chassis_id = known(chassis, listing)
    return replace(
        switch,
        chassis_id=chassis_id,
        ports=known(tuple(_port(dialect, name, answers, refused) for name in names), listing),
        macs=_read(dialect.mac_table, answers, refused, dialect.learned_macs, NO_MACS),
    )


def _read(
    command: str,
    answers: Answers,
    refused: Mapping[str, str],
    take: Callable[[str], Sequence[T]],
    not_asked: str,
) -> Reading[tuple[T, ...]]:
    """What `take` makes of an answer; `not_asked` is the reason on systems without this command."""
    if not command or command in refused:
        return unknown(refused.get(command, not_asked), command)
    try:
        return known(tuple(take(answers[command])), command)
    except MALFORMED as error:
        return unknown(f"the answer has an unknown format: {error}"[:160], command)


def _port(dialect: Dialect, name: str, answers: Answers, refused: Mapping[str, str]) -> SwitchPort:
    def neighbours(table: str) -> list[Announcement]:
        return dialect.announcements(table, name)

    port = SwitchPort(
        name=name, neighbours=_read(dialect.lldp_table, answers, refused, neighbours, NO_LLDP)
    )
    if (speed := dialect.speed_mbit_s(name, answers)) is not None:
        port = replace(port, speed_mbit_s=known(speed, dialect.port_list))
    questions = dialect.questions([name])
    source = questions[0] if len(questions) == 1 else ", ".join(questions)
    for question in questions:
        if question in refused:
            return _unread_port(port, refused[question], source)
    try:
        settings = dialect.facts(name, answers, EVERYTHING).settings
    except (AnswerError, *MALFORMED) as error:
        return _unread_port(port, str(error)[:160], source)
    paused = known(tuple(sorted(priority for priority, on in settings.pfc.items() if on)), source)
    if paused.value and not dialect.knows_paused_priorities:
        paused = unknown(SOME_PRIORITIES, source)
    native = settings.native_vlan or 0
    vlans = {*numbers_in(settings.tagged_vlans), *([native] if native else [])}
    return replace(
        port,
        mtu_bytes=known(settings.mtu_bytes, source),
        vlans=known(tuple(sorted(vlans)), source),
        native_vlan=known(native, source),
        trust=known(settings.trust or "", source),
        dscp_priority=known(dict(settings.dscp_priority), source),
        pfc_priorities=paused,
        ecn=known(_marking(settings), source),
    )


def _marking(settings: PortSettings) -> dict[int, str]:
    """Thresholds by traffic class, of those that mark."""
    marking = {}
    for tc, ecn in settings.ecn.items():
        if ecn:
            marking[tc] = f"{ecn.min_kbytes}-{ecn.max_kbytes} kB"
    return marking


def _unread_port(port: SwitchPort, reason: str, source: str) -> SwitchPort:
    nothing: Any = dict.fromkeys(SETTINGS, unknown(reason, source))
    return replace(port, **nothing)


async def look_at_switches(
    targets: Sequence[SwitchTarget], keys: Keys, known_hosts: KnownHosts
) -> tuple[Switch, ...]:
    """All switches at the same time, in their order."""
    return tuple(
        await asyncio.gather(*(look_at_switch(target, keys, known_hosts) for target in targets))
    )

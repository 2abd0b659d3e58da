"""What the state has of a switch."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from components.ssh.connection import Endpoint
from components.switches.dialect import ConfigSession, Dialect, by_numbers
from components.switches.os import dialect_of
from components.switches.settings import Cable, PortSettings, cables_of
from components.switches.text import digest_of, switch_text, vlans_of
from components.switches.work import Task
from stacks.base import Section
from stacks.lab import Lab
from stacks.switches import Switch


def in_order(ports: dict[str, PortSettings]) -> dict[str, PortSettings]:
    """The ports by their numbers: the engine keeps no order."""
    return {port: ports[port] for port in sorted(ports, key=by_numbers)}


Ports = Annotated[dict[str, PortSettings], AfterValidator(in_order)]


class SwitchRecord(Section):
    """How to reach and configure a switch; enough to restore it when the lab file no longer names
    it.
    """

    lab: str
    switch: Switch = Field(discriminator="os")
    endpoint: Endpoint
    global_lines: tuple[str, ...] = ()
    text_sha256: str
    """Of the text that `rocelab switches` prints."""

    @property
    def dialect(self) -> Dialect:
        return dialect_of(self.switch)

    @property
    def session(self) -> ConfigSession:
        return self.dialect.session(self.lab, self.switch.confirm_s)


def switch_record(lab: Lab, switch: Switch, host_key: str) -> SwitchRecord:
    """The record that the lab file describes."""
    shared = []
    if lab.qos and switch.allow_global:
        shared = dialect_of(switch).global_lines(lab.qos)
    endpoint = Endpoint(
        address=str(switch.address), port=switch.ssh_port, user=switch.user, host_key=host_key
    )
    return SwitchRecord(
        lab=lab.name,
        switch=switch,
        endpoint=endpoint,
        global_lines=tuple(shared),
        text_sha256=digest_of(switch_text(lab, switch)),
    )


def task_of(record: SwitchRecord, ports: Mapping[str, PortSettings], lab: Lab | None) -> Task:
    """The work on a switch; with the lab, its cables are compared with LLDP."""
    cables: tuple[Cable, ...] = ()
    if lab:
        cables = cables_of(lab, record.switch)
    interfaces = {}
    for node in lab.nodes if lab else ():
        interfaces[node.name] = frozenset(pf.interface for pf in node.pfs)
    return Task(
        lab=record.lab,
        switch=record.switch.name,
        dialect=record.dialect,
        session=record.session,
        ports=ports,
        cables=cables,
        interfaces=interfaces,
        vlans=vlans_of(cables),
        global_lines=record.global_lines,
        save=record.switch.save,
    )

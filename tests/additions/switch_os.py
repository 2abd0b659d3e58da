"""A switch OS that nobody has, as `components/switches/os/toy.py`."""

import re
from collections.abc import Mapping, Sequence

from components.switches.dialect import LLDPCTL, ConfigSession, Dialect, lldpctl_announcements, numbered
from components.switches.settings import Announcement, PortFacts, PortSettings
from stacks.qos import Qos
from stacks.switches import ToySwitch


class Toy(Dialect):
    title = "Toy OS"
    comment = ";"
    port_list = "show mtu"
    lldp_table = LLDPCTL

    def __init__(self, switch: ToySwitch) -> None:
        self._greeting = switch.greeting

    def session(self, lab: str, confirm_s: int) -> ConfigSession:
        return ConfigSession(talk="cli", hello=(self._greeting,), save=("keep",))

    def vlan_lines(self, vlans: Sequence[int]) -> list[str]:
        return [f"vlan {vlan}" for vlan in vlans]

    def port_lines(self, lab: str, port: str, settings: PortSettings, fields: frozenset[str]) -> list[str]:
        return [f"set {port} mtu {settings.mtu_bytes}"] if "mtu_bytes" in fields else []

    def global_lines(self, qos: Qos) -> list[str]:
        return []

    def questions(self, ports: Sequence[str]) -> list[str]:
        return ["show mtu"]

    def facts(self, port: str, answers: Mapping[str, str], declared: PortSettings) -> PortFacts:
        found = re.search(rf"^{port} (\d+)$", answers["show mtu"], re.MULTILINE)
        settings = declared.model_copy(update={"mtu_bytes": int(found[1]) if found else 1500})
        return PortFacts(settings)

    def backup(self) -> str:
        return "show all"

    def checks(self, ports: Sequence[str]) -> list[str]:
        return ["show mtu"]

    def listed_ports(self, answer: str) -> list[str]:
        return numbered(r"toy\d+", answer.split())

    def announcements(self, answer: str, port: str) -> list[Announcement]:
        return lldpctl_announcements(answer, port)

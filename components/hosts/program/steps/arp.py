"""Kernel settings that keep each rail's ARP to itself.

Several NICs of one host must not answer for each other.
"""

from typing import Set

from ..host import Document, Host
from ..step import Before, Fields, Step, interface_of

CONF = "/proc/sys/net/ipv4/conf"
ARP = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}


class Arp(Step):
    """Each rail answers for its own address only."""

    name = "arp"
    order = 440
    effects = {"arp": "none"}

    def target(self, document: Document) -> Fields:
        fields: Fields = {}
        for pf in document["pfs"]:
            fields[f"{pf['interface']}.arp"] = " ".join(f"{key}={ARP[key]}" for key in ARP)
        return fields

    def observed(self, host: Host) -> Fields:
        return {f"{pf['interface']}.arp": self._found(host, pf["interface"]) for pf in host.pfs}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        for field in wrong:
            for key, value in ARP.items():
                host.machine.write(f"{CONF}/{interface_of(field)}/{key}", str(value))

    def before_pf(self, host: Host, pf: str) -> Before:
        return {key: host.machine.read(f"{CONF}/{pf}/{key}") for key in ARP}

    def undo_pf(self, host: Host, pf: str, before: Before) -> None:
        for key, value in before.items():
            host.machine.write(f"{CONF}/{pf}/{key}", value)

    def _found(self, host: Host, pf: str) -> str:
        return " ".join(f"{key}={value}" for key, value in self.before_pf(host, pf).items())

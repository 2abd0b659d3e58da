"""Kernel settings that keep each rail's ARP to itself: several NICs of one host must not answer for
each other.
"""

from typing import Set

from ..host import Document, Host, interface_of
from ..step import Before, Fields, Pf, PfStep

CONF = "/proc/sys/net/ipv4/conf"
ARP = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}


class Arp(PfStep):
    """Each rail answers for its own address only."""

    name = "arp"
    order = 440
    at_boot = True
    effects = {"arp": "none"}

    def target_of(self, document: Document, pf: Pf) -> Fields:
        return {"arp": _text({key: str(value) for key, value in ARP.items()})}

    def observed_of(self, host: Host, pf: Pf) -> Fields:
        return {"arp": _text(self.before_pf(host, pf["interface"]))}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        for field in wrong:
            for key, value in ARP.items():
                host.machine.write(f"{CONF}/{interface_of(field)}/{key}", str(value))

    def before_pf(self, host: Host, pf: str) -> Before:
        return {key: host.machine.read(f"{CONF}/{pf}/{key}") for key in ARP}

    def undo_pf(self, host: Host, pf: str, before: Before) -> None:
        for key, value in before.items():
            host.machine.write(f"{CONF}/{pf}/{key}", value)


def _text(settings: Before) -> str:
    return " ".join(f"{key}={value}" for key, value in settings.items())

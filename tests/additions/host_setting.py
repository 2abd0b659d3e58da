"""Turbo clock rates of the cores, as `components/hosts/program/steps/turbo.py`."""

from ..host import Document, Host
from ..step import Before, Fields, Step

BOOST = "/sys/devices/system/cpu/cpufreq/boost"
VALUES = {"off": "0", "on": "1"}


class Turbo(Step):
    name = "turbo"
    order = 265
    setting = "system.turbo"
    keeps = ("turbo",)
    effects = {"turbo": "none"}

    def target(self, document: Document) -> Fields:
        return {"turbo": document["turbo"]} if "turbo" in document else {}

    def observed(self, host: Host) -> Fields:
        return {"turbo": "on" if host.machine.read(BOOST) == "1" else "off"}

    def apply(self, host: Host, wrong: set[str]) -> None:
        host.machine.write(BOOST, VALUES[host.document["turbo"]])

    def before(self, host: Host) -> Before:
        return {"boost": host.machine.read(BOOST)}

    def undo(self, host: Host, before: Before) -> None:
        host.machine.write(BOOST, before["boost"])

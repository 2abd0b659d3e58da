"""Kernel modules that RDMA needs beside the NIC's driver."""

from typing import List, Set

from ..host import Document, Host
from ..step import Before, Fields, Step


class Modules(Step):
    """Loaded now; the drop-in that loads them at boot is the unit's."""

    name = "modules"
    order = 420
    at_boot = True
    effects = {"modules": "none"}
    repairs = {"modules": "service"}

    def target(self, document: Document) -> Fields:
        return {"modules": sorted(document["modules"])}

    def observed(self, host: Host) -> Fields:
        missing = self._missing(host)
        return {
            "modules": [name for name in sorted(host.document["modules"]) if name not in missing]
        }

    def apply(self, host: Host, wrong: Set[str]) -> None:
        host.machine.must("modprobe", "-a", *self._missing(host))

    def before(self, host: Host) -> Before:
        return {"loaded_by_us": self._missing(host)}

    def undo(self, host: Host, before: Before) -> None:
        host.machine.unload(reversed(before["loaded_by_us"]))

    def _missing(self, host: Host) -> List[str]:
        missing = []
        for name in host.document["modules"]:
            if not host.machine.exists(f"/sys/module/{name}"):
                missing.append(name)
        return missing

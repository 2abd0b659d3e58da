"""The initramfs of a guest, written again after new module options (Bitfusion article).

RDMA modules may be loaded from it, with the options in it instead of those on disk.
"""

import hashlib
from typing import Set

from ..distribution import family
from ..host import Document, Host
from ..machine import Machine
from ..places import MODPROBE_FILE, MODULES_FILE, STATE
from ..step import Before, Fields, Step

WRITTEN_FILE = STATE + "/initramfs"
WRITTEN = "written"
WRITE_S = 600
"""All kernels of a slow machine."""


class Initramfs(Step):
    """After the drop-ins, which it contains. The RHEL family does not need it: its drivers are
    loaded from disk.
    """

    name = "initramfs"
    order = 820
    longest_s = WRITE_S
    effects = {"initramfs": "none"}

    def target(self, document: Document) -> Fields:
        return {"initramfs": WRITTEN} if document.get("initramfs") else {}

    def observed(self, host: Host) -> Fields:
        machine = host.machine
        if family(machine) != "debian" or machine.read(WRITTEN_FILE) == _state(machine):
            return {"initramfs": WRITTEN}
        return {"initramfs": "older than the module options"}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        host.machine.must("update-initramfs", "-k", "all", "-u", timeout_s=WRITE_S)
        host.machine.put(WRITTEN_FILE, _state(host.machine) + "\n")

    def undo(self, host: Host, before: Before) -> None:
        # the drop-ins are already removed, and the initramfs still contains them
        if host.machine.remove(WRITTEN_FILE):
            host.machine.run("update-initramfs", "-k", "all", "-u", timeout_s=WRITE_S)


def _state(machine: Machine) -> str:
    """Digest of what it contains: the two drop-ins, for each installed kernel."""
    kernels = " ".join(machine.names("/lib/modules"))
    content = machine.content(MODPROBE_FILE) + machine.content(MODULES_FILE) + kernels.encode()
    return hashlib.sha256(content).hexdigest()[:16]

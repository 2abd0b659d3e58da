"""A guest with PVRDMA, on a small kernel in a folder. Nothing was recorded: it follows the Bitfusion article."""

import json
from pathlib import Path
from typing import Any

from components.hosts.document import host_document
from components.hosts.program.machine import Done
from stacks.lab import Lab
from tests.components.hosts.kernel import FakeHost, done

DEVICE = "rocep5s0f1"


class PvrdmaGuest(FakeHost):
    """A guest whose first PF is a vmxnet3 with a PVRDMA function beside it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.module_exists = True
        self.comes_up = True
        self.loaded = 0
        self.driver("enp5s0", "vmxnet3")
        self.file("/sys/module/vmw_pvrdma/refcnt", "0")
        self.device("DOWN")

    def device(self, state: str) -> None:
        self.file(f"/sys/class/infiniband/{DEVICE}/ports/1/state", f"{4 if state == 'ACTIVE' else 1}: {state}\n")
        (self.folder / f"sys/bus/pci/devices/0000:05:00.1/infiniband/{DEVICE}").mkdir(parents=True, exist_ok=True)

    def answer(self, words: tuple[str, ...]) -> Done | None:
        match words:
            case ("modprobe", "--dry-run", "--quiet", "vmw_pvrdma"):
                return Done(0 if self.module_exists else 1, "", "")
            case ("modprobe", "-r", "vmw_pvrdma"):
                self.device("DOWN")
                return done()
            case ("modprobe", "vmw_pvrdma"):
                self.loaded += 1
                has_address = bool(self.links["enp5s0"]["addr_info"])
                self.device("ACTIVE" if self.comes_up and has_address else "DOWN")
                return done()
            case ("rdma", "-j", "resource", "show"):
                found = [{"ifname": DEVICE, "qp": 1, "cm_id": 0, "ctx": int(DEVICE in self.opened)}]
                return done(json.dumps(found))
        return None


def pvrdma_document(lab: Lab) -> dict[str, Any]:
    """The document of the lab's first node, with its first PF alone and PVRDMA in place of it."""
    node = lab.nodes[0]
    pf = node.pfs[0].model_copy(update={"driver": "vmxnet3", "vfs": 0, "rdma_device": DEVICE})
    return host_document(lab, node.model_copy(update={"pfs": (pf,)}))

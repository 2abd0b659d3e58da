"""GPUDirect RDMA: the NIC reads and writes GPU memory by the best way that the host has."""

from typing import Any, Dict, Set

from .. import nvidia
from ..host import Document, Host
from ..machine import Machine, StepError
from ..modules_built import PEERMEM_MODULES
from ..step import Before, Fields, Step, section_of

READY = "ready"
PEERMEM = "nvidia_peermem"


class GpuDirect(Step):
    """auto uses the host's best way and reports why; a way that the lab file sets must work."""

    name = "gpudirect"
    order = 590
    at_boot = True
    keeps = ("gpudirect", "iommu_groups", "acs_bridges")
    waits_for = ("driver", "gpu_driver")
    effects = {"gpudirect": "none"}

    def target(self, document: Document) -> Fields:
        gpu = section_of(document, "gpu")
        if not gpu or gpu["driver"]["source"] == "operator":
            return {}  # the driver's container loads what it needs
        return {"gpudirect": READY if gpu["gpudirect"] == "auto" else gpu["gpudirect"]}

    def observed(self, host: Host) -> Fields:
        declared = host.document["gpu"]["gpudirect"]
        if declared == "none":
            return {"gpudirect": "none"}
        way = nvidia.way_of(host)
        if declared == "dmabuf" and way.name != "dmabuf":
            return {"gpudirect": f"not dmabuf: {way.why}"}
        by_peermem = declared == "peermem" or (declared == "auto" and way.name == "peermem")
        if by_peermem and not _peermem_is_loaded(host.machine):
            return {"gpudirect": f"{PEERMEM} not loaded"}
        return {"gpudirect": READY if declared == "auto" else declared}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        declared = host.document["gpu"]["gpudirect"]
        if declared == "dmabuf":
            raise StepError(
                "the lab file sets GPUDirect by dmabuf, but this host reports: "
                f"{self.observed(host)['gpudirect']}",
                "fix that, or set gpu.gpudirect: auto",
            )
        done = host.machine.run("modprobe", "-a", PEERMEM)
        if done.code:
            raise StepError(
                f"{PEERMEM} cannot be loaded: {done.err.strip()[-200:]}",
                "it needs the peer memory interface of DOCA-OFED, and a GPU driver built after "
                "that was installed",
            )

    def facts(self, host: Host) -> Dict[str, Any]:
        way = nvidia.way_of(host)
        path = nvidia.path_facts(host)
        slow = nvidia.slow_path(path) if way.name != "none" else []
        return {
            "gpudirect": f"{way.name}: {way.why}",
            **path,
            **({"warnings": slow} if slow else {}),
        }

    def before(self, host: Host) -> Before:
        return {"peermem_loaded": _peermem_is_loaded(host.machine)}

    def undo(self, host: Host, before: Before) -> None:
        if not before["peermem_loaded"]:
            host.machine.unload([PEERMEM])


def _peermem_is_loaded(machine: Machine) -> bool:
    return any(machine.exists(f"/sys/module/{name}") for name in PEERMEM_MODULES)

"""GPUDirect RDMA: the NIC reads and writes GPU memory by the best way that the host has."""

import re
from typing import Any, Dict, List, NamedTuple, Set, Tuple, Union

from ..host import Document, Host
from ..look import pci
from ..look.leaves import UnknownError
from ..machine import Machine, StepError
from ..modules_built import PEERMEM_MODULES, running_kernel
from ..step import Before, Fields, Step, section_of
from .gpu import Gpus, gpus

READY = "ready"
PEERMEM = "nvidia_peermem"
WITHOUT_OPEN_MODULE = ("Kepler", "Maxwell", "Pascal", "Volta")
"""NVIDIA's open kernel modules begin with Turing."""
PEER_API = "ib_register_peer_memory_client"
"""The kernel symbol that nvidia_peermem needs: in NVIDIA's OFED and in Ubuntu's kernels, not in
mainline."""


class Way(NamedTuple):
    """How a NIC reaches GPU memory on a host, and why so."""

    name: str
    """dmabuf, peermem or none."""
    why: str


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
        way = way_of(host)
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
        way = way_of(host)
        path = path_facts(host)
        slow = slow_path(path) if way.name != "none" else []
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


def gpudirect_way(gpu: Gpus, open_module: bool, kernel: str, peer_api: bool) -> Way:
    """The best way that GPU, driver and kernel allow.

    DMA-BUF needs Turing or newer, the open kernel module, CUDA 11.7 (driver 515) and Linux 5.12;
    peermem needs the peer memory interface in ib_core (GPU Operator documentation, "GPUDirect RDMA
    and GPUDirect Storage"). Volta, as in the DGX-1 of the DeepOps RoCE guide, has no open module:
    only peermem, with driver 580 at most. GeForce has neither.
    """
    if gpu.trouble or not gpu.attached:
        return Way("none", gpu.trouble or "no GPU")
    if gpu.brand == "GeForce":
        return Way("none", f"{gpu.product} is a GeForce")
    reason = ""
    if gpu.architecture in WITHOUT_OPEN_MODULE:
        reason = f"{gpu.architecture} has no open kernel module"
    elif not open_module:
        reason = "the proprietary kernel module is loaded"
    elif _numbers(kernel) < (5, 12):
        reason = f"kernel {kernel} is older than 5.12"
    elif _numbers(gpu.driver) < (515,):
        reason = f"driver {gpu.driver} is older than 515"
    else:
        return Way("dmabuf", f"{gpu.architecture or gpu.product}, open module, kernel {kernel}")
    if peer_api:
        return Way("peermem", reason)
    return Way("none", f"{reason}, and ib_core has no peer memory interface, which DOCA-OFED adds")


def way_of(host: Host) -> Way:
    machine = host.machine
    return gpudirect_way(
        gpus(host),
        "Open Kernel Module" in machine.read("/proc/driver/nvidia/version"),
        running_kernel(machine),
        PEER_API in machine.read("/proc/kallsyms"),
    )


def path_facts(host: Host) -> Dict[str, Any]:
    """What slows the path between NIC and GPU: an IOMMU that translates, and ACS."""
    machine = host.machine
    groups = machine.names("/sys/kernel/iommu_groups")
    kinds = {machine.read(f"/sys/kernel/iommu_groups/{group}/type") for group in groups}
    iommu = "off" if not groups else "passthrough" if kinds <= {"identity"} else "translating"
    return {"iommu_groups": iommu, "acs_bridges": _redirecting_bridges(host)}


def _redirecting_bridges(host: Host) -> Union[List[str], str]:
    """Bridges with ACS between a rail's NIC and its nearest GPUs, or why they are unknown."""
    machine = host.machine
    names = [machine.read(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")]
    if pci.HYPERVISORS.search(" ".join(names)):
        return "unknown: the hypervisor of this virtual machine sets ACS"
    between = set()
    try:
        for pf in host.pfs:
            between.update(pci.bridges_to_gpus(machine, host.pci_address(pf["interface"])))
        return sorted(between.intersection(pci.acs_bridges(machine)))
    except (UnknownError, OSError) as error:
        return f"unknown: {error}"


def slow_path(path: Dict[str, Any]) -> List[str]:
    """Warnings about a slow path between GPUs and NICs on bare metal."""
    warnings = []
    if path["iommu_groups"] == "translating":
        warnings.append(
            "the IOMMU translates NIC-to-GPU writes, which costs bandwidth: set the kernel "
            "argument iommu=pt (system.kernel_arguments.iommu: auto)"
        )
    redirecting = path["acs_bridges"]
    if redirecting and isinstance(redirecting, list):
        warnings.append(
            f"ACS of {', '.join(redirecting)} sends NIC-to-GPU writes through the root complex, "
            f"which costs bandwidth or hangs GPUDirect: {pci.ACS_REMEDY}"
        )
    return warnings


def _numbers(version: str) -> Tuple[int, ...]:
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else ()

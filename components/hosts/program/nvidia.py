"""GPUs as the driver's own tools show them, and how a NIC can reach their memory."""

import re
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Tuple, Union

from .host import Host
from .look import pci
from .look.leaves import UnknownError
from .machine import Done

if TYPE_CHECKING:
    from xml.etree import ElementTree as ET

SMI_S = 90
"""Without persistence mode, nvidia-smi has to wake each GPU."""
WITHOUT_OPEN_MODULE = ("Kepler", "Maxwell", "Pascal", "Volta")
"""NVIDIA's open kernel modules begin with Turing."""
PEER_API = "ib_register_peer_memory_client"
"""The kernel symbol that nvidia_peermem needs: in NVIDIA's OFED and in Ubuntu's kernels, not in
mainline."""


class Gpus(NamedTuple):
    """What nvidia-smi reports, for all GPUs of a host together.

    They are expected to be of one model.
    """

    driver: str
    cuda: str
    attached: int
    product: str
    brand: str
    architecture: str
    trouble: str
    """Why nothing is known about the GPUs; empty otherwise."""


class Way(NamedTuple):
    """How a NIC reaches GPU memory on a host, and why so."""

    name: str
    """dmabuf, peermem or none."""
    why: str


def report(host: Host) -> "ET.Element":
    """What nvidia-smi reports of all GPUs; it runs once until something changes."""
    # XML takes 10 ms to import, and most labs do not ask for GPUs
    from .look.gpu import QUERY, report_in  # noqa: PLC0415

    def query() -> Done:
        return host.machine.run(*QUERY, timeout_s=SMI_S)

    return report_in(host.remembered("nvidia-smi", query))


def gpus(host: Host) -> Gpus:
    try:
        return gpus_in(report(host))
    except UnknownError as error:
        return Gpus("", "", 0, "", "", "", str(error)[:150])


def gpus_in(report: "ET.Element") -> Gpus:
    """The first GPU's names, and what is common to all.

    Drivers before 470 report no architecture.
    """
    from .look.gpu import text_of  # noqa: PLC0415  # as above

    product = text_of(report, "gpu/product_name")
    return Gpus(
        text_of(report, "driver_version"),
        text_of(report, "cuda_version"),
        int(text_of(report, "attached_gpus") or 0),
        product,
        text_of(report, "gpu/product_brand"),
        text_of(report, "gpu/product_architecture") or architecture_of(product),
        "",
    )


def architecture_of(product: str) -> str:
    """By the marketing name, of data-centre GPUs only; empty for others."""
    table = (
        (r"\b[PG]?V100|TITAN V", "Volta"),
        (r"\bP(4|40|100)\b", "Pascal"),
        (r"\bT4\b|RTX [3-8]000", "Turing"),
        (r"\bA(2|10|16|30|40|100|800)\b|RTX A", "Ampere"),
        (r"\bL(4|20|40S?)\b", "Ada Lovelace"),
        (r"\bG?H(20|100|200|800)\b", "Hopper"),
        (r"\bG?B(100|200|300)\b", "Blackwell"),
    )
    return next((name for pattern, name in table if re.search(pattern, product)), "")


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
        machine.read("/proc/sys/kernel/osrelease"),
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

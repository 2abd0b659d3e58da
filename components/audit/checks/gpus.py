"""GPUs: all there, at full speed, without errors of memory and links."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from components.audit.checks.pcie import pci_missing
from components.audit.findings import Faults, Severity
from components.audit.fleet import Place
from components.audit.registry import PRACTICE, check
from components.audit.view import View, fault
from components.hosts.program.look.gpu import LOST
from components.inventory.model import Gpu, GpuHealth
from components.inventory.reading import Reading

MEMORY = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html"
XIDS = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
SMI = "https://docs.nvidia.com/deploy/nvidia-smi/index.html"
BROKEN = {
    48: "uncorrected memory error",
    62: "its microcontroller halted",
    64: "a memory row could not be remapped",
    74: "NVLink error",
    79: "it has fallen off the bus",
    92: "many corrected memory errors",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "its system processor (GSP) does not answer",
    120: "its system processor (GSP) failed",
    121: "error of the link to the CPU",
    140: "uncorrected memory error",
}
"""Xids whose cause is the card or its links. Others, such as 13, 31 and 43, programs cause."""
FULL_SPEED = "P0"
REGISTERED = ("", "Completed", "Not Supported")
SUCCEEDED = ("", "Success")

Judge = Callable[[GpuHealth], tuple[str, str] | None]
"""What was found and what is right; None where nothing is wrong."""


@check(
    "gpu-count",
    Severity.CRITICAL,
    title="Host has the wrong number of GPUs",
    why="a job that asks for all GPUs of a node waits forever, or fails without saying why",
    source=PRACTICE,
    remedy="check the kernel log for Xid 79, power-cycle the host, reseat the card; or correct "
    "`gpus`",
)
def gpu_count(view: View) -> Faults:
    def declared(place: Place) -> int | None:
        node = view.fleet.node(place.host)
        is_set = node is not None and "gpus" in node.model_fields_set
        if node and is_set and view.lab and not view.lab.simulated:
            return node.gpus
        return None

    by_slot = {node for node, _ in view.places_of(pci_missing)}
    for place in view.places:
        right = declared(place)
        if right is not None and place.node not in by_slot:
            yield from view.unlike((place,), partial(_count, view), right)


def _count(view: View, place: Place) -> Reading[int]:
    return place.host.gpus.map(lambda _: len(view.fleet.gpus_of(place.host)))


@check(
    "gpu-lost",
    Severity.CRITICAL,
    title="The driver has lost a GPU",
    why="programs see one GPU fewer, and those that used it hang or fail",
    source=XIDS,
    remedy="drain and power-cycle the node; replace the card if it happens again",
)
def gpu_lost(view: View) -> Faults:
    for place, gpu in _gpus(view):
        if _is_lost(gpu):
            yield fault(place, gpu.health, "not listed by nvidia-smi", "listed")


def _is_lost(gpu: Gpu) -> bool:
    """nvidia-smi leaves the GPU out, or ends at it: NVML_ERROR_GPU_IS_LOST or Unknown Error."""
    reason = gpu.health.unknown.lower()
    named = "device handle" in reason and gpu.pci in reason
    return reason == LOST.lower() or named or "no devices were found" in reason


@check(
    "gpu-memory",
    Severity.HIGH,
    title="GPU memory is damaged",
    why="a program on this GPU fails or computes wrong values",
    source=MEMORY,
    remedy="drain the node, reset the GPU (nvidia-smi -r), run `dcgmi diag -r 3`; replace a card "
    "that cannot remap",
)
def gpu_memory(view: View) -> Faults:
    def judge(health: GpuHealth) -> tuple[str, str] | None:
        if health.remap_failed:
            return "remapping of rows failed", "no failure"
        if health.sram_threshold_exceeded:
            return "more SRAM errors than its threshold", "fewer"
        if health.ecc_uncorrected:
            return (f"{health.ecc_uncorrected} uncorrected errors", "0")
        return None

    return _judged(view, judge)


@check(
    "gpu-reset",
    Severity.MEDIUM,
    title="GPU waits for a reset",
    why="the bad memory row is in use until the reset, and the next error may stop a job",
    source=MEMORY,
    remedy="drain the node, then run nvidia-smi -r or reboot, as the finding says",
)
def gpu_reset(view: View) -> Faults:
    def judge(health: GpuHealth) -> tuple[str, str] | None:
        if health.recovery_action not in ("", "None"):
            return f"recovery action {health.recovery_action}", "None"
        if health.remap_pending:
            return ("remapping of rows pending", "none pending")
        return None

    return _judged(view, judge)


@check(
    "gpu-xid",
    Severity.HIGH,
    title="The driver has logged an error of the GPU's hardware",
    why="the GPU may hang, compute wrong values or vanish, even if nvidia-smi looks fine now",
    source=XIDS,
    remedy="follow NVIDIA's Xid catalog for this number (usually a reboot), then run the audit "
    "again",
)
def gpu_xid(view: View) -> Faults:
    with_driver = [place for place in view.places if place.host.system.gpu_driver.value]
    for place, reading, xids in view.each(with_driver, lambda place: place.host.system.xids):
        for xid in xids:
            if xid.code in BROKEN:
                yield fault(
                    place,
                    reading,
                    f"Xid {xid.code}: {BROKEN[xid.code]}",
                    "none",
                    part=f"GPU {xid.pci}",
                )


@check(
    "gpu-throttled",
    Severity.HIGH,
    title="GPU is slowed down",
    why="all GPUs of a collective wait for the slowest one",
    source=SMI,
    remedy="check fans, air flow, liquid cooling, power supplies and their cables",
)
def gpu_throttled(view: View) -> Faults:
    return _judged(
        view, lambda health: (", ".join(health.throttled), "none") if health.throttled else None
    )


@check(
    "gpu-pcie",
    Severity.HIGH,
    title="GPU's PCIe link is narrower or slower than it could be",
    why="copies between host and GPU, and GPUDirect, slow down in proportion",
    source=SMI,
    remedy="reseat the card or its riser, compare the BIOS settings of the slot with a peer",
)
def gpu_pcie(view: View) -> Faults:
    def judge(health: GpuHealth) -> tuple[str, str] | None:
        width, generation = health.pcie_width, health.pcie_generation
        if width and health.pcie_max_width and width < health.pcie_max_width:
            return f"x{width}", f"x{health.pcie_max_width}"
        slow = generation and health.pcie_max_generation and generation < health.pcie_max_generation
        if slow and health.performance_state == FULL_SPEED:
            return f"generation {generation}", f"generation {health.pcie_max_generation}"
        return None

    return _judged(view, judge)


@check(
    "gpu-nvlink",
    Severity.HIGH,
    title="An NVLink is down, or the GPU is not in its fabric",
    why="GPUs of one node exchange data over fewer links, over PCIe, or not at all",
    source=SMI,
    remedy="read nvidia-smi nvlink -e and the log of Fabric Manager; reset all GPUs of the node, "
    "reseat the board",
)
def gpu_nvlink(view: View) -> Faults:
    def judge(health: GpuHealth) -> tuple[str, str] | None:
        if health.fabric_state not in REGISTERED:
            return f"fabric {health.fabric_state}", "Completed"
        if health.fabric_status not in SUCCEEDED:
            return (health.fabric_status, "Success")
        return None

    yield from _judged(view, judge)
    for place in view.places:
        for gpu, slow in _slow_links(view.fleet.gpus_of(place.host)):
            yield fault(place, gpu.nvlinks, slow, "as on the other GPUs", part=f"GPU {gpu.pci}")


def _slow_links(gpus: Sequence[Gpu]) -> Iterator[tuple[Gpu, str]]:
    """Links slower than those of most GPUs of the host: on some boards a few are never active."""
    links = {gpu.pci: gpu.nvlinks.or_else(()) for gpu in gpus}
    usual = []
    for number in range(max(map(len, links.values()), default=0)):
        rates = Counter(own[number] for own in links.values() if number < len(own) and any(own))
        rate, count = max(rates.items(), key=lambda item: item[1], default=(0.0, 0))
        usual.append(rate * (count * 2 > rates.total()))
    for gpu in gpus:
        own = links[gpu.pci]
        if own and not any(own):
            # a card without a bridge prints the same, but its peers are no better
            others = [rates for pci, rates in links.items() if pci != gpu.pci]
            if len(others) > 2 and all(map(any, others)):
                yield gpu, "no link is active"
            continue
        slow = []
        for number, rate in enumerate(own):
            if rate < usual[number]:
                slow.append(f"link {number} {rate:g} GB/s")
        if slow:
            yield gpu, ", ".join(slow)


def _gpus(view: View) -> Iterator[tuple[Place, Gpu]]:
    for place in view.places:
        for gpu in view.fleet.gpus_of(place.host):
            yield replace(place, part=f"GPU {gpu.pci}"), gpu


def _judged(view: View, judge: Judge) -> Faults:
    for place, gpu in _gpus(view):
        health = view.read(place.node, gpu.health)
        wrong = judge(health) if health else None
        if wrong:
            yield fault(place, gpu.health, *wrong)

"""GPUs: their place on PCI, and what NVIDIA's driver reports of their health."""

import re
from functools import partial
from typing import Dict, List, Optional
from xml.etree import ElementTree as ET

from ..machine import Done
from .leaves import Json, Leaf, UnknownError, file_leaves, matched, printed, read
from .pci import DEVICES, bridges, gpu_addresses, hexadecimal
from .read_only import ReadOnly

NVIDIA = "/proc/driver/nvidia/version"
QUERY = ("nvidia-smi", "-q", "-x")
NVLINK = ("nvidia-smi", "nvlink", "-s")
NOT_LOADED = "the NVIDIA driver is not loaded"
LOST = "nvidia-smi does not list this GPU, though it is on PCI"
PCI_DIGITS = 12
"""Of an address as Linux writes it; nvidia-smi writes the domain with eight digits."""
THROTTLED = (
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
)
"""Reasons for a low clock that a healthy machine does not have; the power cap is normal under
load."""
XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-f:.]+)\): (\d+)", re.IGNORECASE)


def gpus(machine: ReadOnly) -> List[Json]:
    return [_gpu(machine, address) for address in gpu_addresses(machine)]


def _gpu(machine: ReadOnly, address: str) -> Json:
    device, information = f"{DEVICES}/{address}", f"/proc/driver/nvidia/gpus/{address}/information"
    query = " ".join(QUERY)
    leaves = [
        *file_leaves(
            machine,
            {"model": (information, _model)},
        ),
        Leaf("bridges", device, partial(bridges, machine, address)),
        Leaf("health", query, lambda: health(_reported(machine, address))),
        Leaf("nvlinks", " ".join(NVLINK), partial(nvlinks, machine, address)),
    ]
    gpu = read(leaves)
    gpu.update(pci=address, vendor_id=hexadecimal(machine, f"{device}/vendor"))
    gpu.update(device_id=hexadecimal(machine, f"{device}/device"))
    return gpu


def _model(machine: ReadOnly, path: str) -> str:
    return matched(r"^Model:\s*(.+)$", machine.text(path), "it names none")


def reports(machine: ReadOnly) -> Dict[str, ET.Element]:
    """What nvidia-smi reports by PCI address, in its own order."""
    if not machine.exists(NVIDIA):
        raise UnknownError(NOT_LOADED)
    root = report_in(machine.once(*QUERY))
    return {gpu.get("id", "")[-PCI_DIGITS:].lower(): gpu for gpu in root.findall("gpu")}


def report_in(done: Done) -> ET.Element:
    """The answer to `QUERY`, about all GPUs."""
    try:
        return ET.fromstring(printed(done))  # noqa: S314  # from the host's own driver
    except ET.ParseError:
        raise UnknownError("it printed no XML") from None


def _reported(machine: ReadOnly, address: str) -> ET.Element:
    listed = reports(machine)
    if address not in listed:
        raise UnknownError(LOST)
    return listed[address]


def health(gpu: ET.Element) -> Json:
    """The numbers and states that tell a healthy GPU; None for what this model or driver does not
    report.
    """
    errors, remapped, link = "ecc_errors/volatile", "remapped_rows", "pci/pci_gpu_link_info"
    uncorrected = (
        "sram_uncorrectable",
        "sram_uncorrectable_parity",
        "sram_uncorrectable_secded",
        "dram_uncorrectable",
    )
    return {
        "ecc_uncorrected": _sum(gpu, [f"{errors}/{name}" for name in uncorrected]),
        "ecc_corrected": _sum(
            gpu, [f"{errors}/{name}" for name in ("sram_correctable", "dram_correctable")]
        ),
        "sram_threshold_exceeded": _yes(gpu, "ecc_errors/aggregate/sram_threshold_exceeded"),
        "remap_pending": _yes(gpu, f"{remapped}/remapped_row_pending"),
        "remap_failed": _yes(gpu, f"{remapped}/remapped_row_failure"),
        "recovery_action": text_of(gpu, "gpu_recovery_action"),
        "throttled": [name for name in THROTTLED if _throttles(gpu, name)],
        "performance_state": text_of(gpu, "performance_state"),
        "pcie_generation": _optional(gpu, f"{link}/pcie_gen/current_link_gen"),
        "pcie_max_generation": _optional(gpu, f"{link}/pcie_gen/max_link_gen"),
        "pcie_width": _optional(gpu, f"{link}/link_widths/current_link_width"),
        "pcie_max_width": _optional(gpu, f"{link}/link_widths/max_link_width"),
        "pcie_replays": _optional(gpu, "pci/replay_counter"),
        "fabric_state": text_of(gpu, "fabric/state"),
        "fabric_status": text_of(gpu, "fabric/status"),
        "temperature_c": _optional(gpu, "temperature/gpu_temp"),
    }


def nvlinks(machine: ReadOnly, address: str) -> List[float]:
    """GB/s of each link of a GPU, 0 for an inactive one; none where the GPU has no NVLink."""
    place = list(reports(machine)).index(address) if address in reports(machine) else -1
    if place < 0:
        raise UnknownError(LOST)
    return nvlinks_in(printed(machine.once(*NVLINK)), place)


def nvlinks_in(text: str, place: int) -> List[float]:
    """Of lines such as `GPU 0: NVIDIA H100` and `Link 3: 26.562 GB/s` or `Link 3: <inactive>`."""
    rates: List[float] = []
    inside = False
    for line in text.splitlines():
        head = re.match(r"GPU (\d+):", line)
        if head:
            inside = int(head[1]) == place
        if inside and "all links are inactive" in line.lower():
            return [0.0]  # it names none of them
        link = re.match(r"\s+Link \d+: (?:([\d.]+) GB/s|<inactive>)", line)
        if link and inside:
            rates.append(float(link[1] or 0))
    return rates


def xids(text: str) -> List[Json]:
    """Each Xid of the kernel's log since boot, with its GPU and how often it came."""
    counts: Dict[str, int] = {}
    for address, code in XID.findall(text):
        key = f"{address.lower()} {code}"
        counts[key] = counts.get(key, 0) + 1
    entries = []
    for key, count in counts.items():
        entries.append({"pci": key.split()[0], "code": int(key.split()[1]), "count": count})
    return entries


def text_of(gpu: ET.Element, path: str) -> str:
    """Empty for what is not reported."""
    text = (gpu.findtext(path) or "").strip()
    return "" if text in ("N/A", "[N/A]", "Requested functionality has been deprecated") else text


def _optional(gpu: ET.Element, path: str) -> Optional[int]:
    """The number at the start of a text such as `16x`, `33 C` or `81559 MiB`."""
    digits = re.match(r"-?\d+", text_of(gpu, path))
    return int(digits[0]) if digits else None


def _sum(gpu: ET.Element, paths: List[str]) -> Optional[int]:
    """Releases of the driver differ in how they split a count."""
    values = []
    for value in (_optional(gpu, path) for path in paths):
        if value is not None:
            values.append(value)
    return sum(values) if values else None


def _yes(gpu: ET.Element, path: str) -> Optional[bool]:
    return {"Yes": True, "No": False}.get(text_of(gpu, path))


def _throttles(gpu: ET.Element, name: str) -> bool:
    """Drivers before 530 say `clocks_throttle_reason`."""
    groups = (
        "clocks_event_reasons/clocks_event_reason",
        "clocks_throttle_reasons/clocks_throttle_reason",
    )
    return any(text_of(gpu, f"{group}_{name}") == "Active" for group in groups)

"""The way from the NIC to memory and GPUs: PCIe, IOMMU, ACS, and where cards are."""

import re
from collections import Counter

from components.audit.findings import Faults, Severity
from components.audit.fleet import Port
from components.audit.registry import COUNTERS, MONITOR, OPTIMIZED, check
from components.audit.view import View, fault
from components.hosts.program.look.pci import ACS_REMEDY, HYPERVISORS
from components.inventory.model import Host

NCCL_DOCS = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs"
NCCL = f"{NCCL_DOCS}/troubleshooting/gpu_troubleshooting.html"
NCCL_ENV = f"{NCCL_DOCS}/env.html"
LINUX = "https://github.com/torvalds/linux/blob/master"
IOMMU = f"{LINUX}/Documentation/ABI/testing/sysfs-kernel-iommu_groups"

INTEGRITY = ("rx_pci_signal_integrity", "tx_pci_signal_integrity")
COMPLAINTS = {
    r"health compromised": "the NIC's firmware stopped answering",
    r"unrecoverable": "the NIC reports an unrecoverable error",
    r"leak of a command resource": "commands to the NIC's firmware time out",
    r"insufficient power": "the slot gives the NIC too little power",
    r"[Hh]igh [Tt]emperature": "the optic is too hot",
}
"""Lines of the kernel's log that NVSentinel acts on, and what they mean."""
PCI = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")
USUAL_SHARE, FEWEST_PEERS = 2 / 3, 3


@check(
    "pcie-link",
    Severity.HIGH,
    title="PCIe link is slower or narrower than the NIC",
    why="the slot limits the rail: 8 lanes instead of 16 halve its bandwidth",
    source="https://github.com/imbue-ai/cluster-health",
    remedy="power the host off, reseat card and riser, check the slot's bifurcation in the BIOS; "
    "if the slot is older than the NIC, waive this",
)
def pcie_link(view: View) -> Faults:
    for port in view.ports:
        pf = port.pf
        speed, fastest = (
            view.read(port.node, pf.pcie_speed_gt_s),
            view.read(port.node, pf.pcie_max_speed_gt_s),
        )
        width, widest = view.read(port.node, pf.pcie_width), view.read(port.node, pf.pcie_max_width)
        if speed is None or fastest is None or width is None or widest is None:
            continue
        if speed < fastest or width < widest:
            if speed < fastest:
                reading = pf.pcie_speed_gt_s
            else:
                reading = pf.pcie_width
            yield fault(port, reading, f"{speed:g} GT/s x{width}", f"{fastest:g} GT/s x{widest}")


@check(
    "pcie-settings",
    Severity.MEDIUM,
    title="PCIe settings of the NIC differ from peers",
    why="small read requests and strict ordering slow the NIC's access to memory, and the "
    "slowest host slows all",
    source=OPTIMIZED,
    remedy="`setpci -s PCI CAP_EXP+8.w=5000:7000` sets read requests of 4096 bytes until the "
    "next boot; make relaxed "
    "ordering and ATS equal in the BIOS, the kernel's arguments and the NIC's firmware "
    "(ATS_ENABLED)",
)
def pcie_settings(view: View) -> Faults:
    ordering = {True: "relaxed ordering", False: "strict ordering"}
    translation = {True: "ATS on", False: "ATS off"}
    yield from view.unlike_peers(
        view.ports, lambda port: port.pf.max_read_request_bytes, "reads of {} bytes".format
    )
    yield from view.unlike_peers(
        view.ports, lambda port: port.pf.relaxed_ordering, ordering.__getitem__
    )
    yield from view.unlike_peers(view.ports, lambda port: port.pf.ats, translation.__getitem__)


@check(
    "pcie-errors",
    Severity.HIGH,
    title="PCIe link has signal errors",
    why="each error stalls the link, and the next one may drop the NIC off the bus",
    source=COUNTERS,
    remedy="move the NIC to another slot to see whether the errors follow it; update its "
    "firmware and the BIOS",
)
def pcie_errors(view: View) -> Faults:
    return view.rises(INTEGRITY)


@check(
    "kernel-complaints",
    Severity.HIGH,
    title="The kernel reports a NIC fault",
    why="link state and counters can look fine while the driver has lost the NIC's firmware",
    source=MONITOR,
    remedy="drain and power-cycle the node; replace the NIC or its firmware if the message returns",
)
def kernel_complaints(view: View) -> Faults:
    for place, reading, lines in view.each(
        view.places, lambda place: place.host.system.kernel_complaints
    ):
        complaints = set()
        for line in lines:
            for pattern, text in COMPLAINTS.items():
                if re.search(pattern, line):
                    complaints.add((_nic_of(line, place.host), text))
        for part, text in sorted(complaints):
            yield fault(place, reading, text, "no complaint", part=part)


def _nic_of(line: str, host: Host) -> str:
    """The interface that a line is about, else the PCI address; empty where it names none."""
    address = PCI.search(line)
    pf = host.pf(address[0]) if address else None
    return pf.name if pf else address[0] if address else ""


@check(
    "pci-missing",
    Severity.HIGH,
    title="A NIC or GPU that peers have is missing",
    why="a card that fell off the bus is listed nowhere, and jobs that need it fail or wait",
    source=MONITOR,
    remedy="read the kernel's log, power-cycle the host, reseat the card",
)
def pci_missing(view: View) -> Faults:
    having: dict[object, list[tuple[int, frozenset[str]]]] = {}
    for at, place in enumerate(view.places):
        host = place.host
        pfs, gpus = view.read(place.node, host.pfs), view.read(place.node, host.gpus)
        if pfs is not None and gpus is not None:
            kinds = {f"NIC {pf.pci}" for pf in pfs} | {f"GPU {gpu.pci}" for gpu in gpus}
            having.setdefault(place.peers, []).append((at, frozenset(kinds)))
    for group in having.values():
        if len(group) < FEWEST_PEERS:
            continue
        counts: Counter[str] = Counter()
        for _, devices in group:
            counts.update(devices)
        usual = {device for device in counts if counts[device] > USUAL_SHARE * len(group)}
        for at, devices in group:
            place = view.places[at]
            for device in sorted(usual - devices):
                kind, _, pci = device.partition(" ")
                yield fault(
                    place,
                    place.host.pfs,
                    f"no {kind} in this slot",
                    f"a {kind}, as most peers",
                    part=pci,
                )


@check(
    "acs",
    Severity.MEDIUM,
    title="ACS sends traffic between GPU and NIC through the CPU",
    why="packets pass through the root complex, which costs bandwidth or hangs GPUDirect",
    source=NCCL,
    remedy=f"{ACS_REMEDY}; on platforms that `rdma_topo check` of rdma-core supports, do what it "
    "says",
)
def acs(view: View) -> Faults:
    for place, reading, redirecting in view.each(
        view.places, lambda place: place.host.system.acs_bridges
    ):
        system = place.host.system
        if HYPERVISORS.search(f"{system.vendor.or_else('')} {system.product.or_else('')}"):
            continue
        for port in view.fleet.ports_of(place.host):
            if _between(port) & {*redirecting}:
                yield fault(port, reading, "redirected to the root complex", "direct")


def _between(port: Port) -> set[str]:
    """Bridges below the one that a NIC shares with its nearest GPU, on both sides."""
    near = port.pf.nearest_gpus.value
    own = port.pf.bridges.or_else(())
    if near is None or not near.gpus or near.bridge not in own:
        return set()
    actual = {*own[own.index(near.bridge) :]}
    for gpu in port.host.gpus.or_else(()):
        bridges = gpu.bridges.or_else(())
        if gpu.pci in near.gpus and near.bridge in bridges:
            actual |= {*bridges[bridges.index(near.bridge) :]}
    return actual


@check(
    "iommu",
    Severity.MEDIUM,
    title="The IOMMU translates the NIC's memory accesses",
    why="each access is translated, which costs bandwidth and hinders GPUDirect",
    source=IOMMU,
    remedy="unless VMs or untrusted users own the devices, add the kernel argument iommu=pt and "
    "reboot",
)
def iommu(view: View) -> Faults:
    for port, reading, kind in view.each(view.ports, lambda port: port.pf.iommu_group_type):
        if kind not in {"", "identity"}:
            yield fault(port, reading, kind, "identity")


@check(
    "gpu-far",
    Severity.HIGH,
    title="No GPU is close to the NIC",
    why="NCCL copies through host memory when GPU and NIC share no PCIe switch",
    source=NCCL_ENV,
    remedy="move the card to the slot that its peers use",
)
def gpu_far(view: View) -> Faults:
    near: dict[object, list[bool]] = {}
    for port in view.ports:
        if port.pf.nearest_gpus.value is not None:
            near.setdefault(port.peers, []).append(bool(port.pf.nearest_gpus.value.gpus))
    for port in view.ports:
        if not view.fleet.gpus_of(port.host):
            continue
        actual = view.read(port.node, port.pf.nearest_gpus)
        if actual is None or actual.gpus:
            continue
        peers = near[port.peers]
        rails = []
        for other in view.fleet.ports_of(port.host):
            if other.pf.nearest_gpus.value is not None and other.declared:
                rails.append(bool(other.pf.nearest_gpus.value.gpus))
        if sum(peers) * 2 > len(peers) or sum(rails) * 2 > len(rails):
            yield fault(
                port,
                port.pf.nearest_gpus,
                "no GPU below a common bridge",
                "a GPU below a common bridge",
            )

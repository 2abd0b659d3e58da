"""A host's ports: the facts that a test needs and a report shows, and other users of the ports. Pure."""

import os.path
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import NamedTuple

from components.physics.pcie import pcie_link
from components.validation.planning.plan import End
from components.validation.records import MeasuredHost
from stacks.base import LabError
from stacks.words import some

IDLE_SHARE = 0.01
"""Share of the line rate; address resolution and keepalives stay far below it."""
IDLE_BYTES_S = 1_000_000
"""For ports without a known line rate."""
RDMA_WORD_BYTES = 4
"""port_xmit_data and port_rcv_data count words (InfiniBand specification, PortCounters)."""

QUEUE_PAIR = re.compile(r'"ifname"\s*:\s*')
NAME, PID, COMM = re.compile(r'^"([^"]+)"'), re.compile(r'"pid"\s*:\s*(\d+)'), re.compile(r'"comm"\s*:\s*"([^"]*)"')
"""Of `rdma -j resource show qp`, read piece by piece: some releases of iproute2 print JSON that no parser takes
(rdma/res-qp.c; "rdma: Fix core dump when pretty is used", linux-rdma, January 2024), and a host that cannot be read
must not look like one that is idle.
"""
NO_GPU, NO_CUDA = "the NVIDIA driver has no GPU", "perftest has no CUDA"
ROOT_BUS = re.compile(r"/pci[0-9a-f]+:[0-9a-f]{2}(?:/.*)?$")
"""Below /sys/devices; on Azure its parents are those of the VMBus."""
PCI = re.compile(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]")
"""Domain, bus, device and function. The functions of a card share its link; a virtual device has another name."""


class PciPlace(NamedTuple):
    """Where a PCI device is."""

    path: str
    """Below /sys/devices: root bus, bridges, device."""
    numa_node: int
    """-1 where the firmware does not say."""


class NearestGpu(NamedTuple):
    """The GPU that a NIC is tested with."""

    address: str
    far: bool
    """Whether data crosses from one NUMA node to another (SYS in `nvidia-smi topo -m`): then the interconnect of the
    sockets limits it, and says nothing about the NIC."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostPorts:
    """The ports of a host."""

    version: str
    """perftest's, empty when it is not installed."""
    tests: frozenset[str]
    """Installed programs, `numactl` among them."""
    line_rate_gbit_s: dict[str, float]
    """By device, where the port reports it."""
    gids: dict[tuple[str, int], tuple[str, str, str]]
    """Address, type and netdev by device and index."""
    users: tuple[str, ...]
    """Programs that have queue pairs on these ports or their VFs."""
    moved_bytes: dict[str, int] = field(default_factory=dict)
    """Traffic by device within a second in which rocelab ran nothing."""
    away: tuple[str, ...] = ()
    """VFs of these ports in another network namespace or under vfio, by device and PCI address."""
    cpus: dict[int, str] = field(default_factory=dict)
    """CPUs of each NUMA node, as a list such as `0-31,64-95`."""
    cuda: frozenset[str] = frozenset()
    """perftest's options for GPU memory; a build without CUDA has none."""
    nearest_gpu: dict[str, NearestGpu] = field(default_factory=dict)
    """By device; empty where no NVIDIA driver has a GPU."""
    memlock_bytes: int | None = None
    """Memory that a program of the SSH user may pin; None where there is no limit, or it is unknown."""
    facts: MeasuredHost = field(default_factory=MeasuredHost)

    def gid_index(self, end: End) -> int:
        """The RoCE v2 entry that carries the PF's own address: mlx5 has it at 3 and soft-RoCE at 1, by chance.

        Raises:
            LabError: when there is none.
        """
        for (device, index), (address, kind, netdev) in sorted(self.gids.items()):
            mapped = IPv6Address(address).ipv4_mapped
            if (device, kind, netdev, mapped) == (end.device, "RoCE v2", end.interface, end.address):
                return index
        if not any(device == end.device for device, _ in self.gids):
            raise LabError(f"{end.node}: there is no RDMA device {end.device}")
        raise LabError(f"{end.node}: {end.device} has no RoCE v2 GID for {end.address} on {end.interface}")

    def gpu_words(self, end: End) -> tuple[str, ...]:
        """Perftest's words for a buffer in the memory of the GPU that is nearest to a port.

        Raises:
            LabError: when this host cannot do that.
        """
        if end.device not in self.nearest_gpu:
            raise LabError(f"{end.node}: {NO_GPU}")
        if "--use_cuda_bus_id" not in self.cuda:
            raise LabError(f"{end.node}: {NO_CUDA} (ib_write_bw --help lists no --use_cuda_bus_id)")
        dmabuf = ("--use_cuda_dmabuf",) if "--use_cuda_dmabuf" in self.cuda else ()
        return (f"--use_cuda_bus_id={self.nearest_gpu[end.device].address}", *dmabuf)

    def pcie_gbit_s(self, device: str) -> float | None:
        """Payload bandwidth of the NIC's PCIe link."""
        speed, _, width = self.facts.pcie.get(device, "").rpartition(" ")
        link = pcie_link(speed, width)
        return round(link.payload_gbit_s(), 2) if link else None

    def pinned(self, device: str) -> tuple[str, ...]:
        """The words that keep a program on the NIC's NUMA node; none with a single or an unknown node."""
        node = self.facts.numa_node.get(device, -1)
        if node not in self.cpus or len(self.cpus) < 2:
            return ()
        if "numactl" in self.tests:
            return ("numactl", f"--cpunodebind={node}", f"--membind={node}")
        return ("taskset", "-c", self.cpus[node])

    def busy(self) -> list[str]:
        """Ports that carry other traffic."""
        found = []
        for device, moved in self.moved_bytes.items():
            rate = self.line_rate_gbit_s.get(device)
            idle = rate * 1e9 / 8 * IDLE_SHARE if rate else IDLE_BYTES_S
            if moved > idle:
                found.append(f"{device} carries {moved * 8 / 1e9:.2f} Gbit/s already")
        return found


def parse_ports(text: str) -> HostPorts:
    """Reads the answer of `INSPECT`."""
    said: dict[str, list[str]] = defaultdict(list)
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        said[kind].append(rest.strip())
    by_device = {kind: _pairs(said[kind]) for kind in ("speed", "numa", "pcie", "slot")}
    # -1 where the link is down or virtual
    speeds = {device: int(text) / 1000 for device, text in by_device["speed"].items() if text.isdecimal()}
    devices = {*by_device["speed"], *(words[1] for rest in said["vf"] if len(words := rest.split()) > 1)}
    version = next((rest for rest in said["version"] if "Version" in rest), "")
    mtus = (rest.split() for rest in said["mtu"])
    cpus = {int(node): cpus for node, cpus in _pairs(said["cpus"]).items() if node.isdecimal() and cpus}
    return HostPorts(
        version=version,
        tests=frozenset(said["has"]),
        line_rate_gbit_s=speeds,
        gids=_gids(said),
        users=tuple(_users(next(iter(said["qps"]), ""), devices)),
        moved_bytes=_moved(said["before"], said["after"]),
        away=tuple(sorted(said["away"])),
        cuda=frozenset(said["cuda"]),
        nearest_gpu=nearest_gpus(
            _places(_pairs(said["path"]), by_device["numa"]),
            _places(_pairs(said["gpu"]), _pairs(said["gpu_numa"])),
            len(cpus),
        ),
        cpus=cpus,
        memlock_bytes=_memlock_bytes(next(iter(said["memlock"]), "")),
        facts=MeasuredHost(
            cpu_vendor=next(iter(said["cpu"]), ""),
            perftest=version.removeprefix("Version:").strip(),
            mtu_bytes={words[1]: int(words[2]) for words in mtus if len(words) == 3 and words[2].isdecimal()},
            line_rate_gbit_s=speeds,
            pcie={device: _link(text) for device, text in by_device["pcie"].items() if _link(text)},
            numa_node={device: int(text) for device, text in by_device["numa"].items() if text.isdecimal()},
            slot={device: found[1] for device, text in by_device["slot"].items() if (found := PCI.fullmatch(text))},
        ),
    )


def differing_versions(ports: Mapping[str, HostPorts]) -> str:
    """Which hosts have which perftest; empty when all have the same.

    The two ends exchange their versions, and from 5.32, 5.70 and 6.28 on arrange their messages by the other's
    (linux-rdma/perftest: src/perftest_communication.c); the Bitfusion article builds an old one for that reason.
    """
    by_version: dict[str, list[str]] = defaultdict(list)
    for node, port in sorted(ports.items()):
        if port.facts.perftest:
            by_version[port.facts.perftest].append(node)
    if len(by_version) < 2:
        return ""
    listed = ", ".join(f"{version} on {some(nodes, 3)}" for version, nodes in sorted(by_version.items()))
    return f"perftest differs: {listed}; two ends of different versions may not understand each other: install one"


def low_memlock(ports: Mapping[str, HostPorts], pinned_bytes: int) -> str:
    """The hosts whose SSH user may not pin as much as perftest needs; empty where all may."""
    low = {}
    for node, port in sorted(ports.items()):
        if port.memlock_bytes is not None and port.memlock_bytes <= pinned_bytes:
            low[node] = port.memlock_bytes
    if not low:
        return ""
    return (
        f"the SSH user may pin only {min(low.values()) >> 10} KiB on {some(list(low), 3)} (ulimit -l), and perftest "
        f"pins {pinned_bytes >> 10} KiB and its queues: tests fail, or take too few queue pairs. Set runtime.memlock "
        "to unlimited (its default: `runtime: {}` is enough) and run pulumi up"
    )


def nearest_gpus(nics: Mapping[str, PciPlace], gpus: Mapping[str, PciPlace], numa_nodes: int) -> dict[str, NearestGpu]:
    """A GPU for each NIC, by device, the nearest pair first; NICs share a GPU only where none that is near is free.

    Args:
        nics: by RDMA device.
        gpus: by PCI address.
        numa_nodes: of the host; with a single one nothing is far.
    """
    closeness: dict[tuple[str, str], int] = {}
    for nic, place in nics.items():
        for gpu, gpu_place in gpus.items():
            closeness[nic, gpu] = _closeness(place, gpu_place)
            if numa_nodes < 2:
                closeness[nic, gpu] += 1
    nearest_first = sorted(closeness, key=lambda pair: (-closeness[pair], pair))
    gpu_of: dict[str, str] = {}
    for nic, gpu in nearest_first:
        if closeness[nic, gpu] and nic not in gpu_of and gpu not in gpu_of.values():
            gpu_of[nic] = gpu
    for nic, gpu in nearest_first:
        gpu_of.setdefault(nic, gpu)
    return {nic: NearestGpu(gpu, far=not closeness[nic, gpu]) for nic, gpu in sorted(gpu_of.items())}


def _closeness(nic: PciPlace, gpu: PciPlace) -> int:
    """0 for far, 1 on one NUMA node, 2 below one root bus, and one more for each bridge that both are below."""
    bridges = ROOT_BUS.search(os.path.commonpath([nic.path, gpu.path]))
    if bridges:
        return 1 + bridges[0].count("/")
    return int(nic.numa_node == gpu.numa_node >= 0)


def _places(paths: Mapping[str, str], numa_nodes: Mapping[str, str]) -> dict[str, PciPlace]:
    """PCI devices by name; a device without a known NUMA node has -1."""
    places: dict[str, PciPlace] = {}
    for name, path in paths.items():
        node = numa_nodes.get(name, "")
        if path:
            places[name] = PciPlace(path, int(node) if node.isdecimal() else -1)
    return places


def _memlock_bytes(answer: str) -> int | None:
    """The user ID, then soft and hard limit. The kernel does not limit what root pins (CAP_IPC_LOCK, ib_umem_get)."""
    user, limit = [*answer.split(), "", ""][:2]
    return int(limit) if limit.isdecimal() and user != "0" else None


def _pairs(lines: list[str]) -> dict[str, str]:
    return {name: rest.strip() for name, _, rest in (line.partition(" ") for line in lines)}


def _link(text: str) -> str:
    """`16 16.0 GT/s PCIe` as `16.0 GT/s x16`; empty where the slot does not report it."""
    width, _, speed = text.partition(" ")
    link = pcie_link(speed, width)
    return f"{link.gtransfers_s:.1f} GT/s x{link.lanes}" if link else ""


def _gids(said: Mapping[str, list[str]]) -> dict[tuple[str, int], tuple[str, str, str]]:
    parts: dict[str, dict[tuple[str, int], str]] = {"gid": {}, "type": {}, "ndev": {}}
    for kind, found in parts.items():
        for rest in said.get(kind, []):
            words = rest.split(" ", 2)
            if len(words) == 3 and words[1].isdecimal():
                found[words[0], int(words[1])] = words[2]
    return {
        key: (address, parts["type"].get(key, ""), parts["ndev"].get(key, "")) for key, address in parts["gid"].items()
    }


def _moved(before: list[str], after: list[str]) -> dict[str, int]:
    """Growth of the busiest counter of each device: netdev counters miss what the NIC carries by itself."""
    found: dict[str, int] = {}
    if len(before) != len(after):
        return found  # a device came or went meanwhile
    for early, late in zip(before, after, strict=True):
        device, kind, count = [*late.split(), "", "", ""][:3]
        was = early.split()
        if was[:2] == [device, kind] and len(was) == 3 and count.isdecimal() and was[2].isdecimal():
            grown = (int(count) - int(was[2])) * (RDMA_WORD_BYTES if kind == "rdma" else 1)
            found[device] = max(found.get(device, 0), grown)
    return found


def _users(qps: str, devices: set[str]) -> list[str]:
    """Kernel queue pairs have no pid; a process with some is using the port."""
    found = set()
    for entry in QUEUE_PAIR.split(qps)[1:]:
        name, pid, comm = (match[1] if (match := one.search(entry)) else "" for one in (NAME, PID, COMM))
        if name in devices and pid:
            found.add(f"{comm or '?'} ({pid}) on {name}")
    return sorted(found)

"""A host's ports: the facts that a test needs and a report shows, and other users of the ports.
Pure.
"""

import json
import os.path
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field
from ipaddress import IPv6Address
from typing import Any, NamedTuple

from components.physics.pcie import pcie_link
from components.validation.benchmarks.plan import End
from components.validation.records import MeasuredHost
from stacks.base import LabError
from stacks.frozen import frozen
from stacks.words import some

IDLE_SHARE = 0.01
"""Share of the line rate; address resolution and keepalives stay far below it."""
IDLE_BYTES_S = 1_000_000
"""For ports without a known line rate."""
NO_GPU, NO_CUDA = "the NVIDIA driver has no GPU", "perftest has no CUDA"
ROOT_BUS = re.compile(r"/pci[0-9a-f]+:[0-9a-f]{2}(?:/.*)?$")
"""Below /sys/devices; on Azure its parents are those of the VMBus."""
PCI = re.compile(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]")
"""Domain, bus, device and function. The functions of a card share its link; a virtual device has
another name."""


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
    """Whether they are on different NUMA nodes (SYS in `nvidia-smi topo -m`): then the sockets'
    interconnect is the limit."""


@frozen
class HostPorts:
    """The ports of a host."""

    version: str
    tests: frozenset[str]
    line_rate_gbit_s: dict[str, float]
    """By device, where the port reports it."""
    gids: dict[tuple[str, int], tuple[str, str, str]]
    """Address, type and netdev by device and index."""
    users: tuple[str, ...]
    moved_bytes: dict[str, int] = field(default_factory=dict)
    """Traffic by device within a second in which rocelab ran nothing."""
    away: tuple[str, ...] = ()
    """VFs in another network namespace or under vfio."""
    cpus: dict[int, str] = field(default_factory=dict)
    cuda: frozenset[str] = frozenset()
    nearest_gpu: dict[str, NearestGpu] = field(default_factory=dict)
    """By device; empty where no NVIDIA driver has a GPU."""
    memlock_bytes: int | None = None
    """Memory that the SSH user may pin; None: no limit, or unknown."""
    unread: dict[str, str] = field(default_factory=dict)
    """Why something is unknown, by its name, of a port behind the device."""
    facts: MeasuredHost = field(default_factory=MeasuredHost)

    def gid_index(self, end: End) -> int:
        """The RoCE v2 entry that carries the PF's own address: mlx5 has it at 3 and soft-RoCE at 1,
        by chance.

        Raises:
            LabError: when there is none.
        """
        for (device, index), (address, kind, netdev) in sorted(self.gids.items()):
            mapped = IPv6Address(address).ipv4_mapped
            if (device, kind, netdev, mapped) == (
                end.device,
                "RoCE v2",
                end.interface,
                end.address,
            ):
                return index
        unread = self.unread.get(f"{end.device} gids")
        if unread:
            raise LabError(f"{end.node}: the GIDs of {end.device} cannot be read: {unread}")
        if not any(device == end.device for device, _ in self.gids):
            raise LabError(f"{end.node}: there is no RDMA device {end.device}")
        raise LabError(
            f"{end.node}: {end.device} has no RoCE v2 GID for {end.address} on {end.interface}"
        )

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
        if link:
            return round(link.payload_gbit_s(), 2)
        return None

    def pinned(self, device: str) -> tuple[str, ...]:
        """The words that keep a program on the NIC's NUMA node; none with a single or an unknown
        node.
        """
        node = self.facts.numa_node.get(device, -1)
        if node not in self.cpus or len(self.cpus) < 2:
            return ()
        if "numactl" in self.tests:
            return ("numactl", f"--cpunodebind={node}", f"--membind={node}")
        return ("taskset", "-c", self.cpus[node])

    def busy(self) -> list[str]:
        """Ports that carry other traffic."""
        busy_ports = []
        for device, moved in self.moved_bytes.items():
            rate = self.line_rate_gbit_s.get(device)
            idle = rate * 1e9 / 8 * IDLE_SHARE if rate else IDLE_BYTES_S
            if moved > idle:
                busy_ports.append(f"{device} carries {moved * 8 / 1e9:.2f} Gbit/s already")
        return busy_ports


def parse_ports(text: str) -> HostPorts:
    """The answer of the host program's verb `bench`.

    Raises:
        LabError: when it is not such an answer.
    """
    line = text.strip().rpartition("\n")[2]
    try:
        answer = json.loads(line)
        if failed := answer.get("failed"):
            raise LabError(f"{failed['reason']}: {failed['hint']}")
        return _host_ports(answer)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LabError(f"printed {line[-200:]!r} instead of its NICs") from None


def _host_ports(answer: dict[str, Any]) -> HostPorts:
    host = _values(answer["host"])
    ports = {}
    for port in answer["ports"]:
        ports[port["device"]] = _values(port["leaves"])
    speeds = {}
    for device, speed_mbit_s in _by_device(ports, "speed_mbit_s"):
        speeds[device] = speed_mbit_s / 1000
    return HostPorts(
        version=host.get("version", ""),
        tests=frozenset(host.get("programs", ())),
        line_rate_gbit_s=speeds,
        gids=_gids(ports),
        users=_users(host, ports),
        moved_bytes=dict(_by_device(ports, "moved_bytes")),
        away=_away(ports),
        cuda=frozenset(host.get("cuda_options", ())),
        nearest_gpu=_nearest_gpu(host, ports),
        cpus={int(node): cpus for node, cpus in host.get("cpus_of_numa_node", {}).items()},
        memlock_bytes=host.get("memlock_bytes"),
        unread=_reasons(answer),
        facts=_measured_host(host, ports, speeds, answer),
    )


def _measured_host(
    host: dict[str, Any],
    ports: dict[str, dict[str, Any]],
    speeds: dict[str, float],
    answer: dict[str, Any],
) -> MeasuredHost:
    mtus = {}
    for port in answer["ports"]:
        mtu_bytes = ports[port["device"]].get("mtu_bytes")
        if mtu_bytes:
            mtus[port["interface"]] = mtu_bytes
    numa_nodes = {device: node for device, node in _by_device(ports, "numa_node") if node >= 0}
    slots = {}
    for device, place in _by_device(ports, "pci"):
        function = PCI.fullmatch(place)
        if function:
            slots[device] = function[1]
    links = {}
    for device, values in ports.items():
        link = pcie_link(f"{values.get('pcie_speed_gt_s')} GT/s", str(values.get("pcie_width")))
        if link:
            links[device] = f"{link.gtransfers_s:.1f} GT/s x{link.lanes}"
    return MeasuredHost(
        cpu_vendor=host.get("cpu_vendor", ""),
        perftest=host.get("version", "").removeprefix("Version:").strip(),
        mtu_bytes=mtus,
        line_rate_gbit_s=speeds,
        pcie=links,
        numa_node=numa_nodes,
        slot=slots,
    )


def _values(leaves: dict[str, Any]) -> dict[str, Any]:
    """What could be read, by the name of its leaf."""
    return {name: leaf["value"] for name, leaf in leaves.items() if "value" in leaf}


def _by_device(ports: dict[str, dict[str, Any]], name: str) -> list[tuple[str, Any]]:
    """A leaf of each port that has it."""
    return [(device, values[name]) for device, values in ports.items() if name in values]


def _reasons(answer: dict[str, Any]) -> dict[str, str]:
    """Why leaves are unknown: of the host by their name, of a port by device and name."""
    sections = {"": answer["host"]}
    for port in answer["ports"]:
        sections[f"{port['device']} "] = port["leaves"]
    reasons = {}
    for prefix, leaves in sections.items():
        for name, leaf in leaves.items():
            if "value" not in leaf:
                reasons[prefix + name] = f"{leaf['source']}: {leaf['unknown']}"
    return reasons


def differing_versions(ports: Mapping[str, HostPorts]) -> str:
    """Which hosts have which perftest; empty when all have the same.

    The two ends exchange their versions, and from 5.32, 5.70 and 6.28 on arrange their messages by
    the other's (linux-rdma/perftest: src/perftest_communication.c); the Bitfusion article builds an
    old one for that reason.
    """
    by_version: dict[str, list[str]] = defaultdict(list)
    for node, port in sorted(ports.items()):
        if port.facts.perftest:
            by_version[port.facts.perftest].append(node)
    if len(by_version) < 2:
        return ""
    listed = ", ".join(
        f"{version} on {some(nodes, 3)}" for version, nodes in sorted(by_version.items())
    )
    return (
        f"perftest versions differ and may be incompatible: {listed}; install the same one "
        "everywhere"
    )


def low_memlock(ports: Mapping[str, HostPorts], pinned_bytes: int) -> str:
    """The hosts whose SSH user may not pin as much as perftest needs; empty where all may."""
    low = {}
    for node, port in sorted(ports.items()):
        if port.memlock_bytes is not None and port.memlock_bytes <= pinned_bytes:
            low[node] = port.memlock_bytes
    if not low:
        return ""
    return (
        f"the SSH user may pin only {min(low.values()) >> 10} KiB on {some(list(low), 3)} (ulimit "
        "-l), and perftest "
        f"pins {pinned_bytes >> 10} KiB and its queues: tests fail, or take too few queue pairs. "
        "Set runtime.memlock "
        "to unlimited (its default: `runtime: {}` is enough) and run pulumi up"
    )


def nearest_gpus(
    nics: Mapping[str, PciPlace], gpus: Mapping[str, PciPlace], numa_nodes: int
) -> dict[str, NearestGpu]:
    """A GPU for each NIC, by device, the nearest pair first; NICs share a GPU only where none that
    is near is free.

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
    return {
        nic: NearestGpu(gpu, far=not closeness[nic, gpu]) for nic, gpu in sorted(gpu_of.items())
    }


def _closeness(nic: PciPlace, gpu: PciPlace) -> int:
    """0 for far, 1 on one NUMA node, 2 below one root bus, and 1 more for each common bridge."""
    bridges = ROOT_BUS.search(os.path.commonpath([nic.path, gpu.path]))
    if bridges:
        return 1 + bridges[0].count("/")
    return int(nic.numa_node == gpu.numa_node >= 0)


def _nearest_gpu(host: dict[str, Any], ports: dict[str, dict[str, Any]]) -> dict[str, NearestGpu]:
    nics = {}
    for device, path in _by_device(ports, "path"):
        nics[device] = PciPlace(path, ports[device].get("numa_node", -1))
    gpus = {}
    for gpu in host.get("gpus", ()):
        gpus[gpu["pci"]] = PciPlace(gpu["path"], gpu["numa_node"])
    return nearest_gpus(nics, gpus, len(host.get("cpus_of_numa_node", ())))


def _gids(ports: dict[str, dict[str, Any]]) -> dict[tuple[str, int], tuple[str, str, str]]:
    gids = {}
    for device, entries in _by_device(ports, "gids"):
        for entry in entries:
            gids[device, entry["index"]] = (entry["gid"], entry["type"], entry["interface"])
    return gids


def _away(ports: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    away = []
    for device, vfs in _by_device(ports, "vfs"):
        away += [f"{device} {vf['pci']}" for vf in vfs if vf["away"]]
    return tuple(sorted(away))


def _users(host: dict[str, Any], ports: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    devices = set(ports)
    for _, vfs in _by_device(ports, "vfs"):
        for vf in vfs:
            devices.update(vf["devices"])
    users = set()
    for pair in host.get("queue_pairs", ()):
        if pair["device"] in devices:
            users.add(f"{pair['program']} ({pair['pid']}) on {pair['device']}")
    return tuple(sorted(users))

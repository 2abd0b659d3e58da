"""What a benchmark needs of a host: its programs, limits and GPUs, the ports under test, and who
uses them.
"""

import json
import os
import re
import sys
import time
from typing import Dict, List, Optional, Sequence, Tuple

from ..carriers import QUEUE_PAIRS, queue_pairs
from . import nic, pci
from .leaves import Json, Leaf, LookSection, UnknownError, matched, number, printed
from .read_only import ReadOnly
from .run import copied, read_at_once

SCHEMA = 1
DEADLINE_S = 80.0
"""The caller waits 90 s."""
TRAFFIC_S = 1.0
RDMA_WORD_BYTES = 4
"""port_xmit_data and port_rcv_data count words (InfiniBand specification, PortCounters)."""
LIMITS = "/proc/self/limits"
NUMA_NODES = "/sys/devices/system/node"
GPU_DRIVER = "/sys/bus/pci/drivers/nvidia"
OF_THE_NIC = ("numa_node", "pcie_speed_gt_s", "pcie_width", "speed_mbit_s", "mtu_bytes")
"""The leaves of an inventory that a benchmark reads too."""


def print_bench_facts(arguments: Sequence[str]) -> int:
    """The verb: it needs no document and no root, takes no lock, and changes nothing.

    Args:
        arguments: the tests in one word, then device and interface of each port.
    """
    machine = ReadOnly(path="/usr/sbin:/sbin:" + os.environ.get("PATH", os.defpath))
    ends = [(arguments[at], arguments[at + 1]) for at in range(1, len(arguments), 2)]
    document = bench_facts(machine, arguments[0].split(), ends)
    sys.stdout.write(json.dumps(document, separators=(",", ":")) + "\n")
    return 0


def bench_facts(
    machine: ReadOnly,
    tests: Sequence[str],
    ends: Sequence[Tuple[str, str]],
    deadline_s: float = DEADLINE_S,
) -> Json:
    """Reads the host in time; what cannot be read is unknown with the reason.

    Args:
        machine: the host.
        tests: programs that are to run.
        ends: RDMA device and interface of each port.
        deadline_s: when the answer must be there.
    """
    end_s = time.monotonic() + deadline_s
    host: Json = {}
    sections = [LookSection(host_leaves(machine, tests), host)]
    ports: List[Json] = []
    for device, interface in ends:
        port: Json = {}
        ports.append({"device": device, "interface": interface, "leaves": port})
        sections.append(LookSection(port_leaves(machine, device, interface), port))
        sections.append(LookSection([traffic_leaf(machine, device, interface)], port))
    read_at_once(sections, end_s, deadline_s)
    document = {"schema": SCHEMA, "host": host, "ports": ports}
    return dict(copied(document))


def host_leaves(machine: ReadOnly, tests: Sequence[str]) -> List[Leaf]:
    first = tests[0]
    return [
        Leaf("cpu_vendor", "/proc/cpuinfo", lambda: _cpu_vendor(machine)),
        Leaf("memlock_bytes", LIMITS, lambda: pinnable_bytes(machine.text(LIMITS), os.geteuid())),
        Leaf("cpus_of_numa_node", NUMA_NODES, lambda: _cpus_of_numa_node(machine)),
        Leaf("gpus", pci.DEVICES, lambda: _gpus(machine)),
        Leaf(
            "programs",
            "PATH",
            lambda: [name for name in (*tests, "numactl") if machine.installed(name)],
        ),
        Leaf("version", f"{first} --version", lambda: _version(machine, first)),
        Leaf("queue_pairs", " ".join(QUEUE_PAIRS), lambda: _users_of_queue_pairs(machine)),
        Leaf("cuda_options", "ib_write_bw --help", lambda: _cuda_options(machine)),
    ]


def port_leaves(machine: ReadOnly, device: str, interface: str) -> List[Leaf]:
    place = f"/sys/class/net/{interface}/device"
    table = f"/sys/class/infiniband/{device}/ports/1"
    reader = nic.NicReader(machine, machine.target(place), interface)
    of_the_nic = [
        leaf for leaf in (*reader.pci_leaves(), *reader.port_leaves()) if leaf.name in OF_THE_NIC
    ]
    return [
        *of_the_nic,
        Leaf("pci", place, lambda: machine.target(place)),
        Leaf("path", place, lambda: machine.real(place)),
        Leaf("gids", f"{table}/gids", lambda: nic.gids(machine, table)),
        Leaf("vfs", f"{place}/virtfn*", lambda: _vfs(reader)),
    ]


def traffic_leaf(machine: ReadOnly, device: str, interface: str) -> Leaf:
    source = (
        f"/sys/class/net/{interface}/statistics, /sys/class/infiniband/{device}/ports/1/counters"
    )
    return Leaf("moved_bytes", source, lambda: moved_bytes(machine, device, interface))


def moved_bytes(machine: ReadOnly, device: str, interface: str) -> int:
    """Growth of the busiest counter within a second: netdev counters miss what the NIC carries by
    itself.
    """
    before = _traffic(machine, device, interface)
    machine.pause(TRAFFIC_S)
    after = _traffic(machine, device, interface)
    growth = [after[name] - count for name, count in before.items() if name in after]
    if not growth:
        raise UnknownError("it has no counters")
    return max(growth)


def _traffic(machine: ReadOnly, device: str, interface: str) -> Dict[str, int]:
    """Bytes by counter."""
    counts = {}
    for folder, names, unit_bytes in (
        (f"/sys/class/net/{interface}/statistics", ("rx_bytes", "tx_bytes"), 1),
        (
            f"/sys/class/infiniband/{device}/ports/1/counters",
            ("port_rcv_data", "port_xmit_data"),
            RDMA_WORD_BYTES,
        ),
    ):
        for name in names:
            text = machine.read(f"{folder}/{name}")
            if text.isdigit():
                counts[name] = int(text) * unit_bytes
    return counts


def pinnable_bytes(limits: str, user_id: int) -> Optional[int]:
    """Memory that a program of this session may pin; None: without limit.

    The kernel does not limit what root pins (CAP_IPC_LOCK, ib_umem_get).
    """
    soft = matched(r"^Max locked memory\s+(\w+)", limits, "it has no limit of locked memory")
    return None if user_id == 0 or not soft.isdigit() else int(soft)


def _cpu_vendor(machine: ReadOnly) -> str:
    return matched(r"^vendor_id\s*:\s*(\S+)", machine.text("/proc/cpuinfo"), "Arm has no vendor_id")


def _cpus_of_numa_node(machine: ReadOnly) -> Dict[str, str]:
    """Lists such as `0-31,64-95`."""
    cpus = {}
    for name in machine.names(NUMA_NODES):
        numbers = machine.read(f"{NUMA_NODES}/{name}/cpulist")
        if re.match(r"node\d+$", name) and numbers:
            cpus[name[len("node") :]] = numbers
    return cpus


def _gpus(machine: ReadOnly) -> List[Json]:
    """The GPUs that NVIDIA's driver has."""
    gpus = []
    for address in pci.gpu_addresses(machine):
        folder = f"{pci.DEVICES}/{address}"
        if machine.exists(f"{GPU_DRIVER}/{address}"):
            node = number(machine, f"{folder}/numa_node")
            gpus.append({"pci": address, "path": machine.real(folder), "numa_node": node})
    return gpus


def _version(machine: ReadOnly, test: str) -> str:
    done = machine.run(test, "--version")
    return matched(r"^(Version.*?)\s*$", f"{done.out}\n{done.err}", f"{test} reports no version")


def _users_of_queue_pairs(machine: ReadOnly) -> List[Json]:
    """Queue pairs of processes; those of the kernel have no pid."""
    pairs = queue_pairs(printed(machine.run(*QUEUE_PAIRS)))
    users = []
    for pair in pairs:
        if pair.pid:
            users.append({"device": pair.device, "pid": pair.pid, "program": pair.program})
    return users


def _cuda_options(machine: ReadOnly) -> List[str]:
    """Perftest's options for GPU memory; a build without CUDA has none, and no one asks on a host
    without GPUs.
    """
    if not machine.exists(GPU_DRIVER):
        return []
    done = machine.run("ib_write_bw", "--help")
    return sorted(set(re.findall(r"--use_cuda[a-z_]*", done.out + done.err)))


def _vfs(reader: nic.NicReader) -> List[Json]:
    """VFs of a port. One with a driver and without a netdev is in use: a pod has the netdev, or
    vfio has the VF.

    The kubelet's list of allocated devices is not read: it outlives pods and reboots.
    """
    vfs = []
    for vf in reader.host.vfs(reader.name):
        devices = reader.machine.names(f"{vf.path}/infiniband")
        vfs.append(
            {"pci": vf.pci_address, "devices": devices, "away": bool(vf.driver and not vf.netdev)}
        )
    return vfs

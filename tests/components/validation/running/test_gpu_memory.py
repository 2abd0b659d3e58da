"""GPU memory on the wire: which GPU, which words, and what is read. Nobody here has run it on a GPU and a NIC.

Published outputs: google/dranet, site/content/docs/user/gke-rdma.md has an A3 Ultra (H200, 400 Gbit/s) with both
memories; NVIDIA's GPU operator documentation a pair of pods at 100 Gbit/s; linux-rdma/perftest#241 one that is slow.
"""

import asyncio
import os
import subprocess
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from components.ssh.session import CommandResult
from components.validation.benchmarks.gpu_memory import measure_gpu_memory
from components.validation.benchmarks.verbs.commands import inspect
from components.validation.benchmarks.verbs.perftest import cause_of, parse_bandwidth
from components.validation.benchmarks.verbs.ports import PciPlace, nearest_gpus, parse_ports
from components.validation.benchmarks.verbs.run import Bench
from components.validation.planning.plan import Plan
from components.validation.records import GpuTransfer, TransferResult
from stacks.base import LabError
from stacks.lab import Lab
from tests.components.validation.labs import hardware, measured, plan_for, with_nodes
from tests.messages import states

SWITCH = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17"
LOOK = f"""has ib_write_bw
version Version: 6.22
cuda --use_cuda
cuda --use_cuda_bus_id
cuda --use_cuda_dmabuf
gpu 0000:1b:00.0 {SWITCH}:00.0/0000:1b:00.0
gpu 0000:43:00.0 /sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0/0000:43:00.0
path rxe0 {SWITCH}:02.0/0000:18:00.0
path rxe1 /sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0/0000:44:00.0
"""
CUDA = """initializing CUDA
Listing all CUDA devices in system:
CUDA device 0: PCIe address is 1B:00

Picking device No. 0
[pid = 29, dev = 0] device name = [NVIDIA H200]
creating CUDA Ctx
making it the current CUDA Ctx
CUDA device integrated: 0
using DMA-BUF for GPU buffer address at 0x78e9f8800000 aligned at 0x78e9f8800000 with aligned size 131072
allocated GPU buffer of a 131072 address at 0x5d07a20e9300 for type CUDA_MEM_DEVICE
Calling ibv_reg_dmabuf_mr(offset=0, size=131072, addr=0x78e9f8800000, fd=39) for QP #0
"""
"""What perftest says around a buffer in a GPU, in the words of its src/cuda_memory.c and of the published output."""
RULE = "-" * 87


def printed(own: str, peer: str, device: str, gbit_s: float, before: str = CUDA) -> str:
    rate = gbit_s * 1e3 / 65536 / 8
    header = f"""                    RDMA_Write BW Test
 Dual-port       : OFF          Device         : {device}
 Number of qps   : 1            Transport type : IB
 Connection type : RC           Using SRQ      : OFF
 PCIe relax order: ON           Lock-free      : OFF
 ibv_wr* API     : ON           Using DDP      : OFF
 TX depth        : 128
 CQ Moderation   : 1
 Mtu             : 4096[B]
 Link type       : Ethernet
 GID index       : 3
 Max inline data : 0[B]
 rdma_cm QPs     : OFF
 Data ex. method : Ethernet
"""
    ends = "".join(
        f" {label} address: LID 0000 QPN 0x029e PSN 0x73226b RKey 0x021400 VAddr 0x0078e9f9000000\n"
        f" GID: 00:00:00:00:00:00:00:00:00:00:255:255:{':'.join(f'{int(part):02}' for part in address.split('.'))}\n"
        for label, address in (("local", own), ("remote", peer))
    )
    table = f""" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      1343655          0.00               {gbit_s:.2f}             {rate:.6f}
"""
    after = "deallocating GPU buffer 000078e9f8800000\ndestroying current CUDA Ctx\n" if before else ""
    return f"{before}{RULE}\n{header}{RULE}\n{ends}{RULE}\n{table}{RULE}\n{after}"


class GpuBench(Bench):
    """Both ends answer as perftest does with a buffer in a GPU."""

    gbit_s = 140.88
    before = CUDA
    fails = ""

    async def _both(self, sides, serve, write, name):  # type: ignore[no-untyped-def]  # as the method's own
        client, server = (side.end for side in sides)
        if self.fails:
            raise LabError(f"{client.node}: {self.fails}")
        done = []
        for command, own, other, end in ((write, client, server, "client"), (serve, server, client, "server")):
            out = printed(str(own.address), str(other.address), own.device, self.gbit_s, self.before)
            done.append(self._keep(f"{name}.{end}", command, CommandResult(code=0, out=out, err="")))
        return done[0], done[1]


def looked(plan: Plan, node: str, text: str = LOOK):  # type: ignore[no-untyped-def]  # the ports of a host
    gids = "".join(
        f"type {end.device} 3 RoCE v2\nndev {end.device} 3 {end.interface}\n"
        f"gid {end.device} 3 {IPv6Address(f'::ffff:{end.address}').exploded}\n"
        for rail in plan.rails
        for end in rail.ends
        if end.node == node
    )
    return parse_ports(text + gids)


def bench_of(plan: Plan, text: str = LOOK) -> GpuBench:
    nodes = {end.node for rail in plan.rails for end in rail.ends}
    ports = {node: looked(plan, node, text) for node in nodes}
    return GpuBench(plan=plan, connections={}, ports=ports, unreachable={})


def in_host_memory(plan: Plan, gbit_s: float = 381.41) -> list[TransferResult]:
    return [measured(t.rail, t.client, t.server, gbit_s) for together in plan.gpu_memory for t in together]


def ran(bench: Bench, host: list[TransferResult], said: list[str] | None = None) -> tuple[GpuTransfer, ...]:
    return asyncio.run(measure_gpu_memory(bench, host, (said if said is not None else []).append))


@pytest.fixture
def plan(lab: Lab) -> Plan:
    plan = plan_for(hardware(lab))
    return plan.model_copy(update={"verbs": plan.verbs.model_copy(update={"iterations": 5000, "duration_s": 5})})


def test_a_nic_takes_the_gpu_that_it_shares_a_switch_with(plan: Plan) -> None:
    ports = looked(plan, "gpu01")

    assert ports.nearest_gpu == {"rxe0": ("0000:1b:00.0", False), "rxe1": ("0000:43:00.0", False)}
    assert ports.gpu_words(plan.rails[0].end("gpu01")) == ("--use_cuda_bus_id=0000:1b:00.0", "--use_cuda_dmabuf")


def test_two_nics_that_are_equally_near_take_two_gpus(plan: Plan) -> None:
    same = LOOK.replace("/sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0/", f"{SWITCH}:04.0/")

    taken = {near.address for near in looked(plan, "gpu01", same).nearest_gpu.values()}
    assert taken == {"0000:1b:00.0", "0000:43:00.0"}


OWN_ROOT_BUSES = """cpus 0 0-31
cpus 1 32-63
gpu 0000:37:00.0 /sys/devices/pci0000:36/0000:36:01.0/0000:37:00.0
gpu_numa 0000:37:00.0 0
gpu 0000:a7:00.0 /sys/devices/pci0000:a6/0000:a6:01.0/0000:a7:00.0
gpu_numa 0000:a7:00.0 1
numa mlx5_0 0
path mlx5_0 /sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0
numa mlx5_1 1
path mlx5_1 /sys/devices/pci0000:97/0000:97:01.0/0000:98:00.0
"""
"""A Xeon server without PCIe switches, each slot below a root bus of its own; composed."""


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (OWN_ROOT_BUSES, {"mlx5_0": ("0000:37:00.0", False), "mlx5_1": ("0000:a7:00.0", False)}),
        (
            OWN_ROOT_BUSES.replace("gpu_numa 0000:a7:00.0 1", "gpu_numa 0000:a7:00.0 0"),
            {"mlx5_0": ("0000:37:00.0", False), "mlx5_1": ("0000:37:00.0", True)},
        ),
        (
            OWN_ROOT_BUSES.replace("numa mlx5_1 1", "numa mlx5_1 -1").replace("a7:00.0 1", "a7:00.0 -1"),
            {"mlx5_0": ("0000:37:00.0", False), "mlx5_1": ("0000:37:00.0", True)},
        ),
        (
            OWN_ROOT_BUSES.replace("cpus 1 32-63\n", "").replace("numa mlx5_1 1", "numa mlx5_1 -1"),
            {"mlx5_0": ("0000:37:00.0", False), "mlx5_1": ("0000:a7:00.0", False)},
        ),
    ],
    ids=["one on each socket", "no GPU on the second socket", "unknown socket", "a single socket"],
)
def test_without_a_common_bridge_a_nic_takes_a_gpu_of_its_socket(text: str, gpus: dict[str, tuple[str, bool]]) -> None:
    assert parse_ports(text).nearest_gpu == gpus


def test_the_parents_of_a_root_bus_say_nothing_about_distance() -> None:
    """On Azure each device has a root bus of its own below the VMBus."""
    below = "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001-0000-3130-444531334632"
    text = OWN_ROOT_BUSES.replace("/sys/devices", below).replace("gpu_numa 0000:a7:00.0 1", "gpu_numa 0000:a7:00.0 0")

    assert parse_ports(text).nearest_gpu["mlx5_1"].far


NO_SWITCHES = """
gpu0  NODE NODE SYS  SYS   0
gpu1  PHB  PHB  SYS  SYS   0
gpu2  NODE NODE SYS  SYS   0
gpu3  NODE NODE SYS  SYS   0
gpu4  SYS  SYS  NODE NODE  1
gpu5  SYS  SYS  NODE NODE  1
gpu6  SYS  SYS  PHB  PHB   1
"""
"""meta-pytorch/monarch#3759, without its last GPU."""
FOUR_NUMA_NODES_PER_SOCKET = """
gpu0  SYS  PXB  SYS  SYS  SYS  SYS   3
gpu1  SYS  PXB  SYS  SYS  SYS  SYS   3
gpu2  PXB  SYS  SYS  SYS  SYS  SYS   1
gpu3  PXB  SYS  SYS  SYS  SYS  SYS   1
gpu4  SYS  SYS  SYS  SYS  SYS  PXB   7
gpu5  SYS  SYS  SYS  SYS  SYS  PXB   7
gpu6  SYS  SYS  PXB  SYS  SYS  SYS   5
gpu7  SYS  SYS  PXB  SYS  SYS  SYS   5
"""
"""NVIDIA/nccl#1435: two GPUs behind each switch, and two NICs that are near no GPU."""
SWITCH_PER_PAIR = """
gpu0  NODE NODE NODE PIX  SYS  SYS   0
gpu1  NODE NODE PIX  NODE SYS  SYS   0
gpu2  NODE PIX  NODE NODE SYS  SYS   0
gpu3  PIX  NODE NODE NODE SYS  SYS   0
gpu4  SYS  SYS  SYS  SYS  NODE PIX   1
gpu5  SYS  SYS  SYS  SYS  PIX  NODE  1
"""
"""vllm-project/vllm#29944, its first six GPUs and NICs."""


def composed(topology: str) -> tuple[dict[str, PciPlace], dict[str, PciPlace], dict[tuple[str, str], str]]:
    """NICs and GPUs at paths that have the published levels, and these levels by NIC and GPU.

    Args:
        topology: of `nvidia-smi topo -m` the rows of the GPUs: a level for each NIC, and the GPU's NUMA node.
    """
    gpus: dict[str, PciPlace] = {}
    nics: dict[str, PciPlace] = {}
    levels: dict[tuple[str, str], str] = {}
    for number, line in enumerate(topology.split("\n")[1:-1]):
        gpu, *row, numa_node = line.split()
        switch = next((column for column, level in enumerate(row) if level in ("PIX", "PXB")), number + 10)
        root = f"/sys/devices/pci00{switch:02}:00"
        gpus[gpu] = PciPlace(f"{root}/0000:00:01.0/0000:01:00.0/0000:02:0{number}.0/{gpu}", int(numa_node))
        for column, level in enumerate(row):
            nic = f"nic{column}"
            levels[nic, gpu] = level
            nics.setdefault(nic, PciPlace(f"/sys/devices/pci00{column + 50}:00/{nic}", -1))
            if level in ("PIX", "PXB"):
                nics[nic] = PciPlace(f"{root}/0000:00:01.0/0000:01:00.0/0000:02:1f.0/{nic}", int(numa_node))
            elif level == "PHB":
                nics[nic] = PciPlace(f"{root}/0000:00:02.0/{nic}", int(numa_node))
            elif level == "NODE" and nics[nic].numa_node < 0:
                nics[nic] = nics[nic]._replace(numa_node=int(numa_node))
    return nics, gpus, levels


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (NO_SWITCHES, "gpu1 PHB, gpu0 NODE, gpu6 PHB, gpu4 NODE"),
        (FOUR_NUMA_NODES_PER_SOCKET, "gpu2 PXB, gpu0 PXB, gpu6 PXB, gpu0 SYS, gpu0 SYS, gpu4 PXB"),
        (SWITCH_PER_PAIR, "gpu3 PIX, gpu2 PIX, gpu1 PIX, gpu0 PIX, gpu5 PIX, gpu4 PIX"),
    ],
)
def test_on_published_topologies_a_nic_takes_the_nearest_gpu_and_only_sys_is_far(topology: str, expected: str) -> None:
    nics, gpus, levels = composed(topology)
    chosen = nearest_gpus(nics, gpus, numa_nodes=2)

    assert ", ".join(f"{near.address} {levels[nic, near.address]}" for nic, near in chosen.items()) == expected
    assert {nic: near.far for nic, near in chosen.items()} == {
        nic: levels[nic, near.address] == "SYS" for nic, near in chosen.items()
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LOOK.replace("cuda --", "no --"), ["perftest", "--use_cuda_bus_id", "CUDA"]),
        ("\n".join(line for line in LOOK.splitlines() if not line.startswith("gpu ")) + "\n", ["gpu01", "GPU"]),
    ],
)
def test_what_a_host_cannot_run_is_skipped_with_the_reason(plan: Plan, text: str, reason: list[str]) -> None:
    done = ran(bench_of(plan, text), in_host_memory(plan))

    assert {one.outcome for one in done} == {"skipped"}
    assert states(done[0].reason, *reason)


def test_each_nic_sends_and_receives_once_and_is_held_against_host_memory(plan: Plan) -> None:
    said: list[str] = []
    bench = bench_of(plan)
    done = ran(bench, in_host_memory(plan), said)

    assert [(t.rail, t.client, t.server) for t in done] == [
        ("rail-a", "gpu01", "gpu02"),
        ("rail-b", "gpu01", "gpu02"),
        ("rail-a", "gpu02", "gpu01"),
        ("rail-b", "gpu02", "gpu01"),
    ]
    assert {(t.outcome, t.gbit_s, t.host_gbit_s) for t in done} == {("measured", 140.88, 381.41)}
    command = bench.raw["gpu-memory/rail-b/gpu01-to-gpu02.client"].splitlines()[0]
    assert "--use_cuda_bus_id=0000:43:00.0 --use_cuda_dmabuf" in command
    assert "-D 5" in command
    assert states(said[0], "gpu_memory", "1/2", 2, "140.9 Gbit/s", "37%")


def test_a_transfer_names_the_nodes_whose_gpu_is_on_another_socket(plan: Plan) -> None:
    bench = bench_of(plan)
    far = LOOK.replace(f"{SWITCH}:02.0", "/sys/devices/pci0000:97/0000:97:01.0") + "cpus 0 0-31\ncpus 1 32-63\n"
    bench.ports["gpu02"] = looked(plan, "gpu02", far)

    done = ran(bench, in_host_memory(plan))

    assert {(t.rail, t.far) for t in done} == {("rail-a", ("gpu02",)), ("rail-b", ())}
    assert {t.outcome for t in done} == {"measured"}


def test_a_run_that_does_not_say_that_it_used_gpu_memory_is_no_proof(plan: Plan) -> None:
    bench = bench_of(plan)
    bench.before = ""

    done = ran(bench, in_host_memory(plan))

    assert {one.outcome for one in done} == {"failed"}
    assert states(done[0].reason, "client", "GPU memory")


def test_a_way_that_host_memory_did_not_take_is_not_tried_with_gpus(plan: Plan) -> None:
    done = ran(bench_of(plan), in_host_memory(plan)[1:])

    assert [one.outcome for one in done] == ["skipped", "measured", "measured", "measured"]


def test_of_many_nodes_each_runs_with_its_neighbours_only(lab: Lab) -> None:
    plan = plan_for(with_nodes(hardware(lab), 5))
    ways = [(t.client, t.server) for together in plan.gpu_memory for t in together if t.rail == "rail-a"]

    assert sorted(client for client, _ in ways) == sorted(server for _, server in ways)
    assert len(ways) == len({client for client, _ in ways}) == 5
    assert plan_for(lab).gpu_memory == [], "a simulated node has no GPU"


def test_the_parser_reads_the_value_between_what_cuda_says() -> None:
    run = parse_bandwidth(printed("10.0.4.7", "10.0.4.8", "mlx5_3", 140.88))

    assert (run.device, run.rows[0].average_gbit_s, run.path_mtu_bytes) == ("mlx5_3", 140.88, 4096)


def test_memory_that_cannot_be_registered_is_distinguished_by_its_owner() -> None:
    """A host without nvidia_peermem prints `failed to create mr`; the memlock limit is a matter of host memory."""
    refused = "Couldn't allocate MR\nfailed to create mr\nCouldn't create IB resources\n"

    assert "nvidia_peermem" in str(cause_of(refused + CUDA))
    assert "memlock" in str(cause_of(refused))


def test_the_inventory_of_a_host_has_gpus_where_the_driver_has_some(plan: Plan, tmp_path: Path) -> None:
    driver = tmp_path / "nvidia"
    perftest = tmp_path / "ib_write_bw"
    perftest.write_text("#!/bin/sh\necho '      --use_cuda=<cuda device id>'\necho '      --use_cuda_bus_id=<id>'\n")
    perftest.chmod(0o700)
    command = inspect(["ib_write_bw"], plan.rails[0].ends).replace("/sys/bus/pci/drivers/nvidia", str(driver))

    def told() -> list[str]:
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, env={"PATH": path})
        return [line for line in done.stdout.splitlines() if line.split()[0] in ("cuda", "gpu", "gpu_numa", "path")]

    assert told() == [], "a host without the driver is asked for nothing more"
    (driver / "0000:1b:00.0").mkdir(parents=True)
    (driver / "0000:1b:00.0" / "numa_node").write_text("1\n")
    assert told()[:4] == [
        "cuda --use_cuda",
        "cuda --use_cuda_bus_id",
        f"gpu 0000:1b:00.0 {driver}/0000:1b:00.0",
        "gpu_numa 0000:1b:00.0 1",
    ]

"""GPU memory on the wire: which GPU, which words, and what is read. Nobody here has run it on a GPU and a NIC.

Published outputs: google/dranet, site/content/docs/user/gke-rdma.md has an A3 Ultra (H200, 400 Gbit/s) with both
memories; NVIDIA's GPU operator documentation a pair of pods at 100 Gbit/s; linux-rdma/perftest#241 one that is slow.
"""

import asyncio
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import pytest

from components.hosts.program.look.bench import bench_facts
from components.hosts.program.look.read_only import ReadOnly
from components.ssh.session import CommandResult
from components.validation.benchmarks.gpu_memory import measure_gpu_memory
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.perftest import cause_of, parse_bandwidth
from components.validation.benchmarks.verbs.ports import HostPorts, PciPlace, nearest_gpus, parse_ports
from components.validation.benchmarks.verbs.run import Bench
from components.validation.records import GpuTransfer, TransferResult
from stacks.base import LabError
from stacks.lab import Lab
from tests.components.inventory.tree import GPU, SWITCHES, Tree
from tests.components.validation.labs import hardware, measured, plan_for, with_nodes
from tests.components.validation.running.bench_facts import answer_of, with_values
from tests.messages import states


def gpu(address: str, path: str, numa_node: int = -1) -> dict[str, str | int]:
    return {"pci": address, "path": path, "numa_node": numa_node}


SWITCH = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17"
LOOK = answer_of(
    {
        "programs": ["ib_write_bw"],
        "version": "Version: 6.22",
        "cuda_options": ["--use_cuda", "--use_cuda_bus_id", "--use_cuda_dmabuf"],
        "gpus": [
            gpu("0000:1b:00.0", f"{SWITCH}:00.0/0000:1b:00.0"),
            gpu("0000:43:00.0", "/sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0/0000:43:00.0"),
        ],
    },
    rxe0={"path": f"{SWITCH}:02.0/0000:18:00.0"},
    rxe1={"path": "/sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0/0000:44:00.0"},
)
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


def looked(plan: Plan, node: str, text: str = LOOK) -> HostPorts:
    gids = {}
    for end in (end for rail in plan.rails for end in rail.ends if end.node == node):
        gid = IPv6Address(f"::ffff:{end.address}").exploded
        entry = {"index": 3, "gid": gid, "type": "RoCE v2", "interface": end.interface}
        gids[end.device] = {"gids": [entry]}
    return parse_ports(with_values(text, **gids))


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


def own_root_buses(
    below: str = "/sys/devices", nic: int = 1, gpu_node: int = 1, cpus: tuple[str, ...] = ("0-31", "32-63")
) -> str:
    """A Xeon server without PCIe switches, each slot below a root bus of its own; composed.

    Args:
        below: where its root buses are.
        nic: NUMA node of the second NIC.
        gpu_node: NUMA node of the second GPU.
        cpus: of each NUMA node.
    """
    gpus = [
        gpu("0000:37:00.0", f"{below}/pci0000:36/0000:36:01.0/0000:37:00.0", 0),
        gpu("0000:a7:00.0", f"{below}/pci0000:a6/0000:a6:01.0/0000:a7:00.0", gpu_node),
    ]
    return answer_of(
        {"cpus_of_numa_node": {str(number): listed for number, listed in enumerate(cpus)}, "gpus": gpus},
        mlx5_0={"numa_node": 0, "path": f"{below}/pci0000:17/0000:17:01.0/0000:18:00.0"},
        mlx5_1={"numa_node": nic, "path": f"{below}/pci0000:97/0000:97:01.0/0000:98:00.0"},
    )


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (own_root_buses(), {"mlx5_0": ("0000:37:00.0", False), "mlx5_1": ("0000:a7:00.0", False)}),
        (own_root_buses(gpu_node=0), {"mlx5_0": ("0000:37:00.0", False), "mlx5_1": ("0000:37:00.0", True)}),
        (own_root_buses(nic=-1, gpu_node=-1), {"mlx5_0": ("0000:37:00.0", False), "mlx5_1": ("0000:37:00.0", True)}),
        (
            own_root_buses(nic=-1, cpus=("0-31",)),
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
    text = own_root_buses(below, gpu_node=0)

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
        (with_values(LOOK, {"cuda_options": []}), ["perftest", "--use_cuda_bus_id", "CUDA"]),
        (with_values(LOOK, {"gpus": []}), ["gpu01", "GPU"]),
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
    on_other_socket = LOOK.replace(f"{SWITCH}:02.0", "/sys/devices/pci0000:97/0000:97:01.0")
    far = with_values(on_other_socket, {"cpus_of_numa_node": {"0": "0-31", "1": "32-63"}})
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

    assert (run.device, run.rows[0].value, run.path_mtu_bytes) == ("mlx5_3", 140.88, 4096)


def test_memory_that_cannot_be_registered_is_distinguished_by_its_owner() -> None:
    """A host without nvidia_peermem prints `failed to create mr`; the memlock limit is a matter of host memory."""
    refused = "Couldn't allocate MR\nfailed to create mr\nCouldn't create IB resources\n"

    assert "nvidia_peermem" in str(cause_of(refused + CUDA))
    assert "memlock" in str(cause_of(refused))


def test_a_host_reports_gpus_and_cuda_where_the_driver_has_some(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.script("ib_write_bw", "echo '      --use_cuda=<cuda device id>'\necho '      --use_cuda_bus_id=<id>'")

    def host() -> dict[str, Any]:
        facts = bench_facts(ReadOnly(str(tree.root), str(tree.programs)), ["ib_write_bw"], [])
        return {name: facts["host"][name]["value"] for name in ("gpus", "cuda_options")}

    assert host() == {"gpus": [], "cuda_options": []}, "a host without the driver is asked for nothing more"
    tree.file(f"/sys/bus/pci/drivers/nvidia/{GPU}/numa_node", "0")
    path = f"{tree.root.resolve()}/sys/devices/pci0000:1a/{SWITCHES[GPU]}/{GPU}"
    assert host() == {"gpus": [gpu(GPU, path, 0)], "cuda_options": ["--use_cuda", "--use_cuda_bus_id"]}

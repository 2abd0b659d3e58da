"""What keeps judge from a confident wrong verdict."""

import pytest

from components.judge.assessment import Assessment
from components.judge.judge import judge
from components.judge.known import KnownHardware
from components.judge.reader import read_results


def judged(text: str, **known: object) -> Assessment:
    (result,) = read_results(f"{text}\n")
    return judge(result, KnownHardware(**known))  # type: ignore[arg-type]


RACK = {"nic_gbit_s": 400.0, "nics_per_node": 8, "nodes": 2, "gpus_per_node": 8}
NVL72 = {"nic_gbit_s": 400.0, "nics_per_node": 4, "nodes": 18, "gpus_per_node": 4}


@pytest.mark.parametrize(
    ("gpu", "verdict"),
    [
        ("NVIDIA H100 80GB HBM3", "slow"),
        ("NVIDIA H100 PCIe", "cannot judge"),
        ("NVIDIA RTX PRO 6000", "cannot judge"),
        (None, "cannot judge"),
    ],
)
def test_gpus_without_nvlink_may_be_slower_than_the_nics(gpu: str | None, verdict: str) -> None:
    assert judged("all_reduce busbw 34 GB/s", gpu=gpu, **RACK).verdict == verdict


@pytest.mark.parametrize(
    ("busbw_gbyte_s", "verdict", "codes"),
    [
        (2000, "cannot judge", {"NVLINK_BETWEEN_NODES", "IMPOSSIBLE"}),
        (1700, "good", {"NVLINK_BETWEEN_NODES"}),
        (640, "good", {"NVLINK_BETWEEN_NODES"}),
        (250, "cannot judge", {"NVLINK_BETWEEN_NODES"}),
        (150, "slow", {"FEWER_NICS"}),
    ],
)
def test_nvlink_joins_the_nodes_of_one_rack_and_is_no_measure_of_their_nics(
    busbw_gbyte_s: int, verdict: str, codes: set[str]
) -> None:
    """NVLink carries 900 GB/s each way (NVIDIA's data sheet of GB200 NVL72), in its switch up to twice the busbw."""
    result = judged(f"all_reduce busbw {busbw_gbyte_s} GB/s", gpu="NVIDIA GB200", **NVL72)

    assert result.verdict == verdict
    assert {finding.code for finding in result.findings} == codes


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("all_reduce average busbw 100 GB/s", "cannot judge"),
        ("all_reduce_perf -b 1G -e 8G average busbw 100 GB/s", "slow"),
        ("all_reduce busbw 100 GB/s", "slow"),
        ("all_reduce average busbw 370 GB/s", "good"),
    ],
)
def test_a_mean_over_small_messages_too_is_never_slow(text: str, verdict: str) -> None:
    assert judged(text, gpu="H100", **RACK).verdict == verdict


@pytest.mark.parametrize(
    ("text", "link", "verdict"),
    [
        ("ib_write_bw 49.5 Gb/s", "infiniband", "good"),
        ("ib_write_bw 49.5 Gb/s", "roce_v2", "good"),
        ("ib_write_bw 48.9 Gb/s", None, "cannot judge"),
        ("ib_write_bw 40.0 Gb/s", None, "slow"),
    ],
)
def test_fdr_carries_less_data_than_its_name_says(text: str, link: str | None, verdict: str) -> None:
    assert judged(text, nic_gbit_s=56.0, framing=link).verdict == verdict


def test_a_number_that_nobody_measured_is_no_claim() -> None:
    assert judged("ib_read_bw is far less than 200Gb/s", nic_gbit_s=200.0).value is None
    assert judged("expected 400 Gb/s, ib_write_bw has 390 Gb/s", nic_gbit_s=400.0).value == 390


def test_nics_are_counted_in_the_lines_of_every_host() -> None:
    line = "n{}:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0\n"
    ranks = "# Rank 0 Group 0 Pid 1 on n1 device 0 [0x00] NVIDIA H100\n"
    ranks += ranks.replace("Rank 0", "Rank 1").replace("n1", "n2")
    row = "# size count type redop root time algbw busbw #wrong\n"
    row += "8589934592 2147483648 float sum -1 360000 23.86 23.86 0"

    assessment = judged(line.format(1) + line.format(2) + ranks + row, nic_gbit_s=100.0)

    assert assessment.verdict == "good"
    assert assessment.ceiling == pytest.approx(24.5, abs=0.05)


def test_a_command_of_perftest_is_given_for_other_programs_too() -> None:
    assessment = judged("# OSU MPI Bandwidth Test v5\n# Size Bandwidth (MB/s)\n4194304 1785.15", nic_gbit_s=100.0)

    assert assessment.verdict == "slow"
    assert assessment.next_command.startswith("ib_write_bw ")


def test_an_option_wins_over_the_log_and_says_so() -> None:
    header = " RDMA_Write BW Test\n Mtu : 4096[B]\n Link type : Ethernet\n"
    row = " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
    row += " 65536 5000 92.42 92.40 0.176239"

    assessment = judged(header + row, nic_gbit_s=100.0, path_mtu_bytes=1024)

    assert assessment.has("LOG_DIFFERS")
    assert "path MTU 1024" in assessment.basis
    assert not judged(header + row, nic_gbit_s=100.0, path_mtu_bytes=4096).has("LOG_DIFFERS")


@pytest.mark.parametrize(
    ("program", "verdict"),
    [("sendrecv_perf", "good"), ("gather_perf", "good"), ("all_gather_perf", "slow")],
)
def test_a_gpu_that_exchanges_with_one_other_reaches_its_own_nic(program: str, verdict: str) -> None:
    assert judged(f"{program} busbw 47 GB/s", gpu="H100", **RACK).verdict == verdict


A100_RING = "4294967296 1073741824 float sum 43557 98.61 191.05 5e-07"
"""From deepops' docs/slurm-cluster/slurm-perf-cluster.md: four DGX A100 with 8x200G, good by its authors."""


def ring_after(adapters: str, channels: range = range(8)) -> Assessment:
    said = [f"n1:100:200 [0] NCCL INFO NET/IB : Using {adapters} [RO]; OOB bond0:192.168.11.9<0>"]
    for rail in channels:
        said.append(f"n1:100:200 [0] NCCL INFO Channel 0{rail}/0 : 0[0] -> 8[0] [send] via NET/IB/{rail}/GDRDMA")
    known = {"nic_gbit_s": 200.0, "nodes": 4, "gpus_per_node": 8, "gpu": "A100"}
    return judged("\n".join([*said, A100_RING]), **known)


def rails_of(kind: str) -> str:
    return " ".join(f"[{rail}]mlx5_{rail}:1/{kind}" for rail in range(8))


@pytest.mark.parametrize(
    "adapters",
    [
        rails_of("RoCE"),
        f"{rails_of('RoCE')} [8]mlx5_bond_0:1/RoCE",
        f"{rails_of('IB/SHARP')} [8]mlx5_8:1/RoCE",
    ],
)
def test_an_adapter_for_management_that_nccl_lists_carries_no_channel_and_is_no_nic(adapters: str) -> None:
    result = ring_after(adapters)

    assert result.verdict == "good", result
    assert "GPU_LINK" not in {finding.code for finding in result.findings}


def test_a_bond_by_which_ranks_find_each_other_is_no_bond_of_the_rails() -> None:
    assert "BOND" not in {finding.code for finding in ring_after(rails_of("RoCE")).findings}

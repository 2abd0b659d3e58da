"""A rank's start, run by a real shell on a made-up sysfs."""

import subprocess
from pathlib import Path

import pytest

from components.jobs.image.pvrdma_inside import REFUSED, refusal_in
from components.jobs.mpijob import rank_script
from components.jobs.workers import Workers
from stacks.lab import Lab
from tests.components.validation.labs import plan_for


@pytest.fixture
def workers(lab: Lab) -> Workers:
    nccl = plan_for(lab).nccl
    assert nccl
    return nccl


def started(workers: Workers, sysfs: Path, *words: str) -> str:
    script = rank_script(workers, str(sysfs))
    done = subprocess.run(
        ["sh", "-c", script, "rank", *words], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    return done.stdout


def pod(sysfs: Path, devices: dict[str, list[str]]) -> Path:
    """The interfaces of a pod, each with its RDMA devices."""
    for interface, names in devices.items():
        (sysfs / interface).mkdir(parents=True)
        for name in names:
            (sysfs / interface / "device" / "infiniband" / name).mkdir(parents=True)
    return sysfs


def test_a_rank_uses_the_devices_of_its_own_interfaces_and_no_other(workers: Workers, tmp_path: Path) -> None:
    sysfs = pod(tmp_path, {"eth0": [], "net1": ["mlx5_4"], "net2": ["mlx5_17"], "lo": [], "enp5s0": ["mlx5_0"]})

    assert started(workers, sysfs, "printenv", "NCCL_IB_HCA") == "=mlx5_4,mlx5_17\n"


def test_without_a_device_nccl_is_left_to_say_so_itself(workers: Workers, tmp_path: Path) -> None:
    sysfs = pod(tmp_path, {"eth0": [], "net1": []})

    assert "NCCL_IB_HCA" not in started(workers, sysfs, "env")


V1, V2 = "IB/RoCE v1", "RoCE v2"
LINK_LOCAL = "fe80:0000:0000:0000:0ac0:ebff:feda:1cfb"
ADDRESS = "0000:0000:0000:0000:0000:ffff:0a14:6f0b"
USUAL = [(V1, LINK_LOCAL), (V2, LINK_LOCAL), (V1, ADDRESS), (V2, ADDRESS)]
"""A GID table as mlx5 has it, by NVIDIA/nccl#769."""


def gids(sysfs: Path, interface: str, device: str, table: list[tuple[str, str]], netdev: str = "") -> None:
    port = sysfs / interface / "device" / "infiniband" / device / "ports" / "1"
    for folder in ("gid_attrs/types", "gid_attrs/ndevs", "gids"):
        (port / folder).mkdir(parents=True)
    for number, (kind, gid) in enumerate(table):
        (port / "gid_attrs" / "types" / str(number)).write_text(f"{kind}\n")
        (port / "gid_attrs" / "ndevs" / str(number)).write_text(f"{netdev or interface}\n")
        (port / "gids" / str(number)).write_text(f"{gid}\n")


@pytest.mark.parametrize(
    ("first", "second", "index"),
    [
        (USUAL, USUAL, "3"),
        ([*USUAL[2:], *USUAL[:2]], [*USUAL[2:], *USUAL[:2]], "1"),
        (USUAL, [*USUAL[2:], *USUAL[:2]], ""),
        (USUAL, USUAL[:2], ""),
        (USUAL[:2], USUAL, ""),
        ([], [], ""),
    ],
)
def test_an_nccl_that_finds_no_gid_by_itself_gets_its_index(
    workers: Workers, tmp_path: Path, first: list[tuple[str, str]], second: list[tuple[str, str]], index: str
) -> None:
    """NCCL before 2.21 takes GID 0 and knows one index for all devices (NVIDIA/nccl#718, #1131)."""
    gids(tmp_path, "net1", "mlx5_4", first)
    gids(tmp_path, "net2", "mlx5_17", second)

    said = dict(line.split("=", 1) for line in started(workers, tmp_path, "env").splitlines())

    assert said["NCCL_IB_HCA"] == "=mlx5_4,mlx5_17"
    assert said.get("NCCL_IB_GID_INDEX", "") == index


def test_a_gid_of_another_interface_is_not_the_rank_s_own(workers: Workers, tmp_path: Path) -> None:
    gids(tmp_path, "net1", "mlx5_4", USUAL, netdev="enp5s0v3")

    assert "NCCL_IB_GID_INDEX" not in started(workers, tmp_path, "env")


def test_the_program_gets_its_words_as_they_are(workers: Workers, tmp_path: Path) -> None:
    assert started(workers, tmp_path, "printf", "[%s]", "a b", "$HOME", "*") == "[a b][$HOME][*]"


def test_over_pvrdma_a_rank_looks_at_its_image_first_and_over_anything_else_it_does_not(workers: Workers) -> None:
    pvrdma = workers.model_copy(update={"gpu_direct": False})
    tcp = pvrdma.model_copy(update={"attachments": ()})

    assert rank_script(pvrdma).startswith('why=""; for library in /usr/lib/*/libibverbs.so.1')
    assert rank_script(pvrdma).endswith(rank_script(workers))
    assert (tcp.transport, tcp.pvrdma) == ("tcp", False)
    assert REFUSED not in rank_script(workers)


def test_an_image_of_the_vendor_s_ends_the_rank_with_the_sentence(workers: Workers, tmp_path: Path) -> None:
    library = tmp_path / "usr/lib/x86_64-linux-gnu/libibverbs.so.1"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"lib%s-rdmav34.so")
    script = rank_script(workers.model_copy(update={"gpu_direct": False}), str(tmp_path), str(tmp_path))

    done = subprocess.run(["sh", "-c", script, "rank", "echo", "on"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no " in done.stderr
    assert refusal_in(done.stderr).startswith(REFUSED)

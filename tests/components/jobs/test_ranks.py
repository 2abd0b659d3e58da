"""A rank's start, run by a real shell on a made-up sysfs."""

import subprocess
from pathlib import Path

import pytest

from components.jobs.ranks import own_devices_script
from components.jobs.workers import Workers
from stacks.lab import Lab
from tests.components.validation.labs import plan_for


@pytest.fixture
def workers(lab: Lab) -> Workers:
    nccl = plan_for(lab).nccl
    assert nccl
    return nccl


def started(workers: Workers, sysfs: Path, *words: str) -> str:
    script = own_devices_script(workers, str(sysfs))
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


def test_the_program_gets_its_words_as_they_are(workers: Workers, tmp_path: Path) -> None:
    assert started(workers, tmp_path, "printf", "[%s]", "a b", "$HOME", "*") == "[a b][$HOME][*]"

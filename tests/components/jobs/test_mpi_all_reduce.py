"""The all-reduce on CPUs: its job, the start of its ranks, and what its image holds."""

import ast
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from components.jobs.mpijob import rank_script
from components.jobs.workers import Workers
from components.validation.benchmarks.jobs.plan import MPI_SCRIPT, PlannedJob, in_turn, jobs_of
from stacks.benchmarks import Mpi
from stacks.lab import Lab
from stacks.transports import Comparison
from tests.components.jobs.jobs import arguments, container, exported, worker
from tests.components.validation.labs import changed, hardware
from tests.messages import stating

IMAGE = "registry.example:5000/mpi:1"


def planned(lab: Lab, **fields: object) -> dict[str, PlannedJob]:
    found = jobs_of(changed(lab, nccl=None, mpi=Mpi.model_validate({"image": IMAGE, **fields})))
    return {job.transport: job for job in found}


def rendered(lab: Lab, transport: str, **fields: object) -> dict[str, Any]:
    return planned(lab, **fields)[transport].document("lab", "run", 1)


def workers_of(lab: Lab) -> Workers:
    workers = planned(lab)["roce"].workers
    assert workers
    return workers


@pytest.fixture
def cpus(lab: Lab) -> Lab:
    """The reference lab as if no node had a GPU."""
    return lab.model_copy(update={"nodes": tuple(node.model_copy(update={"gpus": 0}) for node in lab.nodes)})


def test_nodes_without_gpus_take_part_and_none_is_asked_for(cpus: Lab):
    job = rendered(cpus, "roce", ranks_per_node=4)

    assert job["spec"]["slotsPerWorker"] == 4
    assert "-np 8 " in arguments(job)
    limits = container(job)["resources"]["limits"]
    assert limits == {"intel.com/sriov_111": "1", "intel.com/sriov_112": "1"}
    assert "runtimeClassName" not in worker(job)["spec"]


def test_nodes_with_gpus_run_it_on_their_cpus(lab: Lab):
    job = rendered(lab, "tcp")

    assert job["spec"]["slotsPerWorker"] == 1
    assert container(job)["resources"]["limits"] == {}


def test_mpi_itself_carries_the_data_and_has_no_other_way_than_the_one_that_is_measured(cpus: Lab):
    roce, tcp = (rendered(cpus, transport) for transport in ("roce", "tcp"))

    assert "--mca pml ucx " in arguments(roce)
    assert exported(roce)["UCX_TLS"] == "rc,sm,self"
    assert exported(tcp)["UCX_TLS"] == "tcp,sm,self"
    assert exported(tcp)["UCX_NET_DEVICES"] == "eth0"
    assert not [name for job in (roce, tcp) for name in exported(job) if name.startswith("NCCL")]


def test_rails_without_a_router_are_not_joined(cpus: Lab):
    assert exported(rendered(cpus, "roce"))["UCX_IB_ROCE_LOCAL_SUBNET"] == "y"


def test_the_daemons_of_mpi_stay_off_the_rails(cpus: Lab):
    assert "--mca oob_tcp_if_include eth0 " in arguments(rendered(cpus, "roce"))


def test_a_rank_uses_the_devices_of_its_own_interfaces(cpus: Lab, tmp_path: Path):
    for interface, device in (("eth0", ""), ("net1", "rxe3"), ("net2", "rxe9"), ("enp5s0", "rxe0")):
        (tmp_path / interface / "device" / "infiniband" / device).mkdir(parents=True)

    assert started(workers_of(cpus), tmp_path, "printenv", "UCX_NET_DEVICES").stdout == "rxe3:1,rxe9:1\n"


def test_without_a_device_the_rank_says_so_instead_of_taking_another_one(cpus: Lab, tmp_path: Path):
    (tmp_path / "net1").mkdir()

    done = started(workers_of(cpus), tmp_path, "echo", "runs")

    assert (done.returncode, done.stdout) == (1, "")
    assert "no RDMA device" in done.stderr


def test_where_pods_share_the_devices_of_the_ports_those_are_used(cpus: Lab, tmp_path: Path):
    shared = workers_of(cpus).model_copy(update={"shared_devices": ("mlx5_0", "mlx5_1")})

    assert started(shared, tmp_path, "printenv", "UCX_NET_DEVICES").stdout == "mlx5_0:1,mlx5_1:1\n"


def started(workers: Workers, sysfs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    script = rank_script(workers, str(sysfs), ucx=True)
    command = ["sh", "-c", script, "rank", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"})


def test_the_program_runs_on_the_pythons_of_older_images():
    ast.parse(MPI_SCRIPT.read_text(), feature_version=(3, 8))


def test_the_sizes_are_those_of_the_lab_file(cpus: Lab):
    words = container(rendered(cpus, "tcp", smallest_bytes=1024, largest_bytes=4096), "Launcher")["args"]

    assert words[-2:] == ["1024", "4096"]


def test_it_runs_there_and_back_but_where_nothing_is_rated(cpus: Lab):
    def turns(lab: Lab, **fields: object) -> list[str]:
        return [job.transport for job in in_turn(list(planned(lab, **fields).values()))]

    assert turns(hardware(cpus)) == ["tcp", "roce", "roce", "tcp"]
    assert turns(cpus) == ["tcp", "roce"]
    assert turns(hardware(cpus), transports=("roce",)) == ["roce"]


def test_a_lab_that_does_not_ask_for_it_keeps_its_digest_and_its_jobs(lab: Lab):
    without = changed(lab, comparison=Comparison())

    assert without.benchmarks
    assert "mpi" not in without.benchmarks.model_dump()
    jobs = [job.model_dump_json() for job in jobs_of(without)]
    assert jobs
    assert not [job for job in jobs if "one_way" in job or "cpu_ranks_per_node" in job]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"smallest_bytes": 64, "largest_bytes": 32}, ["smallest_bytes 64", "largest_bytes 32"]),
        ({"transports": ("tcp", "tcp")}, ["transports", "twice"]),
        ({"smallest_bytes": 6}, ["multiple of 4"]),
    ],
)
def test_what_cannot_run_is_refused(fields: dict[str, object], said: list[str]):
    with pytest.raises(ValidationError, check=stating(*said)):
        Mpi.model_validate({"image": IMAGE, **fields})

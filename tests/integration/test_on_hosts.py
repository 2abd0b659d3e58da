"""MPI without pods: Debian's Open MPI over soft-RoCE, by SSH and in Debian's Slurm, with Slurm's health check."""

import json
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.nodes.image import MORE_PACKAGES
from simulator.nodes.mpi_image import SOFT_ROCE, YIELD
from tests.conftest import ROOT
from tests.integration.conftest import sim
from tests.integration.stack import KEY, Stack, environment, on_node

pytestmark = [pytest.mark.sim, pytest.mark.whole]

NODES = {"gpu01": "10.10.11.11", "gpu02": "10.10.11.12"}
PACKAGES = "openmpi-bin python3-mpi4py slurm-client slurmctld slurmd munge"
"""In the nodes' image: emulated nodes would install them for ten minutes."""
UCX_CONF = "".join(f"{setting}\n" for setting in SOFT_ROCE)
SLURM_CONF = """ClusterName=lab
SlurmctldHost=gpu01(10.10.11.11)
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ReturnToService=2
SlurmUser=slurm
SlurmctldTimeout=120
SlurmdTimeout=120
HealthCheckProgram=/usr/local/sbin/rocelab-gate
HealthCheckInterval=5
HealthCheckNodeState=ANY
NodeName=gpu01 NodeAddr=10.10.11.11 CPUs={cpus} State=UNKNOWN
NodeName=gpu02 NodeAddr=10.10.11.12 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=gpu01,gpu02 Default=YES MaxTime=INFINITE State=UP
"""


def to_node(node: str, path: str, text: str, mode: str = "644") -> None:
    done = subprocess.run(
        [
            "ssh",
            "-F",
            str(ROOT / ".sim/nodes/ssh_config"),
            node,
            f"sudo tee {path} >/dev/null && sudo chmod {mode} {path}",
        ],
        input=text,
        text=True,
        check=False,
    )
    assert done.returncode == 0


@pytest.fixture(scope="module")
def lab(simulator: Path) -> Iterator[Stack]:
    """The reference lab's hosts without a cluster, with MPI's all-reduce over SSH; nodes are as new afterwards."""
    stack = Stack.make(simulator / "tests-on-hosts")
    content = yaml.safe_load(stack.file.read_text())
    given = content["config"][KEY]
    given.pop("cluster")
    given["benchmarks"].pop("nccl", None)
    given["benchmarks"]["verbs"].update(tests=["ib_write_bw"], sizes=[])
    given["benchmarks"]["mpi"] = {
        "runner": "ssh",
        "transports": ["tcp", "roce"],
        "largest_bytes": 65536,
        "timeout_s": 300,
    }
    stack.file.write_text(yaml.safe_dump(content, sort_keys=False))
    usual = environment("lab")
    done = sim({**usual, MORE_PACKAGES: PACKAGES}, "up", "nodes")
    assert done.returncode == 0, done.stdout
    for node in NODES:
        on_node(node, f"sudo mkdir -p /etc/ucx && sudo sh -c {shlex.quote(YIELD)} sh /")
        to_node(node, "/etc/ucx/ucx.conf", UCX_CONF)
    yield stack
    stack.pulumi("destroy").succeeded()
    assert sim(usual, "up", "nodes").returncode == 0


def jobs_of(printed: str) -> dict[str, Any]:
    run = json.loads(printed[printed.index('{"record"') : printed.rindex("}") + 1])
    return {job["transport"]: job for job in run["record"]["jobs"]}


def test_mpi_runs_over_the_hosts_ssh_and_over_rdma(lab: Stack) -> None:
    up = lab.up()
    print(up.text[-3000:])
    measured = lab.run("rocelab", "measure", "--config-file", str(lab.file), "--json")
    print(measured.text[-3000:])
    jobs = jobs_of(measured.text)

    assert {transport: job["outcome"] for transport, job in jobs.items()} == {"tcp": "measured", "roce": "measured"}
    assert "rc_verbs/rxe" in jobs["roce"]["details"]["lanes"]
    assert jobs["roce"]["details"]["ranks"] == 2
    for node in NODES:
        assert on_node(node, "ls -d /tmp/rocelab-* 2>/dev/null || true") == ""
        assert on_node(node, "pgrep -x orted || true") == ""
    up.succeeded()


def test_the_same_job_runs_in_slurm_on_two_nodes(lab: Stack) -> None:
    cpus = on_node("gpu01", "nproc")
    for node in NODES:
        to_node(node, "/etc/slurm/slurm.conf", SLURM_CONF.format(cpus=cpus))
        to_node(node, "/usr/local/sbin/rocelab-gate", "#!/bin/sh\nexit 0\n", "755")
        on_node(node, "sudo systemctl restart munge")
    on_node("gpu01", "sudo systemctl restart slurmctld")
    for node in NODES:
        on_node(node, "sudo systemctl restart slurmd")
    until(lambda: on_node("gpu01", "sinfo -h -N -o %T | sort -u") == "idle", "both nodes idle")

    content = yaml.safe_load(lab.file.read_text())
    content["config"][KEY]["benchmarks"]["mpi"]["runner"] = "slurm"
    file = lab.folder / "slurm.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    measured = lab.run("rocelab", "measure", "--config-file", str(file), "--json")
    print(measured.text[-3000:])

    jobs = jobs_of(measured.text)
    assert {transport: job["outcome"] for transport, job in jobs.items()} == {"tcp": "measured", "roce": "measured"}
    assert "rc_verbs/rxe" in jobs["roce"]["details"]["lanes"]
    assert on_node("gpu01", "squeue -h") == ""


def test_slurm_drains_a_closed_node_only_if_its_owner_says_so(lab: Stack) -> None:
    printed = lab.run("rocelab", "gate", "--format", "slurm", "--results", "/srv/rocelab").succeeded().text
    for node in NODES:
        on_node(node, "sudo mkdir -p /srv/rocelab")
        state = "closed" if node == "gpu02" else "open"
        to_node(node, f"/srv/rocelab/{node}", f"{state} 2026-11-24T12:00:00Z link-down enp5s0: no carrier\n")
        to_node(node, "/usr/local/sbin/rocelab-gate", printed, "755")
    time.sleep(15)
    assert on_node("gpu01", "sinfo -h -N -o %T | sort -u") == "idle", "without DRAIN=yes nothing is drained"

    for node in NODES:
        to_node(node, "/usr/local/sbin/rocelab-gate", printed.replace("DRAIN=no", "DRAIN=yes"), "755")

    until(lambda: "drain" in on_node("gpu01", "sinfo -h -n gpu02 -o %T"), "gpu02 drained")
    assert on_node("gpu01", "sinfo -h -n gpu01 -o %T") == "idle"
    assert "link-down enp5s0" in on_node("gpu01", "scontrol show node gpu02")


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 90
    while not holds():
        assert time.monotonic() < deadline, (
            f"never: {what}; {on_node('gpu01', 'sinfo -N -l; tail -5 /var/log/slurm/*.log || true')}"
        )
        time.sleep(2)

"""NCCL within each node alone: the launcher's script in a real shell, and what is read from its log.

The two tables are recordings (tests/samples/README.md): four H200 of one host, with and without peer-to-peer.
"""

import os
import subprocess
from pathlib import Path

import pytest

from components.jobs.mpijob import APART
from components.validation import mpijobs
from components.validation.benchmarks.nccl.plan import node_ring_job
from components.validation.benchmarks.nccl.rings import RING_LOG, read_rings, run_rings
from components.validation.benchmarks.plan import Plan
from stacks.lab import Lab
from tests.components.validation.fake_api import FakeApi, cluster_run, serving, true
from tests.components.validation.labs import hardware, plan_for
from tests.components.validation.samples import nccl

SHM = "vm:1:9 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct"
"""As NCCL's src/transport/shm.cc prints it; no recording has the line, since NCCL_DEBUG was off in that run."""
SOUND, BROKEN = nccl("one_node_ring_4xH200"), f"{SHM}\n{nccl('one_node_ring_noP2P_4xH200')}"
WRONG = SOUND.replace("359.52       0", "359.52       3").replace("values : 0 OK", "values : 3 FAILED")


@pytest.fixture
def plan(lab: Lab) -> Plan:
    return plan_for(hardware(lab))


def prefixed(host: str, text: str, code: int = 0) -> str:
    return "".join(
        f"[{host}.bench-r1-ring.rocelab-bench.svc] {line}\n" for line in [*text.splitlines(), f"exit {code}"]
    )


def test_each_node_has_its_own_result_and_says_whether_its_gpus_reach_each_other(plan: Plan) -> None:
    log = prefixed("job-worker-0", SOUND) + prefixed("job-worker-1", BROKEN)
    assert plan.nccl

    found = read_rings(plan.nccl, log, {"job-worker-0": "gpu02", "job-worker-1": "gpu01"})

    assert [(r.node, r.outcome, r.busbw_gbyte_s, r.through_host) for r in found] == [
        ("gpu01", "measured", 25.49, True),
        ("gpu02", "measured", 359.52, False),
    ]


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (prefixed("w-1", "mpirun was unable to start", 1), "exit 1: "),
        (prefixed("w-1", SOUND.split("# Out of bounds")[0], 124), "no end within 180 s"),
        ("", "it printed nothing"),
        (
            prefixed("w-1", WRONG),
            "3 values",
        ),
    ],
)
def test_a_node_without_a_sound_result_is_named_with_the_reason(plan: Plan, log: str, reason: str) -> None:
    assert plan.nccl

    found = read_rings(plan.nccl, prefixed("w-0", SOUND) + log, {"w-0": "gpu01", "w-1": "gpu02"})

    assert [(ring.node, ring.outcome) for ring in found] == [("gpu01", "measured"), ("gpu02", "failed")]
    assert reason in found[1].reason


def test_the_job_takes_no_rail_and_starts_one_mpirun_a_node(plan: Plan) -> None:
    assert plan.nccl
    job = node_ring_job(plan.nccl, "lab", "r1")
    roles = job["spec"]["mpiReplicaSpecs"]  # type: ignore[index, call-overload]
    launcher = roles["Launcher"]["template"]["spec"]["containers"][0]  # type: ignore[index, call-overload]
    worker = roles["Worker"]["template"]  # type: ignore[index, call-overload]

    assert launcher["command"][3:] == ["sh", "180", "8"]  # type: ignore[index, call-overload]
    words = " ".join(launcher["args"])  # type: ignore[index, call-overload, arg-type]
    assert "-np 8 " in words
    assert "NCCL_ALGO=Ring" in words
    assert "NCCL_NET=Socket" in words
    assert words.endswith("all_reduce_perf -b 1073741824 -e 2147483648 -f 2 -g 1")
    assert "annotations" not in worker["metadata"]  # type: ignore[index, call-overload, operator]
    limits = worker["spec"]["containers"][0]["resources"]["limits"]  # type: ignore[index, call-overload]
    assert limits == {"nvidia.com/gpu": "8"}


def test_the_launcher_s_script_marks_each_node_s_lines_and_omits_nccl_s_noise(tmp_path: Path) -> None:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(
        f"#!/bin/sh\necho \"$@\"\necho 'x NCCL INFO NET/Socket'\necho '{SHM}'\ncase $2 in b*) exit 3;; esac\n"
    )
    mpirun.chmod(0o700)
    hosts = tmp_path / "hostfile"
    others = [f"c{number}.svc" for number in range(18)]
    hosts.write_text("".join(f"{host} slots=8\n" for host in ("a.svc", "b.svc", *others)))
    script = APART.replace("/etc/mpi/hostfile", str(hosts))

    done = subprocess.run(
        ["sh", "-c", script, "sh", "20", "8", "-np", "8", "x y"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )

    assert sorted(done.stdout.splitlines()) == sorted(
        f"[{host}] {line}"
        for host, code in (("a.svc", 0), ("b.svc", 3), *((host, 0) for host in others))
        for line in (f"--host {host}:8 -np 8 x y", SHM, f"exit {code}")
    )


def test_the_run_names_the_node_of_each_pod_and_keeps_the_log(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpijobs, "POLL_S", 0.01)
    monkeypatch.setattr(mpijobs, "refuse_missing_image", lambda *_: None)
    log = prefixed("x-worker", SOUND) + prefixed("y-worker", SOUND)
    assert plan.nccl
    api = FakeApi(statuses=[true("Created"), true("Running"), true("Succeeded")], log=log)

    with serving(api):
        cluster = cluster_run(plan, api.kubeconfig)
        found = run_rings(plan.nccl, cluster)

    # the fake server has one pod, on gpu01: of the other nobody saw the node
    assert [(ring.node, ring.outcome) for ring in found] == [("gpu01", "measured"), ("y-worker", "measured")]
    assert cluster.raw[RING_LOG] == log
    assert api.deleted == ["bench-r1-ring"]

"""The gate as schedulers read it: what is printed for them runs, and what is published follows the API's rules."""

import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.cli.app import main
from components.gate.decision import GatedNode, LabGate
from components.gate.measured import GateReason
from components.gate.publish import condition, tainted, write_results
from engine.parts import KUBERNETES_RELEASE
from stacks.bill import pause_image

READ_AT = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
DOWN = GatedNode(name="gpu02", reasons=(GateReason(code="link-down", text="ens1np0: no carrier"),))
UNREAD = GatedNode(name="gpu03", unread=(GateReason(code="not-read", text="no answer"),))
GATE = LabGate(lab="pod1", read_at=READ_AT, verdict="run x", nodes=(GatedNode(name="gpu01"), DOWN, UNREAD))
OURS = {"key": "rocelab.dev/gate", "value": "closed", "effect": "NoSchedule"}
FOREIGN = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["gate", "--format", *options]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(("node", "code"), [("gpu01", 0), ("gpu02", 1), ("gpu03", 4), ("gpu04", 4)])
def test_slurms_health_check_program_ends_as_the_gate_and_drains_nothing_unasked(
    node: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_results(GATE, tmp_path / "shared")
    script = tmp_path / "gate.sh"
    script.write_text(printed(capsys, "slurm", "--results", str(tmp_path / "shared")))
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/drained\n')
    scontrol.chmod(0o755)
    env = {**os.environ, "SLURMD_NODENAME": node, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    done = subprocess.run(["sh", script], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, (tmp_path / "drained").exists()) == (code, False)
    assert done.stdout.startswith(("closed 2026-11-01T12:00:00Z link-down ens1np0", "unknown", "")[min(code, 2) - 1])

    script.write_text(script.read_text().replace("DRAIN=no", "DRAIN=yes"))
    subprocess.run(["sh", script], env=env, capture_output=True, text=True, check=False)
    assert (tmp_path / "drained").exists() == (node == "gpu02")


def test_an_old_result_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_results(GATE, tmp_path)
    os.utime(tmp_path / "gpu01", (0, 0))
    script = printed(capsys, "slurm", "--results", str(tmp_path), "--minutes", "5")

    env = {**os.environ, "SLURMD_NODENAME": "gpu01"}
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=False)

    assert done.returncode == 4


def test_nhc_reads_the_result_of_its_own_host(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "nhc", "--results", "/shared/rocelab").splitlines()

    assert lines[-1] == "* || check_file_contents /shared/rocelab/$HOSTNAME_S '!/^closed /'"


def test_a_folder_is_required_where_nodes_read_one() -> None:
    assert main(["gate", "--format", "nhc"]) == 2


def test_the_init_container_waits_for_the_condition_of_its_own_node(capsys: pytest.CaptureFixture[str]) -> None:
    documents = list(yaml.safe_load_all(printed(capsys, "job", "--minutes", "7")))
    [init] = documents[-1]["spec"]["template"]["spec"]["initContainers"]

    assert [document["kind"] for document in documents] == [
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job")
    ]
    assert init["args"] == ["wait", "--for=condition=RocelabGate=True", "--timeout=7m", "node/$(NODE)"]


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    before = condition(DOWN, {}, READ_AT, "run x")
    node: Any = {"status": {"conditions": [{"type": "Ready", "status": "True"}, before]}}
    later = READ_AT.replace(hour=13)

    assert (before["status"], before["message"]) == ("False", "link-down ens1np0: no carrier")
    assert condition(DOWN, node, later, "run x")["lastTransitionTime"] == before["lastTransitionTime"]
    opened = condition(replace(DOWN, reasons=()), node, later, "run x")
    assert (opened["status"], opened["lastTransitionTime"], opened["message"]) == (
        "True",
        "2026-11-01T13:00:00Z",
        "run x",
    )
    assert condition(UNREAD, node, later, "run x")["status"] == "Unknown"


@pytest.mark.parametrize(
    ("node", "before", "taint", "after"),
    [
        (DOWN, [FOREIGN], True, [FOREIGN, OURS]),
        (DOWN, [FOREIGN], False, None),
        (DOWN, [OURS], True, None),
        (DOWN, [OURS, FOREIGN], False, [FOREIGN]),
        (GatedNode(name="gpu01"), [OURS, FOREIGN], True, [FOREIGN]),
        (UNREAD, [OURS], True, None),
    ],
)
def test_a_taint_comes_only_if_asked_and_goes_when_the_gate_opens(
    node: GatedNode, before: list[Any], taint: bool, after: list[Any] | None
) -> None:
    assert tainted(node, {"spec": {"taints": before}}, taint=taint) == after


def test_the_job_runs_images_of_the_kubernetes_release_that_tests_run(capsys: pytest.CaptureFixture[str]) -> None:
    """build/server-image/kubectl of each release is published as kubectl, whose entrypoint is kubectl itself."""
    job = [*yaml.safe_load_all(printed(capsys, "job"))][-1]["spec"]["template"]["spec"]

    assert [container["image"] for container in job["initContainers"] + job["containers"]] == [
        f"registry.k8s.io/kubectl:v{KUBERNETES_RELEASE}",
        pause_image(KUBERNETES_RELEASE),
    ]

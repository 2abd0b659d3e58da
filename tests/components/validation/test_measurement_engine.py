"""The measurement on the real engine: when it runs, what it remembers, and what an up says of an old one."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.validation.history import History, history_in
from stacks.lab import Lab
from tests.components.validation.labs import changed, hardware, plan_for, record, reduced
from tests.components.validation.told import project, tell
from tests.conftest import ROOT
from tests.integration.conftest import require_engine
from tests.integration.stack import environment

pytestmark = pytest.mark.sim

PROGRAM = """
import json
from pathlib import Path

import pulumi

from components.provider.program import Declaration
from components.validation.gate import Gate
from components.validation.stale import fingerprint_of
from components.validation.measurement import Measurement
from components.validation.validation import MeasuredLab, summarise
from tests.components.validation.labs import plan_for
from tests.components.validation.told import lab_told

lab = lab_told()
plan, benchmarks = plan_for(lab), lab.benchmarks
hosts = json.loads(Path("hosts.json").read_text())
inputs = {"plan_digest": plan.digest, "fingerprint": fingerprint_of(plan, hosts), "hosts": hosts}
made = Declaration(Measurement, "measurement", {**inputs, "rerun": benchmarks.rerun})
measured = pulumi.Output.all(verdict=made.verdict, plan_digest=made.plan_digest, hosts=made.hosts)
verdict = measured.apply(
    lambda known: summarise(lab, plan, MeasuredLab(**known, hosts_now=hosts, faults={}, results={}))
)
axes = {axis: verdict[axis] for axis in ("function", "performance", "reasons")}
Declaration(Gate, "gate", {"mode": benchmarks.mode, **axes})
pulumi.export("validation", verdict)
pulumi.export("history", made.history)
"""

Pulumi = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def pulumi(tmp_path: Path) -> Pulumi:
    """The engine on a stack with measurement and gate, in a folder that looks like a checkout of the lab."""
    require_engine()
    project(tmp_path, PROGRAM)
    nodes = tmp_path / ".sim" / "nodes"
    nodes.mkdir(parents=True)
    (nodes / "id_ed25519").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n")
    line = "[127.0.12.{}]:2222 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEk0\n"
    (nodes / "known_hosts").write_text(line.format(1) + line.format(2))
    (tmp_path / ".sim" / "kubeconfig").write_text("{}")
    (tmp_path / "state").mkdir()
    env = {
        **environment("lab"),
        "PULUMI_BACKEND_URL": f"file://{tmp_path / 'state'}",
        "PYTHONPATH": str(ROOT),
        "XDG_STATE_HOME": str(tmp_path / "runs"),
    }

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", *words, "--stack", "lab"],
            cwd=tmp_path,
            env={**env, **more},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert run("stack", "init").returncode == 0
    return run


def told(folder: Path, lab: Lab, number: int, gbit_s: float = 97.9, boot: str = "b1") -> None:
    """What the next run would find, and on which hosts."""
    plan = plan_for(lab)
    run = record(plan, gbit_s, nccl=reduced(gbit_s / 4 * 0.99))
    run = run.model_copy(update={"run_id": f"run-{number}", "started_at": f"2026-11-21T06:00:{number:02}Z"})
    tell(folder, lab)
    (folder / "record.json").write_text(run.model_dump_json())
    (folder / "hosts.json").write_text(json.dumps({"gpu01": {"status": "ready", "boot_id": boot}}))


def runs(folder: Path) -> list[str]:
    """The runs that were carried out so far."""
    return (folder / "runs.txt").read_text().splitlines() if (folder / "runs.txt").exists() else []


def after(pulumi: Pulumi) -> tuple[dict[str, Any], History]:
    outputs = json.loads(pulumi("stack", "output", "--json").stdout)
    return outputs["validation"], history_in(outputs["history"])


def test_it_is_measured_when_asked_and_remembered_and_never_in_a_preview_nor_at_each_up(
    lab: Lab, tmp_path: Path, pulumi: Pulumi
) -> None:
    up = ("up", "--yes", "--skip-preview", "--non-interactive")
    real = hardware(lab)
    told(tmp_path, real, 0)
    assert pulumi("preview", "--non-interactive").returncode == 0
    assert runs(tmp_path) == []

    done = pulumi(*up)
    assert (done.returncode, len(runs(tmp_path))) == (0, 1), done.stdout + done.stderr
    assert pulumi(*up).returncode == 0
    assert len(runs(tmp_path)) == 1, "nothing changed"

    told(tmp_path, real, 1)
    shown = pulumi("preview", "--non-interactive", ROCELAB_VALIDATE="again")
    assert "ROCELAB_VALIDATE" in shown.stdout
    assert len(runs(tmp_path)) == 1
    assert pulumi(*up, ROCELAB_VALIDATE="again").returncode == 0
    verdict, history = after(pulumi)
    assert ([entry.run_id for entry in history.entries], verdict["run_id"]) == (["run-0", "run-1"], "run-1")

    told(tmp_path, real, 2, gbit_s=60.0)
    failed = pulumi(*up, ROCELAB_VALIDATE="again")
    verdict, history = after(pulumi)
    assert failed.returncode != 0
    assert (verdict["run_id"], verdict["performance"], verdict["regression"]["verdict"]) == ("run-2", "fail", "worse")
    assert [entry.passed for entry in history.entries] == [True, True, False]
    assert runs(tmp_path)[2:] == [
        "run-2 ib_write_bw ib_write_lat ib_write_bw-sizes ib_write_lat-sizes",
        "run-2 ib_write_bw",
    ], "what was worse is measured once more"

    told(tmp_path, real, 3, boot="b2")
    assert pulumi(*up).returncode == 0
    assert after(pulumi)[0]["run_id"] == "run-3", "a host was rebooted"

    asked = changed(real, rerun="asked")
    told(tmp_path, asked, 4, boot="b3")
    done = pulumi(*up)
    verdict, _ = after(pulumi)
    assert (done.returncode, verdict["run_id"]) == (0, "run-3")
    assert (verdict["function"], verdict["stale"]) == ("skip", ["gpu01: boot changed"])

    assert pulumi("destroy", "--yes", "--skip-preview", "--non-interactive").returncode == 0
    assert pulumi(*up).returncode == 0
    assert [entry.run_id for entry in after(pulumi)[1].entries] == [f"run-{n}" for n in range(5)]

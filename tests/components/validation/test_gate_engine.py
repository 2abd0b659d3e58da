"""The gate on the real engine: it fails the run, and the stack's output is the verdict that made it fail."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.validation.records import RunRecord
from stacks.benchmarks import Threshold
from stacks.lab import Lab
from tests.components.validation.labs import changed, hardware, plan_for, record, reduced
from tests.components.validation.told import project, tell
from tests.conftest import ROOT
from tests.integration.conftest import require_engine
from tests.integration.stack import environment
from tests.messages import lines_naming

pytestmark = pytest.mark.sim

PROGRAM = """
from pathlib import Path

import pulumi

from components.validation.store import RunDocument
from components.validation.verdict import verdict_on
from components.provider.program import Declaration
from components.validation.gate import Gate
from components.validation.records import RunRecord
from components.validation.validation import MeasuredLab, summarise
from tests.components.validation.labs import plan_for
from tests.components.validation.told import lab_told

lab = lab_told()
plan, benchmarks = plan_for(lab), lab.benchmarks
record = pulumi.Output.from_input(Path("record.json").read_text())


def judged(text):
    run = RunDocument(plan=plan, rails=(), record=RunRecord.model_validate_json(text))
    verdict = verdict_on(run, benchmarks).model_dump(mode="json", exclude_defaults=True)
    empty = dict.fromkeys(("hosts", "hosts_now", "faults", "results"), {})
    return summarise(lab, plan, MeasuredLab(verdict=verdict, plan_digest=plan.digest, **empty))


summary = record.apply(judged)
axes = {axis: summary[axis] for axis in ("function", "performance", "reasons")}
Declaration(Gate, "gate", {"mode": benchmarks.mode, **axes})
pulumi.export("validation", summary)
"""

Up = Callable[[Lab, RunRecord], tuple[int, str, dict[str, Any]]]


@pytest.fixture
def up(tmp_path: Path) -> Up:
    """Runs `pulumi up` of a program that has only verdict and gate; returns status, text and the output."""
    require_engine()
    project(tmp_path, PROGRAM)
    (tmp_path / "state").mkdir()
    env = {
        **environment("lab"),
        "PULUMI_BACKEND_URL": f"file://{tmp_path / 'state'}",
        "PYTHONPATH": str(ROOT),
    }

    def pulumi(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", *words, "--stack", "lab"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert pulumi("stack", "init").returncode == 0

    def run(lab: Lab, result: RunRecord) -> tuple[int, str, dict[str, Any]]:
        tell(tmp_path, lab)
        (tmp_path / "record.json").write_text(result.model_dump_json())
        done = pulumi("up", "--yes", "--skip-preview", "--non-interactive")
        outputs = json.loads(pulumi("stack", "output", "--json").stdout)
        assert "validation" in outputs, done.stdout + done.stderr
        return done.returncode, done.stdout + done.stderr, outputs["validation"]

    return run


def test_a_failing_verdict_replaces_a_passing_one_fails_again_and_passes_by_another_threshold(lab: Lab, up: Up) -> None:
    real = hardware(lab)
    good = record(plan_for(real), 97.2, nccl=reduced(23.9))
    slow = record(plan_for(real), 80.0, nccl=reduced(19.9)).model_copy(update={"run_id": "20261121-070000-0001"})

    status, _, output = up(real, good)
    assert (status, output["performance"]) == (0, "pass")

    for _ in range(2):
        status, text, output = up(real, slow)
        assert status != 0
        assert (output["performance"], output["run_id"]) == ("fail", slow.run_id)
        assert lines_naming(text, "80.00 Gbit/s", "81.6%", "98.01")
        assert "Traceback" not in text

    assert real.benchmarks
    verbs = real.benchmarks.verbs.model_copy(update={"threshold": Threshold(fail_below=0.5, warn_below=0.6)})
    status, _, output = up(changed(real, verbs=verbs), slow)
    assert (status, output["performance"], output["run_id"]) == (0, "pass", slow.run_id)


def test_the_first_verdict_of_a_stack_is_written_although_it_fails(lab: Lab, up: Up) -> None:
    real = hardware(lab)
    status, _, output = up(real, record(plan_for(real), 50.0, nccl=reduced()))

    assert status != 0
    assert (output["function"], output["performance"]) == ("pass", "fail")


def test_in_mode_warn_the_same_verdict_fails_nothing(lab: Lab, up: Up) -> None:
    real = changed(hardware(lab), mode="warn")
    status, _, output = up(real, record(plan_for(real), 50.0, nccl=reduced()))

    assert (status, output["performance"], output["mode"]) == (0, "fail", "warn")

"""Steps run in one process, in order, up to the first that fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine import environment, made, one_lab, steps
from engine.places import ROOT
from tests.messages import lines_naming


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python environment is up to date."""
    monkeypatch.setattr(steps.python_env, "is_current", lambda: True)


@pytest.mark.usefixtures("current")
def test_the_first_step_that_fails_is_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["touch", "first", "--", "sh", "-c", "exit 7", "--", "touch", "second"]

    assert steps.main(words) == 7
    assert [path.name for path in tmp_path.iterdir()] == ["first"]
    assert steps.main(["--", *words[:2]]) == 0, "a list of steps may begin with a separator"


@pytest.mark.usefixtures("current")
def test_ctrl_c_ends_the_steps_with_its_exit_code_and_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[str]] = []

    def interrupted(step: list[str]) -> int:
        begun.append(step)
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, "run", interrupted)

    assert steps.main(["first", "--", "second"]) == 130
    assert begun == [["first"]]


@pytest.mark.usefixtures("current")
def test_a_module_gets_its_arguments_and_gives_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert steps.main(["engine.one_lab", "lab", "--", "stacks.virtual", "dgx", "pulumi up --stack dgx"]) == 1
    assert "Pulumi.dgx.yaml" in capsys.readouterr().err


def printed(*words: str, **variables: str) -> list[str]:
    """The lines that the steps print, in a process of their own."""
    script = (
        "import sys; from engine import steps; steps.python_env.is_current = lambda: True; steps.main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_the_output_of_modules_and_programs_stays_in_order() -> None:
    lines = printed("engine.environment", "--", "echo", "after it")

    assert lines[-1] == "after it"
    assert len(lines) > 1


def test_a_step_sets_the_environment_of_those_after_it() -> None:
    of_a_simulator = f"file://{environment.STATE}"

    lines = printed("engine.environment", "--enter", "--", "env", PULUMI_BACKEND_URL=of_a_simulator)

    assert f"PULUMI_PARALLEL={environment.PARALLEL}" in lines
    assert not any(line.startswith("PULUMI_BACKEND_URL=") for line in lines), "what a simulator stack has set before"


@pytest.mark.parametrize("status", [0, 130])
def test_an_outdated_python_environment_is_updated_before_the_steps_start_again(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[object]] = []

    def recorded(command: list[object], check: bool) -> subprocess.CompletedProcess[str]:
        del check
        ran.append(command)
        return subprocess.CompletedProcess([], status)

    def replaced(program: str, command: list[object]) -> None:
        ran.append([program, *command])
        raise SystemExit

    monkeypatch.setattr(steps.python_env, "is_current", lambda: False)
    monkeypatch.setattr(steps.subprocess, "run", recorded)
    monkeypatch.setattr(steps.os, "execv", replaced)
    setup = [ROOT / "engine" / "setup", "--python-only"]
    words = ["engine.made", "lab", "--", "true"]

    if status:
        assert steps.main(words) == status
        assert ran == [setup]
    else:
        with pytest.raises(SystemExit):
            steps.main(words)
        assert ran == [setup, [sys.executable, sys.executable, "-m", "engine.steps", *words]]


@pytest.mark.parametrize(
    ("text", "code"), [(None, 1), ('{"checkpoint": {"latest": {}}}', 1), ('{"resources": [{"urn": "u"}]}', 0)]
)
def test_a_stack_without_resources_has_not_been_made(
    text: str | None, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`pulumi stack select --create`, and so `make preview`, leaves a stack without resources."""
    monkeypatch.chdir(tmp_path)
    one_lab.STACKS.mkdir(parents=True)
    if text is not None:
        (one_lab.STACKS / "lab.json").write_text(text)

    assert made.main(["lab"]) == code
    assert bool(lines_naming(capsys.readouterr().err, "stack lab", "make up STACK=lab")) == bool(code)

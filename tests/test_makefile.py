"""The Makefile: its recipes name what is there, keep their order, and act on virtual labs alone.

The recipes run for real in a folder where everything that they call only writes down how it was called.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from components.cli.app import NAMES
from stacks.virtual import refusal
from tests.conftest import ROOT
from tests.messages import lines_naming

TEXT = (ROOT / "Makefile").read_text()
TARGETS = sorted(set(re.findall(r"^([a-z-]+):.*##", TEXT, re.MULTILINE)))
ON_VIRTUAL_LABS = {"up", "preview", "drift", "validate", "ports", "report", "recover", "destroy"}
CALLED = ("engine/setup", "engine/run", ".venv/bin/python")
STUB = """#!/bin/sh
echo "${0##*/} $*" >> calls
case "$*" in $FAILS) exit 7 ;; esac
"""
STEPS = """#!/bin/sh
step=
for word in "$@" --; do
  if [ "$word" != -- ]; then step="$step $word"; continue; fi
  if [ "$step" ]; then echo "step$step" >> calls; fi
  case "$step" in $FAILS) exit 7 ;; esac
  step=
done
"""
"""Stands for engine/steps, which ends at the first step that fails (tests/engine/test_steps.py)."""


def make(*words: str, cwd: Path = ROOT, fails: str = "nothing") -> subprocess.CompletedProcess[str]:
    """Runs make; what is called with words like `fails` ends with status 7."""
    # a make that runs this test hands its own options down
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    command = ["make", "--no-print-directory", "-f", str(ROOT / "Makefile"), *words]
    return subprocess.run(
        command,
        cwd=cwd,
        env={**env, "FAILS": fails, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout without a stack; nothing in it does anything."""
    for name, text in {**dict.fromkeys(CALLED, STUB), "engine/steps": STEPS}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def calls(checkout: Path) -> list[str]:
    return (checkout / "calls").read_text().splitlines()


def ran(checkout: Path) -> list[str]:
    """The first two words of each step, and of what ran in the stack's environment."""
    return [" ".join(line.removeprefix("run lab ").removeprefix("step ").split()[:2]) for line in calls(checkout)]


@pytest.mark.parametrize("target", TARGETS)
def test_a_recipe_calls_what_is_there(target: str) -> None:
    done = make("-n", target)

    assert done.returncode == 0, done.stderr
    programs = set(re.findall(r"(?:^|\s)(engine/[a-z-]+)", done.stdout))
    modules = set(re.findall(r"(?:python -m|engine/steps|--) (\w+\.[\w.]+)", done.stdout))
    verbs = set(re.findall(r"\brocelab (\w+)|components\.cli(?:\.app)? (\w+)", done.stdout))
    assert {"".join(verb) for verb in verbs} <= set(NAMES)
    assert [name for name in programs if not os.access(ROOT / name, os.X_OK)] == []
    for module in modules:
        place = ROOT / module.replace(".", "/")
        assert (place / "__main__.py").is_file() or place.with_suffix(".py").is_file(), module


def test_each_target_is_phony_and_explained() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", TEXT, re.MULTILINE)

    assert phony
    assert set(phony[1].split()) == set(TARGETS)
    assert set(TARGETS) >= ON_VIRTUAL_LABS


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("up", "pulumi up --stack dgx"),
        ("preview", "pulumi preview --diff --stack dgx"),
        ("drift", "pulumi preview --refresh --diff --stack dgx"),
        ("validate", "ROCELAB_VALIDATE=again pulumi up --stack dgx"),
        ("ports", "rocelab ports --check --stack dgx"),
        ("report", "rocelab report --folder report --stack dgx"),
        ("recover", "pulumi cancel --stack dgx && pulumi refresh --clear-pending-creates --stack dgx"),
        ("destroy", "pulumi destroy --stack dgx"),
    ],
)
def test_hardware_is_refused_with_what_does_the_same_there_before_anything_is_built(
    checkout: Path, target: str, command: str
) -> None:
    done = make(target, "STACK=dgx", cwd=checkout, fails="*stacks.virtual*")

    assert done.returncode != 0
    assert calls(checkout) == [f"step stacks.virtual dgx {command}"]


def test_every_command_that_acts_on_a_lab_asks_the_guard(checkout: Path) -> None:
    asking = {target for target in TARGETS if "stacks.virtual" in make("-n", target, cwd=checkout).stdout}

    assert asking == ON_VIRTUAL_LABS


def test_the_refusal_ends_with_the_command_as_it_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "templates/roce/Pulumi.roce.yaml").read_text()
    (tmp_path / "Pulumi.dgx.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)

    assert (refusal("dgx", "make coffee") or "").endswith(' eval "$(make env STACK=dgx)" && make coffee')
    assert (refusal("dgx") or "").endswith("&& pulumi up --stack dgx")


def test_a_failed_up_is_the_end_and_the_report_gets_its_status(checkout: Path) -> None:
    done = make("up", cwd=checkout, fails="lab pulumi up*")

    assert done.returncode != 0
    assert "Error 7" in done.stderr
    assert re.fullmatch(r"run lab rocelab report .* --after-up 7 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", calls(checkout)[-1])


def test_an_up_goes_from_the_simulator_to_the_verdict(checkout: Path) -> None:
    assert make("up", cwd=checkout).returncode == 0

    assert ran(checkout) == [
        "stacks.virtual lab",
        "engine.one_lab lab",
        "engine.nodes_image",
        "engine.install --stack",
        "components.cli.app store",
        "engine.environment --enter",
        "simulator.cli up",
        "engine.recover lab",
        "pulumi stack",
        "pulumi up",
        "rocelab report",
    ]
    assert "--after-up 0 " in calls(checkout)[-1]


@pytest.mark.parametrize("target", ["up", "preview", "drift", "destroy"])
def test_what_prevents_the_image_build_is_reported_before_the_engine_is_built(checkout: Path, target: str) -> None:
    assert make(target, cwd=checkout, fails="*nodes_image*").returncode != 0
    assert ran(checkout)[-1] == "engine.nodes_image"


@pytest.mark.parametrize("target", ["up", "preview"])
def test_a_lab_is_not_brought_up_beside_another_one(checkout: Path, target: str) -> None:
    assert make(target, "STACK=lab-pvrdma", cwd=checkout, fails="*one_lab lab-pvrdma*").returncode != 0
    assert ran(checkout)[-1] == "engine.one_lab lab-pvrdma"


def test_the_lab_that_is_in_the_way_can_be_taken_away(checkout: Path) -> None:
    assert make("destroy", cwd=checkout, fails="*one_lab*").returncode == 0


@pytest.mark.parametrize("target", ["validate", "ports", "report", "recover"])
def test_what_starts_no_node_needs_no_image(checkout: Path, target: str) -> None:
    assert make(target, cwd=checkout, fails="*nodes_image*").returncode == 0
    assert "simulator.cli up" not in ran(checkout)


@pytest.mark.parametrize("target", ["destroy", "drift", "validate", "ports", "report"])
def test_a_stack_that_does_not_exist_starts_no_simulator(checkout: Path, target: str) -> None:
    assert make(target, cwd=checkout, fails="*engine.made lab").returncode != 0
    assert ran(checkout)[-1] == "engine.made lab"


@pytest.mark.parametrize(
    ("target", "last"),
    [
        ("preview", ["pulumi stack", "pulumi preview"]),
        ("drift", ["pulumi preview"]),
        ("destroy", ["engine.recover lab", "pulumi destroy"]),
    ],
)
def test_a_simulator_that_was_stopped_is_started_first(checkout: Path, target: str, last: list[str]) -> None:
    assert make(target, cwd=checkout).returncode == 0

    words = ran(checkout)
    assert words[words.index("engine.environment --enter") :] == [
        "engine.environment --enter",
        "simulator.cli up",
        *last,
    ]


def test_a_lab_that_does_not_run_is_not_measured(checkout: Path) -> None:
    done = make("validate", cwd=checkout, fails="*sim status*")

    assert done.returncode != 0
    assert lines_naming(done.stderr, "simulator", "make up STACK=lab")
    assert not any("pulumi up" in line for line in calls(checkout) if line.startswith("run"))
    assert make("validate", cwd=checkout).returncode == 0
    assert "pulumi up" in calls(checkout)[-2]
    assert "rocelab report" in calls(checkout)[-1]


def test_ports_are_tried_of_a_lab_that_runs(checkout: Path) -> None:
    done = make("ports", cwd=checkout, fails="*sim status*")

    assert lines_naming(done.stderr, "simulator", "make up STACK=lab")
    assert not any("rocelab ports" in line for line in calls(checkout) if line.startswith("run"))
    assert make("ports", cwd=checkout).returncode == 0
    assert calls(checkout)[-1] == "run lab rocelab ports --check --stack lab"
    assert make("ports", cwd=checkout, fails="*rocelab ports*").returncode != 0, "a fault is one"

"""The whole program on the reference lab: the names that stand in every state, and no Pulumi warning."""

import json
import os
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.recover import PROJECT
from stacks.read import KEY
from tests.components.cluster.conftest import small_definitions  # noqa: F401  # a fixture
from tests.conftest import ROOT
from tests.engine import Engine, Recorded
from tests.stacks.test_load import simulator

GOLDEN = ROOT / "tests" / "golden" / "names.txt"
FLEET = "pulumi-python:dynamic/hosts:Fleet"
MEASUREMENT = "pulumi-python:dynamic/validation:Measurement"


def answer(type_: str, _name: str, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the dynamic resources yield: hosts that are ready, and a record that says nothing."""
    if type_.endswith(":Fleet"):
        return {"results": "{}", "facts": "{}", "vf_layout": "0123456789abcdef"}
    return {}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_definitions: None) -> Recorded:  # noqa: F811
    del small_definitions  # used for its effect
    simulator(tmp_path)
    monkeypatch.chdir(tmp_path)
    lab = yaml.safe_load((ROOT / "Pulumi.lab.yaml").read_text())["config"]["rocelab:lab"]

    return Engine(answer).run(
        lambda: runpy.run_path(str(ROOT / "__main__.py")), preview=True, config={"rocelab:lab": json.dumps(lab)}
    )


def test_the_project_asks_every_stack_for_its_lab_and_for_no_secret() -> None:
    """What the project declares, the engine demands of each stack: an agent's lab has no sshPrivateKey to set."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())

    assert set(project["config"]) == {"lab"}
    assert project["config"]["lab"]["type"] == "object"
    assert not {"default", "secret"} & set(project["config"]["lab"])
    assert (project["name"], f"{project['name']}:lab") == (PROJECT, KEY), "states and stack files are named by it"


def test_the_names_in_the_state_are_the_golden_ones(program: Recorded) -> None:
    names = "".join(f"{seen.type} {name}\n" for name, seen in sorted(program.resources.items()))
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(names)

    assert names == GOLDEN.read_text(), "a renamed resource is deleted and made again: alias it (CONTRIBUTING.md)"


def test_everything_hangs_under_a_layer(program: Recorded) -> None:
    roots = {name for name, seen in program.resources.items() if not seen.parent}

    assert roots == {"switches", "hosts", "cluster", "validation"}


def test_a_host_costs_one_resource(program: Recorded) -> None:
    of_gpu01 = [name for name in program.resources if "gpu01" in name]

    assert len(of_gpu01) == 1, "each more is a connection, a state entry and a rewrite of the whole state"


def test_no_command_has_what_bites_later(program: Recorded) -> None:
    for name, seen in program.of_type("command:remote:Command").items():
        assert not {"triggers", "delete", "environment"} & set(seen.inputs), name
        assert seen.inputs["connection"]["hostKey"].startswith("ssh-ed25519 "), name
        assert seen.inputs["addPreviousOutputInEnv"] is False
        assert "connection" in seen.secrets, "the private key would stand in the state in clear"

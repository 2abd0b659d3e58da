"""The provider's base under the real engine, as a person types the commands: no `--run-program` anywhere."""

import json
import signal
import subprocess
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from cli_project import Project
from ssh_host import wait_until

from engine.places import BIN, VENV
from tests.conftest import ROOT
from tests.messages import lines_naming

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(not (BIN / "pulumi").exists(), reason="the engine is not in place: run make setup"),
]

PROVIDER = f"""#!{VENV}/bin/python -P
import sys

sys.path[:0] = ["{ROOT}", "{{folder}}"]
import provider_probe
from components.provider import server

server.main()
"""
PROGRAM = """
import pulumi
from provider_probe import Note
from components.provider.program import Declaration

style = {{"margins": {{2: 5}}}}
first = Declaration(Note, "first", {{"path": "{path}", "text": "{text}", "pin": "pin-4711", "style": style}})
size = pulumi.Output.format("{{}} bytes", first.size_bytes)
second = Declaration(Note, "second", {{"path": "second.txt", "text": size}})
pulumi.export("second", second.text)
"""
PLUGINS = "plugins: {providers: [{name: rocelab, path: plugin}]}\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path, str(VENV))
    with (tmp_path / "Pulumi.yaml").open("a") as file:
        file.write(PLUGINS)
    (tmp_path / "plugin").mkdir()
    plugin = tmp_path / "plugin" / "pulumi-resource-rocelab"
    plugin.write_text(PROVIDER.format(folder=tmp_path))
    plugin.chmod(0o755)
    copy(Path(__file__).with_name("provider_probe.py"), tmp_path)
    project.env["PYTHONPATH"] = str(ROOT)
    project.pulumi("config", "set", "--secret", "rocelab:key", "key-one", "--stack", "t")
    return project


def write(project: Project, text: str, path: str = "first.txt") -> None:
    project.write(PROGRAM.format(path=path, text=text))


def state_of(project: Project, name: str) -> dict[str, Any]:
    exported = json.loads(project.pulumi("stack", "export", "--stack", "t"))
    for resource in exported["deployment"]["resources"]:
        if resource["urn"].endswith(f"::{name}"):
            return dict(resource)
    return {}


def test_a_resource_is_made_kept_found_changed_repaired_replaced_and_deleted(project: Project) -> None:
    write(project, "hello")
    shown = project.pulumi("up", "--yes", "--stack", "t")  # its preview does not know the second text yet

    assert lines_naming(shown, "warning:", "writes 5 characters")
    assert (project.folder / "second.txt").read_text() == "5 bytes"
    backend = "".join(path.read_text() for path in (project.folder / "backend").rglob("*.json"))
    assert "key-one" not in shown + backend
    assert "pin-4711" not in shown + backend
    assert state_of(project, "default").get("inputs", {}) == {}
    outputs = state_of(project, "first")["outputs"]
    assert (outputs["style"], outputs["size_bytes"]) == ({"margins": {"2": 5}}, 5)

    project.pulumi("up", "--yes", "--skip-preview", "--expect-no-changes", "--stack", "t")

    (project.folder / "first.txt").write_text("scribbled")
    assert "1 updated" in project.pulumi("refresh", "--yes", "--stack", "t")
    assert state_of(project, "first")["inputs"]["text"] == "scribbled"
    assert "1 updated" in project.up()
    assert (project.folder / "first.txt").read_text() == "hello"

    (project.folder / "second.txt").unlink()
    assert "1 created" in project.pulumi("up", "--yes", "--refresh", "--skip-preview", "--stack", "t")

    write(project, "hello", "moved.txt")
    assert "1 replaced" in project.up()
    assert not (project.folder / "first.txt").exists()

    project.pulumi("config", "set", "--secret", "rocelab:key", "key-two", "--stack", "t")
    project.pulumi("destroy", "--yes", "--skip-preview", "--stack", "t")
    assert (project.folder / "deleted").read_text() == "moved.txt key-two"


def test_what_is_refused_names_the_property_and_what_fails_halfway_stays_in_the_state(project: Project) -> None:
    write(project, "forbidden")
    refused = project.pulumi("preview", "--stack", "t", fails=True)
    assert lines_naming(refused, "first", "text", "forbidden", "nobody may write that")

    write(project, "half")
    failed = project.up(fails=True)
    assert lines_naming(failed, "the disk is full")
    assert "Traceback" not in failed
    assert state_of(project, "first")["outputs"]["size_bytes"] == 2

    write(project, "whole")
    assert "1 updated" in project.up()
    project.pulumi("up", "--yes", "--skip-preview", "--expect-no-changes", "--stack", "t")


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_an_operation_ends_with_its_engine_and_cleans_up(project: Project, end: signal.Signals) -> None:
    write(project, "slow")
    note = project.folder / "first.txt"
    engine = project.start("up", "--yes", "--skip-preview", "--stack", "t")
    wait_until(note.exists)

    engine.send_signal(end)

    printed = engine.communicate(timeout=30)[0]
    wait_until(lambda: note.read_text() == "cleaned", timeout_s=10)
    assert (end == signal.SIGINT) == bool(lines_naming(printed, "cancelled", "the next run continues"))


def test_the_schema_has_the_component_with_its_outputs_and_the_configuration(project: Project) -> None:
    printed = subprocess.run(
        [BIN / "pulumi", "package", "get-schema", project.folder / "plugin" / "pulumi-resource-rocelab"],
        cwd=project.folder,
        env=project.env,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout

    schema = json.loads(printed)
    lab = schema["resources"]["rocelab:index:Lab"]
    assert lab["isComponent"]
    assert lab["properties"]["kubeconfig"]["secret"]
    assert "validation" in lab["required"]
    assert schema["config"]["variables"]["sshPrivateKey"]["secret"]

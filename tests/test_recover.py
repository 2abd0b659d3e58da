"""Recovery after a killed run: only what is known to be dead is cleared."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import engine.recover
from engine.recover import GONE_WITH_A_VCENTER, INSTANCE, forget, locks, recover, settle
from tests.conftest import ROOT
from tests.messages import lines_naming

HOST = os.uname().nodename
URN = "urn:pulumi:lab::rocelab::command:remote:Command::hosts-gpu01"
OLD, NEW = "8af5127a-bfb1-55b2-892a-3161d70ba064", "3b19208a-b2f2-5eff-ab89-8b2e719994d9"
FABRIC, HOSTS, CLUSTER = "rocelab:fabric:VsphereFabric", "rocelab:hosts:Hosts", "rocelab:cluster:RdmaCluster"


def write_lock(state: Path, content: str) -> Path:
    folder = state / ".pulumi/locks/organization/rocelab/lab"
    folder.mkdir(parents=True)
    path = folder / "1234.json"
    path.write_text(content)
    return path


def test_the_lock_of_a_living_process_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_lock(tmp_path, json.dumps({"pid": os.getpid(), "hostname": HOST}))

    assert recover("lab", tmp_path, tmp_path) == 1
    assert path.exists()
    assert f"pid {os.getpid()}" in capsys.readouterr().out


def test_the_lock_of_another_machine_is_kept(tmp_path: Path) -> None:
    path = write_lock(tmp_path, json.dumps({"pid": 4_000_000, "hostname": "elsewhere"}))

    assert recover("lab", tmp_path, tmp_path) == 1
    assert path.exists(), "whether that process lives cannot be known from here"


def test_the_lock_of_a_killed_process_that_is_still_a_zombie_is_cleared(tmp_path: Path) -> None:
    killed = subprocess.Popen(["sleep", "60"])
    path = write_lock(tmp_path, json.dumps({"pid": killed.pid, "hostname": HOST}))
    killed.kill()
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)

    assert recover("lab", tmp_path, tmp_path) == 0
    assert not path.exists()
    killed.wait()


def test_the_lock_of_a_dead_process_is_cleared_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_lock(tmp_path, json.dumps({"pid": 4_000_000, "hostname": HOST}))

    assert recover("lab", tmp_path, tmp_path) == 0
    assert not path.exists()
    assert lines_naming(capsys.readouterr().out, "cleared", "lock", "4000000")


def test_a_lock_truncated_by_a_full_disk_has_no_owner(tmp_path: Path) -> None:
    write_lock(tmp_path, "")

    assert [lock.owner_is_dead() for lock in locks(tmp_path, "lab")] == [True]


def test_pending_creates_are_dropped_and_other_operations_kept() -> None:
    exported = {
        "deployment": {
            "pending_operations": [
                {"type": "creating", "resource": {"urn": URN}},
                {"type": "deleting", "resource": {"urn": URN}},
            ]
        }
    }

    assert settle(exported) == [URN]
    assert [operation["type"] for operation in exported["deployment"]["pending_operations"]] == ["deleting"]


def test_a_stack_without_pending_operations_is_left_alone() -> None:
    assert settle({"deployment": {"resources": []}}) == []
    assert settle({"deployment": None}) == []


def urn(types: str, name: str) -> str:
    return f"urn:pulumi:lab::rocelab::{types}::{name}"


def a_stack_in(vcenter: str, server: str = "127.0.12.201:8989") -> dict[str, Any]:
    """Switch and host of a simulated vCenter, and a cluster behind them."""
    switch = urn(f"{FABRIC}$vsphere:index/vnic:Vnic", "fabric-vmkernel")
    host = urn(f"{HOSTS}$command:remote:Command", "hosts-gpu01")
    namespace = urn(f"{CLUSTER}$kubernetes:core/v1:Namespace", "cluster-namespace")
    resources = [
        {"urn": urn("pulumi:providers:pulumi-python", "default"), "type": "pulumi:providers:pulumi-python"},
        {"urn": urn(FABRIC, "fabric"), "type": FABRIC},
        {
            "urn": urn(f"{FABRIC}$pulumi:providers:vsphere", "fabric-provider"),
            "type": "pulumi:providers:vsphere",
            "inputs": {"vsphereServer": server},
        },
        {
            "urn": urn(f"{FABRIC}$rocelab:fabric:Baseline", "fabric-esx1-baseline"),
            "type": "rocelab:fabric:Baseline",
            "id": f"{vcenter}/esx1",
        },
        {"urn": switch, "type": "vsphere:index/vnic:Vnic", "id": "host-37_vmk1"},
        {"urn": host, "type": "command:remote:Command", "id": "x", "dependencies": [switch]},
        {
            "urn": namespace,
            "type": "kubernetes:core/v1:Namespace",
            "dependencies": [switch, urn(CLUSTER, "cluster")],
            "propertyDependencies": {"metadata": [host], "spec": None},
            "deletedWith": host,
        },
    ]
    pending = [{"type": "updating", "resource": {"urn": one}} for one in (switch, namespace)]
    return {"deployment": {"resources": resources, "pending_operations": pending}}


def names(exported: dict[str, Any]) -> list[str]:
    return [one["urn"].rpartition("::")[2] for one in exported["deployment"]["resources"]]


def test_what_went_with_a_simulated_vcenter_is_forgotten_and_nothing_else() -> None:
    exported = a_stack_in(OLD)

    assert forget(exported, NEW) == 5
    assert names(exported) == ["default", "cluster-namespace"]
    kept = exported["deployment"]["resources"][1]
    assert (kept["dependencies"], kept["propertyDependencies"]) == (
        [urn(CLUSTER, "cluster")],
        {"metadata": [], "spec": []},
    )
    assert "deletedWith" not in kept, "the engine refuses a state that names what is not in it"
    assert [one["resource"]["urn"] for one in exported["deployment"]["pending_operations"]] == [kept["urn"]]


def test_a_vcenter_that_still_runs_keeps_everything() -> None:
    exported = a_stack_in(OLD)

    assert forget(exported, OLD) == 0
    assert exported == a_stack_in(OLD)


def test_a_real_vcenter_is_never_forgotten() -> None:
    exported = a_stack_in(OLD, "vcenter.example.com:443")

    assert forget(exported, NEW) == 0
    assert exported == a_stack_in(OLD, "vcenter.example.com:443")


def test_the_components_that_go_with_a_vcenter_are_called_so_in_the_program() -> None:
    program = [path.read_text() for path in (ROOT / "components").rglob("*.py")]

    for name in GONE_WITH_A_VCENTER:
        assert any(f'"rocelab:{name}"' in text for text in program), name


def test_a_stack_without_a_fabric_is_left_alone() -> None:
    assert forget({"deployment": {"resources": [{"urn": URN, "type": "command:remote:Command"}]}}, NEW) == 0
    assert forget({"deployment": None}, NEW) == 0


@pytest.mark.parametrize(("running", "imports"), [(NEW, 1), (OLD, 0), ("", 0), (None, 0)])
def test_a_new_vcenter_is_reported_in_one_line_and_the_state_changed_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    running: str | None,
    imports: int,
) -> None:
    stack = tmp_path / ".pulumi/stacks/rocelab/lab.json"
    stack.parent.mkdir(parents=True)
    stack.touch()
    if running is not None:
        (tmp_path / INSTANCE).parent.mkdir(parents=True)
        (tmp_path / INSTANCE).write_text(running)
    imported: list[str] = []

    def pulumi(*arguments: str, text: str | None = None) -> str:
        if arguments[:2] == ("stack", "import"):
            imported.append(text or "")
        exported = a_stack_in(OLD)
        exported["deployment"]["pending_operations"] = []
        return json.dumps(exported)

    monkeypatch.setattr(engine.recover, "_pulumi", pulumi)

    assert recover("lab", tmp_path, tmp_path) == 0
    said = capsys.readouterr().out
    assert len(imported) == imports
    assert len(lines_naming(said, "vCenter", "5 resources")) == imports

"""Recovery after a killed run: only what is known to be dead is cleared."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from engine.recover import locks, recover, settle

HOST = os.uname().nodename
URN = "urn:pulumi:lab::rocelab::command:remote:Command::hosts-gpu01"


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


def test_the_lock_of_a_killed_process_that_nobody_has_waited_for_is_cleared(tmp_path: Path) -> None:
    killed = subprocess.Popen(["sleep", "60"])
    path = write_lock(tmp_path, json.dumps({"pid": killed.pid, "hostname": HOST}))
    killed.kill()
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)

    assert recover("lab", tmp_path, tmp_path) == 0
    assert not path.exists()
    killed.wait()


def test_the_lock_of_a_dead_process_is_cleared_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_lock(tmp_path, json.dumps({"pid": 4_000_000, "hostname": HOST}))

    assert recover("lab", tmp_path, tmp_path) == 0
    assert not path.exists()
    assert "lock of the dead process 4000000 cleared" in capsys.readouterr().out


def test_a_lock_cut_short_by_a_full_disk_counts_as_nobodys(tmp_path: Path) -> None:
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

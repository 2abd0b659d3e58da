"""`make history`: a table of the last runs from the store, or from the state where the store is empty."""

import json
import subprocess
from pathlib import Path

import pytest

from components.validation import history
from components.validation.memory.history import Entry, Value, history_of
from components.validation.memory.store import append
from tests.conftest import ROOT

RUNS = [(1, 97.0, "pass", True), (2, 97.5, "warn", True), (3, 80.0, "fail", False)]


def entries() -> list[Entry]:
    return [
        Entry(
            lab="lab",
            run_id=f"20261121-06000{n}-abcd",
            started_at=f"2026-11-21T06:00:0{n}Z",
            duration_s=1,
            simulated=False,
            function="pass",
            performance=performance,
            passed=passed,
            fingerprint="f",
            config={"nodes": "2"},
            values={"ib_write_bw one_way rail-a": Value(median=gbit_s, unit="Gbit/s", again=80.1 if n == 3 else None)},
        )
        for n, gbit_s, performance, passed in RUNS
    ]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "Pulumi.lab.yaml").write_text((ROOT / "Pulumi.lab.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_runs_of_the_store_are_shown_with_their_changes_and_the_baseline(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for entry in entries():
        append(checkout / ".sim" / "runs" / "lab", entry)

    assert history.main([]) == 0
    shown = capsys.readouterr().out
    assert "ib_write_bw rail-a [Gbit/s]" in " ".join(shown.split())
    assert "97.5 +0.5%" in shown
    assert "80 -17.9% (again 80.1)" in shown
    assert [line.split()[1] for line in shown.splitlines() if "abcd" in line][1] == "*"


def test_where_the_store_is_empty_the_state_is_asked(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = history_of(entries()).model_dump_json()
    urn = "urn:pulumi:lab::rocelab::pulumi-python:dynamic/validation:Measurement::validation-measurement"
    state = {"deployment": {"resources": [{"urn": "urn:x"}, {"urn": urn, "outputs": {"history": kept}}]}}
    answer = subprocess.CompletedProcess([], 0, json.dumps(state), "")
    monkeypatch.setattr(history.subprocess, "run", lambda *_, **__: answer)

    assert history.main(["--json"]) == 0
    assert [json.loads(line)["run_id"] for line in capsys.readouterr().out.splitlines()] == [
        entry.run_id for entry in entries()
    ]


def test_a_lab_without_a_file_or_a_stack_is_told_so(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "error: no stack named 'lab' found")
    monkeypatch.setattr(history.subprocess, "run", lambda *_, **__: failed)

    assert history.main([]) == 2
    assert history.main(["--stack", "none"]) == 2
    said = capsys.readouterr().err
    assert "no stack named 'lab' found" in said
    assert "Pulumi.none.yaml" in said

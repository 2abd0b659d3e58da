"""`make history`: a table of the last runs from the store, or from the state where the store is empty."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from components.cli.app import main
from components.report import runs
from components.stack import MEASUREMENT
from components.validation.history import history_of
from components.validation.store import append
from tests.components.validation.history import entries
from tests.conftest import ROOT
from tests.messages import states


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

    assert main(["history"]) == 0
    shown = capsys.readouterr().out
    assert "ib_write_bw rail-a [Gbit/s]" in " ".join(shown.split())
    assert "97.5 +0.5%" in shown
    assert states(shown, "80 -17.9%", "again 80.1")
    assert [line.split()[1] for line in shown.splitlines() if "abcd" in line][1] == "*"


def test_where_the_store_is_empty_the_state_is_asked(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = history_of(entries()).model_dump(mode="json")
    urn = "urn:pulumi:lab::rocelab::rocelab:validation:Measurement::validation-measurement"
    state = {
        "deployment": {
            "resources": [
                {"urn": "urn:x", "type": "x"},
                {"urn": urn, "type": MEASUREMENT, "outputs": {"history": kept}},
            ]
        }
    }
    answer = subprocess.CompletedProcess([], 0, json.dumps(state), "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)

    assert main(["history", "--json"]) == 0
    assert [run["run_id"] for run in json.loads(capsys.readouterr().out)] == [entry.run_id for entry in entries()]


def test_the_runs_that_a_stack_keeps_of_another_lab_are_not_shown_under_the_name_of_this_one(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = history_of([entry.model_copy(update={"lab": "dgx"}) for entry in entries()]).model_dump(mode="json")
    urn = "urn:pulumi:lab::rocelab::rocelab:validation:Measurement::validation-measurement"
    state = {"deployment": {"resources": [{"urn": urn, "type": MEASUREMENT, "outputs": {"history": kept}}]}}
    answer = subprocess.CompletedProcess([], 0, json.dumps(state), "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)

    assert main(["history"]) == 0
    assert states(capsys.readouterr().out, "lab lab", "make up")


def test_a_lab_without_a_file_or_a_stack_is_refused_with_that_reason(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "error: no stack named 'lab' found")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)

    assert main(["history"]) == 4
    assert main(["history", "--stack", "none"]) == 2
    said = capsys.readouterr().err
    assert "no stack named 'lab' found" in said
    assert states(said, "make up")
    assert "Pulumi.none.yaml" in said


def test_a_stack_that_was_never_measured_says_what_measures_it(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = subprocess.CompletedProcess([], 0, json.dumps({"deployment": {}}), "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)

    assert main(["history"]) == 0
    assert states(capsys.readouterr().out, "lab lab", "make up")

    file = checkout / "Pulumi.lab.yaml"
    file.write_text(re.sub(r"(?m)^( +mode:) (warn|enforce)$", r"\1 'off'", file.read_text()))
    assert main(["history"]) == 0
    assert "set benchmarks.mode" in capsys.readouterr().out


def test_runs_of_another_configuration_are_marked_and_no_change_is_shown_across(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = entries()
    for entry in (known[0], known[1].model_copy(update={"config": {"nodes": "3"}})):
        append(checkout / ".sim" / "runs" / "lab", entry)

    assert main(["history"]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[-1] for line in shown.splitlines() if "-abcd" in line] == ["A", "B"]
    assert "%" not in shown
    assert "only runs of one config are compared" in shown


def test_the_values_of_the_last_runs_that_fit_are_shown_and_of_runs_without_values_none(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = entries()[0]
    for n in range(30):
        told = {"run_id": f"20261121-0600{n:02}-{n:04}", "started_at": f"2026-11-21T06:00:{n:02}Z"}
        append(checkout / ".sim" / "runs" / "lab", first.model_copy(update=told | ({"values": {}} if n == 28 else {})))

    assert main(["history"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert states(lines[0], "lab lab", 20, 30)
    head = next(line for line in lines if line.strip().startswith("value"))
    assert head.split()[-2:] == ["\N{BOX DRAWINGS HEAVY VERTICAL}", "0029"]
    assert "0027" in head
    assert "0028" not in head
    assert max(map(len, lines)) <= runs.PIPED_COLUMNS

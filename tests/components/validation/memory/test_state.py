"""The measurement in a stack's state, for the commands that show runs and make reports."""

import json
import subprocess
from pathlib import Path

import pytest

from components.report.sources import gather
from components.stack import Stack
from components.validation.memory.state import measurement_outputs
from stacks.base import LabError
from tests.components.report.synthetic import Model

URN = (
    "urn:pulumi:lab::rocelab::rocelab:validation:Validation$"
    "pulumi-python:dynamic/validation:Measurement::validation-measurement"
)


def exported(monkeypatch: pytest.MonkeyPatch, text: str, code: int = 0, said: str = "") -> None:
    answer = subprocess.CompletedProcess([], code, text, said)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)


def test_the_measurement_is_found_below_its_component_and_its_outputs_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [{"urn": "urn:pulumi:lab::rocelab::pulumi:pulumi:Stack::rocelab-lab"}, {"urn": URN.rpartition("$")[0]}]
    found = {"urn": URN, "outputs": {"record": "r", "history": "h"}}
    exported(monkeypatch, json.dumps({"deployment": {"resources": [*before, found]}}))

    assert measurement_outputs("lab") == {"record": "r", "history": "h"}


@pytest.mark.parametrize("deployment", [{}, {"resources": []}, {"resources": [{"urn": URN}]}])
def test_a_stack_that_was_never_measured_has_none(
    monkeypatch: pytest.MonkeyPatch, deployment: dict[str, object]
) -> None:
    exported(monkeypatch, json.dumps({"deployment": deployment}))

    assert measurement_outputs("lab") == {}


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"deployment": null}'])
def test_what_is_no_state_is_said(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    exported(monkeypatch, text)

    with pytest.raises(LabError, match="--stack lab: no deployment in JSON"):
        measurement_outputs("lab")


def test_a_report_takes_the_record_of_the_run_from_the_state_where_the_store_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    material = Model(4, 2).material()
    assert material.record
    found = {"urn": URN, "outputs": {"record": material.record.model_dump_json()}}
    exported(monkeypatch, json.dumps({"deployment": {"resources": [found]}}))

    made = gather(material.summary, {}, stack=Stack(root=tmp_path), root=tmp_path, store=tmp_path)

    assert made.record == material.record
    assert made.record_from == "the stack's state, in part"


def test_a_report_is_made_although_no_state_can_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    exported(monkeypatch, "", 255, "error: no stack named 'lab' found")

    made = gather(Model(4, 2).material().summary, {}, stack=Stack(root=tmp_path), root=tmp_path, store=tmp_path)

    assert made.record is None
    assert made.missing

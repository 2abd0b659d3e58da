"""The simulator holds one lab at a time, and says which."""

import json
from pathlib import Path

import pytest

from engine import one_lab
from tests.messages import lines_naming


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of checkpoints, in a checkout of its own."""
    monkeypatch.chdir(tmp_path)
    one_lab.STACKS.mkdir(parents=True)
    return tmp_path / one_lab.STACKS


def write(stacks: Path, name: str, latest: object) -> None:
    (stacks / name).write_text(json.dumps({"version": 3, "checkpoint": {"stack": name, "latest": latest}}))


def test_another_lab_that_is_up_is_named_with_the_command_that_destroys_it(
    stacks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(stacks, "lab.json", {"resources": [{"urn": "u"}]})
    Path("Pulumi.lab.yaml").touch()

    assert one_lab.main(["lab-pvrdma"]) == 1
    said = capsys.readouterr().err
    assert lines_naming(said, "lab lab", "simulator")
    assert lines_naming(said, "make destroy STACK=lab")


def test_both_remedies_are_named_for_a_lab_without_its_file(stacks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(stacks, "gone.json", {"resources": [{"urn": "u"}]})

    assert one_lab.main(["lab"]) == 1
    assert "restoring Pulumi.gone.yaml" in (said := capsys.readouterr().err)
    assert "make clean" in said


@pytest.mark.parametrize("latest", [None, {}, {"resources": []}, {"resources": None}])
def test_a_stack_that_was_looked_at_or_destroyed_is_no_hindrance(stacks: Path, latest: object) -> None:
    write(stacks, "lab.json", latest)

    assert one_lab.main(["lab-pvrdma"]) == 0


def test_a_lab_is_not_in_its_own_way_nor_are_the_copies_of_a_state(stacks: Path) -> None:
    write(stacks, "lab.json", {"resources": [{"urn": "u"}]})
    write(stacks, "lab-pvrdma.json.bak", {"resources": [{"urn": "u"}]})

    assert one_lab.main(["lab"]) == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"checkpoint": null}', '{"checkpoint": []}'])
def test_a_state_that_cannot_be_read_is_left_to_the_engine(stacks: Path, text: str) -> None:
    (stacks / "lab.json").write_text(text)

    assert one_lab.main(["lab-pvrdma"]) == 0


def test_a_fresh_clone_has_no_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert one_lab.others("lab") == []

"""The guard of `make`: machines that somebody needs are never touched by a convenience command."""

from pathlib import Path

import pytest

from stacks.virtual import refusal
from tests.conftest import ROOT
from tests.messages import states


def test_a_simulator_stack_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    assert refusal("lab") is None


def test_hardware_is_refused_with_the_command_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "Pulumi.lab.yaml").read_text()
    for old, new in (
        ("kind: virtual", "kind: hardware"),
        ("driver: igb", "driver: mlx5_core"),
        ("identity: file", "identity: agent"),
    ):
        text = text.replace(old, new)
    for i in (1, 2):
        text = text.replace(f"127.0.12.{i}", f"192.0.2.{i}")
    (tmp_path / "Pulumi.dgx.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)

    refused = refusal("dgx", "pulumi destroy --stack dgx")

    assert refused
    assert states(refused, "pulumi destroy --stack dgx")


def test_a_stack_without_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert states(refusal("none") or "", "Pulumi.none.yaml")

"""Raw outputs beside the state."""

from pathlib import Path

import pytest

from components.validation.memory.bundle import KEPT, folder_of, read_bundle, write_bundle


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    digest = write_bundle(tmp_path, "one", {"a": "text"})

    assert read_bundle(tmp_path, "one", digest) == {"a": "text"}


def test_one_changed_byte_is_noticed(tmp_path: Path) -> None:
    digest = write_bundle(tmp_path, "one", {"a": "text"})
    file = tmp_path / "one.json.gz"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)

    assert read_bundle(tmp_path, "one", digest) is None
    assert read_bundle(tmp_path, "another", digest) is None


def test_only_the_newest_runs_are_kept(tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        write_bundle(tmp_path, f"{number:03}", {})

    assert min(file.name for file in tmp_path.iterdir()) == "003.json.gz"
    assert len(list(tmp_path.iterdir())) == KEPT


def test_simulated_runs_lie_with_the_simulator_and_others_with_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")

    assert folder_of("lab", tmp_path, simulated=True) == tmp_path / ".sim" / "runs"
    assert folder_of("lab", tmp_path, simulated=False) == Path("/state/rocelab/lab/runs")

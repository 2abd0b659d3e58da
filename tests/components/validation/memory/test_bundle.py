"""Raw outputs beside the state."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from components.validation.memory.bundle import KEPT, folder_of, prune, read_record, write_bundle, write_record
from components.validation.records import TransferResult
from stacks.lab import Lab
from tests.components.validation.labs import plan_for, record


def test_a_bundle_is_compressed_json_with_the_digest_of_its_file(tmp_path: Path) -> None:
    digest = write_bundle(tmp_path, "one", {"a": "text"})

    data = (tmp_path / "one.json.gz").read_bytes()
    assert json.loads(gzip.decompress(data)) == {"a": "text"}
    assert hashlib.sha256(data).hexdigest() == digest


def test_a_whole_record_is_read_back_and_one_of_another_version_is_none(lab: Lab, tmp_path: Path) -> None:
    run = record(plan_for(lab))
    digest = write_record(tmp_path, run)

    assert read_record(tmp_path, run.run_id) == run
    assert len(digest) == 64
    (tmp_path / "old.record.json.gz").write_bytes(gzip.compress(b'{"schema_version": 1}'))
    assert read_record(tmp_path, "old") is None
    assert read_record(tmp_path, "never") is None


def test_no_configured_secret_comes_into_the_store(lab: Lab, tmp_path: Path) -> None:
    failed = TransferResult(rail="rail-a", client="gpu01", server="gpu02", outcome="failed", reasons=("canary-9 said",))
    write_bundle(tmp_path, "one", {"log": "token canary-9, 92.40 Gb/s"}, ["canary-9"])
    write_record(tmp_path, record(plan_for(lab), also=[failed]), ["canary-9"])

    kept = [gzip.decompress(path.read_bytes()) for path in tmp_path.iterdir()]
    assert len(kept) == 2
    assert not any(b"canary-9" in data for data in kept)
    assert any(b"92.40 Gb/s" in data for data in kept)


def test_only_the_newest_runs_and_the_baseline_are_kept(lab: Lab, tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        write_bundle(tmp_path, f"{number:03}", {})
        write_record(tmp_path, record(plan_for(lab)).model_copy(update={"run_id": f"{number:03}"}))
    prune(tmp_path, ["001"])

    left = sorted(file.name for file in tmp_path.iterdir())
    assert left[:3] == ["001.json.gz", "001.record.json.gz", "003.json.gz"]
    assert len(left) == 2 * (KEPT + 1)


def test_runs_lie_where_the_lab_says_else_with_the_simulator_or_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")

    assert folder_of("lab", tmp_path, simulated=True) == tmp_path / ".sim" / "runs" / "lab"
    assert folder_of("lab", tmp_path, simulated=False) == Path("/state/rocelab/lab/runs")
    assert folder_of("lab", tmp_path, simulated=True, store="kept") == tmp_path / "kept" / "lab"
    assert folder_of("lab", tmp_path, simulated=False, store="/srv/kept") == Path("/srv/kept/lab")

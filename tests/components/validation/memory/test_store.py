"""Runs on disk: the document and the raw outputs of each."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from components.validation.records import RunRecord, TransferResult
from components.validation.store import (
    KEPT,
    RunDocument,
    declared_rails,
    folder_of,
    prune,
    read_document,
    write_bundle,
    write_document,
)
from stacks.lab import Lab
from tests.components.validation.labs import plan_for, record


def test_a_bundle_is_compressed_json_with_the_digest_of_its_file(tmp_path: Path) -> None:
    digest = write_bundle(tmp_path, "one", {"a": "text"})

    data = (tmp_path / "one.json.gz").read_bytes()
    assert json.loads(gzip.decompress(data)) == {"a": "text"}
    assert hashlib.sha256(data).hexdigest() == digest


def document(lab: Lab, run: RunRecord | None = None) -> RunDocument:
    plan = plan_for(lab)
    return RunDocument(plan=plan, rails=declared_rails(lab), record=run or record(plan))


def test_a_run_is_read_back_whole_and_only_by_its_digest(lab: Lab, tmp_path: Path) -> None:
    run = document(lab)
    digest = write_document(tmp_path, run)

    assert read_document(tmp_path, run.record.run_id, digest) == run
    assert read_document(tmp_path, run.record.run_id, "0" * 64) is None
    assert read_document(tmp_path, "never", digest) is None


def test_a_run_of_another_version_is_none(tmp_path: Path) -> None:
    data = gzip.compress(b'{"schema_version": 1}')
    (tmp_path / "old.run.json.gz").write_bytes(data)

    assert read_document(tmp_path, "old", hashlib.sha256(data).hexdigest()) is None


def test_a_document_stays_readable_whatever_is_redacted_in_it(lab: Lab, tmp_path: Path) -> None:
    said = 'password="hunter22" and {"token": "abcdefgh"}'
    failed = TransferResult(rail="rail-a", client="gpu01", server="gpu02", outcome="failed", reasons=(said,))
    digest = write_document(tmp_path, document(lab, record(plan_for(lab), also=[failed])))

    kept = read_document(tmp_path, record(plan_for(lab)).run_id, digest)
    assert kept
    (reason,) = next(t.reasons for t in kept.record.transfers if t.reasons)
    assert (reason.count("[redacted]"), "hunter22" in reason) == (2, False)


def test_no_configured_secret_comes_into_the_store(lab: Lab, tmp_path: Path) -> None:
    failed = TransferResult(rail="rail-a", client="gpu01", server="gpu02", outcome="failed", reasons=("canary-9 said",))
    write_bundle(tmp_path, "one", {"log": "token canary-9, 92.40 Gb/s"}, ["canary-9"])
    write_document(tmp_path, document(lab, record(plan_for(lab), also=[failed])), ["canary-9"])

    kept = [gzip.decompress(path.read_bytes()) for path in tmp_path.iterdir()]
    assert len(kept) == 2
    assert not any(b"canary-9" in data for data in kept)
    assert any(b"92.40 Gb/s" in data for data in kept)


def test_only_the_newest_runs_and_the_baseline_are_kept(lab: Lab, tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        write_bundle(tmp_path, f"{number:03}", {})
        write_document(tmp_path, document(lab, record(plan_for(lab)).model_copy(update={"run_id": f"{number:03}"})))
    prune(tmp_path, "001")

    left = sorted(file.name for file in tmp_path.iterdir())
    assert left[:3] == ["001.json.gz", "001.run.json.gz", "003.json.gz"]
    assert len(left) == 2 * (KEPT + 1)


def test_runs_lie_where_the_lab_says_else_with_the_simulator_or_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")

    assert folder_of("lab", tmp_path, simulated=True) == tmp_path / ".sim" / "runs" / "lab"
    assert folder_of("lab", tmp_path, simulated=False) == Path("/state/rocelab/lab/runs")
    assert folder_of("lab", tmp_path, simulated=True, store="kept") == tmp_path / "kept" / "lab"
    assert folder_of("lab", tmp_path, simulated=False, store="/srv/kept") == Path("/srv/kept/lab")

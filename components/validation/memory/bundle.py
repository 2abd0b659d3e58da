"""What runs leave in the lab's store: raw outputs and whole records by run. The state holds digests only."""

import gzip
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from components.validation.memory.redact import redacted
from components.validation.records import RunRecord

KEPT = 20
"""Runs whose raw outputs stay; those of older ones are removed, but for the baseline's."""
RAW, RECORD = ".json.gz", ".record.json.gz"


def folder_of(lab: str, root: Path, *, simulated: bool, store: str | None = None) -> Path:
    """Where a lab's runs lie: where its file says, else with the simulator's state or the user's (XDG)."""
    if store:
        return root / store / lab
    if simulated:
        return root / ".sim" / "runs" / lab
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "rocelab" / lab / "runs"


def write_bundle(folder: Path, run_id: str, raw: Mapping[str, str], secrets: Iterable[str] = ()) -> str:
    """Writes the raw outputs of a run without secrets; returns the SHA-256 of the file."""
    known = tuple(secrets)
    texts = {name: redacted(text, known) for name, text in raw.items()}
    return _write(folder, f"{run_id}{RAW}", json.dumps(texts, indent=0, sort_keys=True))


def write_record(folder: Path, record: RunRecord, secrets: Iterable[str] = ()) -> str:
    """Writes a run's whole record, of which the state has the compact one; returns the SHA-256 of the file."""
    return _write(folder, f"{record.run_id}{RECORD}", redacted(record.model_dump_json(), secrets))


def read_record(folder: Path, run_id: str) -> RunRecord | None:
    """A run's whole record; None when it is not on this machine, or was written by another version."""
    text = _read(folder / f"{run_id}{RECORD}")
    try:
        return None if text is None else RunRecord.model_validate_json(text)
    except ValueError:
        return None


def prune(folder: Path, protected: Collection[str] = ()) -> None:
    """Removes what is older than the last `KEPT` runs; `protected` are run ids that stay."""
    runs = sorted(path.name.removesuffix(RAW) for path in folder.glob(f"*{RAW}") if not path.name.endswith(RECORD))
    for run_id in runs[:-KEPT]:
        if run_id not in protected:
            (folder / f"{run_id}{RAW}").unlink(missing_ok=True)
            (folder / f"{run_id}{RECORD}").unlink(missing_ok=True)


def _write(folder: Path, name: str, text: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    # no time stamp inside: the same outputs give the same file
    data = gzip.compress(text.encode(), mtime=0)
    unfinished = folder / f".{name}.partial"
    unfinished.write_bytes(data)
    unfinished.replace(folder / name)
    return hashlib.sha256(data).hexdigest()


def _read(path: Path) -> str | None:
    try:
        return gzip.decompress(path.read_bytes()).decode()
    except (OSError, EOFError, UnicodeDecodeError):
        return None

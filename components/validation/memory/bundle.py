"""The raw outputs of runs, kept beside the state: a file a run, its digest in the stack, never its text."""

import gzip
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

KEPT = 20
"""Runs whose raw outputs stay; older files are removed."""


def folder_of(lab: str, root: Path, *, simulated: bool) -> Path:
    """Where a lab's raw outputs lie: with the simulator's state, else in the user's state folder (XDG)."""
    if simulated:
        return root / ".sim" / "runs"
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "rocelab" / lab / "runs"


def write_bundle(folder: Path, run_id: str, raw: Mapping[str, str]) -> str:
    """Writes the raw outputs of a run; returns the SHA-256 of the file."""
    folder.mkdir(parents=True, exist_ok=True)
    # no time stamp inside: the same outputs give the same file
    data = gzip.compress(json.dumps(dict(raw), indent=0, sort_keys=True).encode(), mtime=0)
    unfinished = folder / f".{run_id}.partial"
    unfinished.write_bytes(data)
    unfinished.replace(folder / f"{run_id}.json.gz")
    for old in sorted(folder.glob("*.json.gz"))[:-KEPT]:
        old.unlink(missing_ok=True)
    return hashlib.sha256(data).hexdigest()


def read_bundle(folder: Path, run_id: str, sha256: str) -> dict[str, str] | None:
    """The raw outputs of a run; None when the file is not on this machine or is not the one that was written."""
    try:
        data = (folder / f"{run_id}.json.gz").read_bytes()
    except OSError:
        return None
    if hashlib.sha256(data).hexdigest() != sha256:
        return None
    return {str(name): str(text) for name, text in json.loads(gzip.decompress(data)).items()}

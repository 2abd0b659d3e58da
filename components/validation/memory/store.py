"""A lab's runs on disk: the document and the raw outputs of each, and one line per run in the history.

The documents are the truth; the state of a stack has their digests.
"""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from components.validation.memory.document import RunDocument
from components.validation.memory.history import Entry
from components.validation.memory.redact import redacted, redacted_fields
from stacks.files import write_file
from stacks.lab import Lab

KEPT = 20
"""Runs whose files stay; those of older ones are removed, but for the baseline's."""
RAW, DOCUMENT, HISTORY = ".json.gz", ".run.json.gz", "history.jsonl"
LARGEST_READ_BYTES = 8_000_000
"""The end of a longer history is read."""


def folder_of(lab: str, root: Path, *, simulated: bool, store: str | None = None) -> Path:
    """The folder of a lab's runs: as the lab file says, else in the state of the simulator or of the user (XDG)."""
    if store:
        return root / store / lab
    if simulated:
        return root / ".sim" / "runs" / lab
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "rocelab" / lab / "runs"


def store_of(lab: Lab, root: Path) -> Path:
    """The folder of a lab's runs, from its file."""
    return folder_of(lab.name, root, simulated=lab.simulated, store=lab.report.store)


def write_bundle(folder: Path, run_id: str, raw: Mapping[str, str], secrets: Iterable[str] = ()) -> str:
    """Writes the raw outputs of a run without secrets; returns the SHA-256 of the file."""
    known = tuple(secrets)
    texts = {name: redacted(text, known) for name, text in raw.items()}
    return _write(folder, f"{run_id}{RAW}", json.dumps(texts, indent=0, sort_keys=True))


def write_document(folder: Path, document: RunDocument, secrets: Iterable[str] = ()) -> str:
    """Writes a run without secrets; returns the SHA-256 of the file."""
    fields = document.model_dump(mode="json", exclude_defaults=True) | {"schema_version": document.schema_version}
    text = json.dumps(redacted_fields(fields, secrets), separators=(",", ":"))
    return _write(folder, f"{document.record.run_id}{DOCUMENT}", text)


def read_document(folder: Path, run_id: str, sha256: str) -> RunDocument | None:
    """A run; None when it is not on this machine, is not the one with that digest, or is of another version."""
    try:
        data = (folder / f"{run_id}{DOCUMENT}").read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            return None
        return RunDocument.model_validate_json(gzip.decompress(data))
    except (OSError, EOFError, zlib.error, ValidationError):
        return None


def prune(folder: Path, protected: Collection[str] = ()) -> None:
    """Removes what is older than the last `KEPT` runs; `protected` are run ids that stay."""
    runs = sorted(path.name.removesuffix(DOCUMENT) for path in folder.glob(f"*{DOCUMENT}"))
    for run_id in runs[:-KEPT]:
        if run_id not in protected:
            (folder / f"{run_id}{RAW}").unlink(missing_ok=True)
            (folder / f"{run_id}{DOCUMENT}").unlink(missing_ok=True)


def append(folder: Path, entry: Entry) -> None:
    """Adds a run to the history. One write at the end of the file: two writers never mix their lines."""
    folder.mkdir(parents=True, exist_ok=True)
    line = entry.model_dump_json(exclude_defaults=True).encode() + b"\n"
    handle = os.open(folder / HISTORY, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        if not _ends_with_a_line(handle):
            line = b"\n" + line  # the last line is incomplete after a kill
        os.write(handle, line)
        os.fsync(handle)
    finally:
        os.close(handle)


def read(folder: Path, lab: str) -> list[Entry]:
    """The history of a lab, in the order of the file; lines that are no run are left out."""
    try:
        with (folder / HISTORY).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LARGEST_READ_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    return [entry for line in lines if line.strip() and (entry := _entry(line)) and entry.lab == lab]


def _entry(line: bytes) -> Entry | None:
    try:
        return Entry.model_validate_json(line)
    except ValidationError:
        return None


def _ends_with_a_line(handle: int) -> bool:
    size = os.lseek(handle, 0, os.SEEK_END)
    return size == 0 or os.pread(handle, 1, size - 1) == b"\n"


def _write(folder: Path, name: str, text: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    # no time stamp inside: the same outputs give the same file
    data = gzip.compress(text.encode(), mtime=0)
    write_file(folder / name, data)
    return hashlib.sha256(data).hexdigest()

"""The history file of a lab's store: one line a run, which survives the stack, its state and a killed writer."""

import os
from pathlib import Path

from pydantic import ValidationError

from components.validation.memory.history import Entry

FILE = "history.jsonl"
LARGEST_READ_BYTES = 8_000_000
"""The end of a longer file is read."""


def append(folder: Path, entry: Entry) -> None:
    """Adds a run. One write at the end of the file: two writers never mix their lines."""
    folder.mkdir(parents=True, exist_ok=True)
    line = entry.model_dump_json(exclude_defaults=True).encode() + b"\n"
    handle = os.open(folder / FILE, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        if not _ends_with_a_line(handle):
            line = b"\n" + line  # whoever wrote before was killed within a line
        os.write(handle, line)
        os.fsync(handle)
    finally:
        os.close(handle)


def read(folder: Path, lab: str) -> list[Entry]:
    """The runs of a lab, in the order of the file; lines that are no run are left out."""
    try:
        with (folder / FILE).open("rb") as file:
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

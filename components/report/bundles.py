"""Reads a file of raw outputs one output at a time: all of them together may be larger than memory should be."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from stacks.base import LabError


class BundleError(LabError):
    """A file of raw outputs that cannot be read."""


def digest_of(file: Path) -> str:
    """SHA-256 of the file as it lies there."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def outputs_in(file: Path) -> Iterator[tuple[str, str]]:
    """Name and text of each output. The file is a JSON object with a line an entry, as the memory writes it.

    Raises:
        BundleError: when it is damaged.
    """
    try:
        with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                entry = line.strip().removesuffix(",")
                if entry and entry not in ("{", "}", "{}"):
                    yield from _entry(entry)
    except (EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
        raise BundleError(f"{file.name} is damaged: {error}") from None


def _entry(text: str) -> Iterator[tuple[str, str]]:
    for name, said in json.loads(f"{{{text}}}").items():
        if not isinstance(said, str):
            raise ValueError(f"{name} is no text")  # noqa: TRY004  # a fault of the file, as the others
        yield name, said

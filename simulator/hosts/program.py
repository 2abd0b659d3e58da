"""The pure part of the host program, out of the very archive that was sent: it knows what a host has to answer."""

import hashlib
import importlib
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

PACKAGE = "rocelab_host"
Document = dict[str, Any]
Fields = dict[str, Any]

_SEEN: dict[str, bytes] = {}


def keep(archive: bytes) -> str:
    """Remembers an archive; its sha256, hexadecimal."""
    digest = hashlib.sha256(archive).hexdigest()
    _SEEN[digest] = archive
    return digest


def wanted_fields(digest: str, document: Document) -> Fields:
    """What a conforming host answers, by the program of this digest."""
    return _wanted_fields_of(digest)(document)


@cache
def _wanted_fields_of(digest: str) -> Callable[[Document], Fields]:
    """The function out of one archive. Another archive has the same module names, so the earlier ones are let go."""
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{digest}.pyz"
        path.write_bytes(_SEEN[digest])
        sys.path.insert(0, str(path))
        try:
            steps = importlib.import_module(f"{PACKAGE}.steps")
        finally:
            sys.path.remove(str(path))
    return cast("Callable[[Document], Fields]", steps.wanted_fields)

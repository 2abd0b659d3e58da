"""The pure part of the host program, imported from the archive that was sent: it computes what a host should answer."""

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
    """Stores an archive and returns its sha256."""
    digest = hashlib.sha256(archive).hexdigest()
    _SEEN[digest] = archive
    return digest


def wanted_fields(digest: str, document: Document) -> Fields:
    """What a conforming host answers, according to the program with this digest."""
    return _wanted_fields_of(digest)(document)


@cache
def _wanted_fields_of(digest: str) -> Callable[[Document], Fields]:
    """The function from one archive. All archives have the same module names, so earlier modules are removed."""
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

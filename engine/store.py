"""The cache of binaries: one folder per part and content, present only when complete."""

import fcntl
import hashlib
import json
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.parts import COMPILER_FLAGS, Part
from engine.places import SOURCES, cache

UPSTREAM = Path(__file__).with_name("upstream.py")
"""Used by all prepare scripts."""

SOURCE_SUFFIXES = {".go", ".mod", ".sum", ".py"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Facts about a cached part, in `entry.json` beside its binaries."""

    origin: str
    """`official`, `built` or `stand-in`."""

    version: str
    seconds: float
    """Time that the download or build took."""


def sources(part: Part) -> list[Path]:
    """All files that a build can depend on: its Go module and the part's own folder in it, without tests."""
    module = SOURCES / part.build.module
    files = (path for path in (*module.iterdir(), *(module / part.name).rglob("*")) if path.suffix in SOURCE_SUFFIXES)
    return sorted(path for path in files if not path.name.endswith("_test.go"))


def content_hash(part: Part) -> str:
    """A hash of everything that determines the bytes of a built part."""
    digest = hashlib.sha256(UPSTREAM.read_bytes() if part.build.prepare else b"")
    for path in sources(part):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(SOURCES)} {len(content)}\n".encode())
        digest.update(content)
    # seconds and disk_mb are estimates: correcting them must not rebuild anything
    recipe = {key: value for key, value in asdict(part.build).items() if key not in {"seconds", "disk_mb"}}
    digest.update(json.dumps([recipe, COMPILER_FLAGS, platform.system(), platform.machine()], sort_keys=True).encode())
    return digest.hexdigest()[:16]


def built_folder(part: Part) -> Path:
    """The folder of the part as built."""
    return cache() / f"{part.name}-{content_hash(part)}"


def official_folder(part: Part) -> Path:
    """The folder of the part as downloaded."""
    adapter = (SOURCES / part.build.module / part.adapter).read_bytes() if part.adapter else b""
    suffix = f"-{hashlib.sha256(adapter).hexdigest()[:8]}" if adapter else ""
    return cache() / f"{part.name}-{part.version}-official{suffix}"


def read(folder: Path) -> Entry | None:
    """The entry, or None if the folder does not exist."""
    try:
        return Entry(**json.loads((folder / "entry.json").read_text()))
    except FileNotFoundError:
        return None


@contextmanager
def making(folder: Path, waits: Callable[[], None]) -> Iterator[Path | None]:
    """Yields an empty folder to fill, or None if another setup has made the entry meanwhile.

    The folder gets its final name only if the block ends without an error. The next setup removes what a killed setup
    left. `waits` is called once if another setup is making the same entry.
    """
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f".{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            yield None
            return
        partial = cache() / f".{folder.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            yield partial
            partial.replace(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def write(folder: Path, entry: Entry) -> None:
    """Writes the entry beside its binaries."""
    (folder / "entry.json").write_text(json.dumps(asdict(entry), indent=1) + "\n")

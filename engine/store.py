"""The cache of binaries: one folder per part and content, complete or not there at all."""

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
"""What prepare scripts have in common."""

SOURCE_SUFFIXES = {".go", ".mod", ".sum", ".py"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is known of a cached part; lies beside its binaries as `entry.json`."""

    origin: str
    """`official`, `built` or `stand-in`."""

    version: str
    seconds: float
    """Time that the download or build took."""


def sources(part: Part) -> list[Path]:
    """What a build can depend on: files of its Go module and of the part's own folder in it, tests left out."""
    module = SOURCES / part.build.module
    files = (path for path in (*module.iterdir(), *(module / part.name).rglob("*")) if path.suffix in SOURCE_SUFFIXES)
    return sorted(path for path in files if not path.name.endswith("_test.go"))


def content_hash(part: Part) -> str:
    """Changes with everything that decides about the bytes of a built part."""
    digest = hashlib.sha256(UPSTREAM.read_bytes() if part.build.prepare else b"")
    for path in sources(part):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(SOURCES)} {len(content)}\n".encode())
        digest.update(content)
    # seconds and disk_mb are estimates: correcting one must not build anything again.
    recipe = {key: value for key, value in asdict(part.build).items() if key not in {"seconds", "disk_mb"}}
    digest.update(json.dumps([recipe, COMPILER_FLAGS, platform.system(), platform.machine()], sort_keys=True).encode())
    return digest.hexdigest()[:16]


def built_folder(part: Part) -> Path:
    """Where the part lies when it was built."""
    return cache() / f"{part.name}-{content_hash(part)}"


def official_folder(part: Part) -> Path:
    """Where the part lies when it was downloaded."""
    adapter = (SOURCES / part.build.module / part.adapter).read_bytes() if part.adapter else b""
    suffix = f"-{hashlib.sha256(adapter).hexdigest()[:8]}" if adapter else ""
    return cache() / f"{part.name}-{part.version}-official{suffix}"


def read(folder: Path) -> Entry | None:
    """The entry, or None when the folder is not there."""
    try:
        return Entry(**json.loads((folder / "entry.json").read_text()))
    except FileNotFoundError:
        return None


@contextmanager
def making(folder: Path, waits: Callable[[], None]) -> Iterator[Path | None]:
    """Gives an empty folder to fill, or None when another setup has made the entry meanwhile.

    The folder gets its final name only when the block ends without an error; what a killed setup left is removed by
    the next one. `waits` is called once if somebody else is making the same entry.
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
    """Notes beside the binaries what they are."""
    (folder / "entry.json").write_text(json.dumps(asdict(entry), indent=1) + "\n")

"""The second route: the official download, used only if its sha256 is the published one."""

import hashlib
import shutil
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, cast
from urllib.parse import urlsplit

from engine.errors import EngineError
from engine.parts import Part, Release
from engine.places import SOURCES
from engine.programs import Programs

CONNECT_TIMEOUT_S = 6.0
CHUNK_BYTES = 1 << 20


class Downloads:
    """Downloads of one run; an unreachable site is tried once."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._refusals: dict[str, str] = {}
        self._asking = threading.Lock()

    def fetch(self, part: Part, target: Path, report: Callable[[str], None]) -> None:
        """Places the part's binaries in the folder `target`.

        Raises:
            EngineError: saying why there is no download.
        """
        for release in part.releases:
            self._fetch(release, release.programs or part.binaries, target, report)
        if part.adapter:
            shutil.copy(SOURCES / part.build.module / part.adapter, target / part.binaries[0])

    def _fetch(self, release: Release, programs: tuple[str, ...], target: Path, report: Callable[[str], None]) -> None:
        expected = release.sha256
        if not expected:
            report("looking for the official download")
            with self._asking:  # one at a time, so that several parts do not wait for the same dead site
                listing = self._read(release.checksums).decode(errors="replace")
            expected = _published_sha256(listing, release.filename)
        download = target / release.filename
        self._save(release.url, download, expected, report)
        if release.filename.endswith(".tar.gz"):
            _unpack(download, programs, target)
            download.unlink()
        else:
            download.chmod(0o755)
            download.rename(target / programs[0])

    def _open(self, url: str) -> IO[bytes]:
        site = urlsplit(url).netloc
        if site in self._refusals:
            raise EngineError(self._refusals[site])
        try:
            # The URL is from the parts table, where all are https (a test checks).
            return cast("IO[bytes]", urllib.request.urlopen(url, timeout=CONNECT_TIMEOUT_S))  # noqa: S310
        except urllib.error.HTTPError as error:
            raise EngineError(f"{url}: HTTP {error.code}") from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            self._refusals[site] = f"{site} cannot be reached ({reason})"
            raise EngineError(self._refusals[site]) from None

    def _read(self, url: str) -> bytes:
        with self._open(url) as response:
            return response.read(CHUNK_BYTES)

    def _save(self, url: str, path: Path, expected: str, report: Callable[[str], None]) -> None:
        digest = hashlib.sha256()
        size = 0
        reported = 0.0
        with self._open(url) as response, path.open("wb") as file:
            while chunk := response.read(CHUNK_BYTES):
                self._programs.raise_if_stopped()
                digest.update(chunk)
                file.write(chunk)
                size += len(chunk)
                if time.monotonic() - reported > 1:
                    reported = time.monotonic()
                    report(f"downloading ({size >> 20} MB)")
        if digest.hexdigest() != expected:
            raise EngineError(f"{url}: sha256 is {digest.hexdigest()}, but {expected} is published; not used")


def _published_sha256(listing: str, filename: str) -> str:
    if len(listing.split()) == 1:  # one file per download
        return listing.strip().lower()
    for line in listing.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].lstrip("*") == filename:
            return words[0].lower()
    raise EngineError(f"the published checksums do not list {filename}")


def _unpack(archive: Path, programs: Iterable[str], target: Path) -> None:
    """Extracts these programs by name, from any folder of the archive; paths of the archive are not used."""
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.rpartition("/")[2]
            content = tar.extractfile(member) if member.isfile() and name in programs else None
            if content is None:
                continue
            with content, (target / name).open("wb") as file:
                shutil.copyfileobj(content, file)
            (target / name).chmod(0o755)
    if missing := [name for name in programs if not (target / name).exists()]:
        raise EngineError(f"{archive.name} does not hold {', '.join(missing)}")

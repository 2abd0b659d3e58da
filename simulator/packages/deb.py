"""Debian packages as reproducible bytes, so that a lab file can contain their checksum."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field

MAINTAINER = "the simulator <nobody@localhost>"
STAND_IN = "Stand-in of the simulator: it plays the vendor's package and contains nothing of it."


@dataclass(frozen=True, kw_only=True)
class File:
    """A file that a package installs."""

    content: bytes
    mode: int = 0o644


@dataclass(frozen=True, kw_only=True)
class Package:
    """One package for amd64."""

    name: str
    version: str
    summary: str
    depends: tuple[str, ...] = ()
    files: Mapping[str, File] = field(default_factory=dict)
    """Files by absolute path."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """Maintainer scripts by name: postinst, prerm."""

    @property
    def file_name(self) -> str:
        """Its name in the pool."""
        return f"{self.name}_{self.version}_amd64.deb"

    @property
    def control(self) -> str:
        """The control paragraph, in the package and in the index."""
        lines = [
            f"Package: {self.name}",
            f"Version: {self.version}",
            "Architecture: amd64",
            f"Maintainer: {MAINTAINER}",
        ]
        lines += [f"Depends: {', '.join(self.depends)}"] if self.depends else []
        return "\n".join([*lines, f"Description: {self.summary}", f" {STAND_IN}"]) + "\n"

    def packed(self) -> bytes:
        """The .deb: an ar archive with the format's version, control files and data files."""
        scripts = {name: File(content=text.encode(), mode=0o755) for name, text in self.scripts.items()}
        control = {"control": File(content=self.control.encode()), **scripts}
        members = {"debian-binary": b"2.0\n", "control.tar.gz": _tar(control), "data.tar.gz": _tar(self.files)}
        return b"!<arch>\n" + b"".join(_ar_member(name, content) for name, content in members.items())

    def index_entry(self, folder: str) -> str:
        """Its paragraph in Packages."""
        content = self.packed()
        return (
            f"{self.control.rstrip()}\nFilename: {folder}/{self.file_name}\nSize: {len(content)}\n"
            f"SHA256: {hashlib.sha256(content).hexdigest()}\n"
        )


def _ar_member(name: str, content: bytes) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
    return header.encode() + content + b"\n" * (len(content) % 2)


def _tar(files: Mapping[str, File]) -> bytes:
    packing = io.BytesIO()
    with tarfile.open(fileobj=packing, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for folder in _folders(files):
            entry = tarfile.TarInfo(f".{folder}")
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for path, file in sorted(files.items()):
            entry = tarfile.TarInfo(f"./{path.lstrip('/')}")
            entry.mode, entry.size = file.mode, len(file.content)
            archive.addfile(entry, io.BytesIO(file.content))
    # level 0 only stores: the output of compressors differs between versions
    return gzip.compress(packing.getvalue(), compresslevel=0, mtime=0)


def _folders(files: Mapping[str, File]) -> list[str]:
    found = {""}
    for path in files:
        parts = path.strip("/").split("/")[:-1]
        found |= {"/" + "/".join(parts[: i + 1]) for i in range(len(parts))}
    return sorted(found)

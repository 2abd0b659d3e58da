"""The few files of an image that say whose verbs libraries it has: from a folder, a tar, or an OCI layout.

Nothing is unpacked and nothing is run, so any machine can look at any image.
"""

import json
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from stacks.base import LabError

CONTENT = re.compile(
    r"^(etc/os-release|usr/lib/os-release|var/lib/dpkg/status|var/lib/dpkg/status\.d/[^/]+"
    r"|usr/lib/[^/]+/libibverbs\.so\.1\.[0-9.]+|lib/[^/]+/libibverbs\.so\.1\.[0-9.]+)$"
)
"""Files whose content is read."""
NAMES = re.compile(
    r"^(etc/libibverbs\.d/.+\.driver|(usr/)?lib/[^/]+/libibverbs/.+\.so|opt/mellanox/DEBS/.+"
    r"|etc/apt/sources\.list\.d/.+)$"
)
"""Files of which it matters that they are there."""
LARGEST_FILE_BYTES = 20_000_000
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"


@dataclass
class ImageFiles:
    """What was found, by path without a leading slash."""

    content: dict[str, bytes] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def add(self, path: str, content: bytes | None) -> None:
        """Takes a file that is there."""
        if content is not None:
            self.content[path] = content
        self.names.add(path)

    def remove(self, path: str) -> None:
        """Takes a file, or a folder with all that is in it, away again."""
        for known in [known for known in self.names if known == path or known.startswith(path + "/")]:
            self.names.discard(known)
            self.content.pop(known, None)


def read_image(place: Path) -> ImageFiles:
    """The files of an unpacked root, of its tar (`docker export`), or of an OCI layout (`skopeo copy … oci:folder`).

    Raises:
        LabError: when it is none of them.
    """
    if (place / "oci-layout").is_file():
        return _of_layers(_oci_layers(place))
    if (place / "etc").is_dir():
        return _of_folder(place)
    if place.is_file() and tarfile.is_tarfile(place):
        found = ImageFiles()
        with tarfile.open(place) as tar:
            _take(found, tar)
        if found.content:
            return found
        raise LabError(f"{place} is a tar without a root: take `docker export` of a container, or an OCI layout")
    raise LabError(
        f"{place} is no image: give the folder of an unpacked root, its tar (docker export), or an OCI layout "
        "(skopeo copy docker://… oci:FOLDER)"
    )


def _of_folder(root: Path) -> ImageFiles:
    """Links are not followed out of the root, which may be anybody's."""
    found = ImageFiles()
    for folder in ("etc", "usr/lib", "lib", "var/lib/dpkg", "opt/mellanox"):
        if (root / folder).is_symlink():
            continue
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if CONTENT.match(name) and path.is_file() and not path.is_symlink():
                found.add(name, path.read_bytes()[:LARGEST_FILE_BYTES])
            elif NAMES.match(name):
                found.add(name, None)
    return found


def _of_layers(layers: Iterable[Path]) -> ImageFiles:
    found = ImageFiles()
    for layer in layers:
        try:
            with tarfile.open(layer) as tar:
                _take(found, tar)
        except tarfile.ReadError:
            raise LabError(
                f"layer {layer.name[:12]} is no tar that Python reads (zstd?): copy it with --dest-compress-format gzip"
            ) from None
    return found


def _take(found: ImageFiles, tar: tarfile.TarFile) -> None:
    """One layer over those before it, with its own notes on what is gone."""
    for member in tar:
        path = PurePosixPath(member.name)
        name = path.as_posix().removeprefix("./").lstrip("/")
        if path.name == OPAQUE:
            found.remove(PurePosixPath(name).parent.as_posix())
        elif path.name.startswith(WHITEOUT):
            found.remove((PurePosixPath(name).parent / path.name.removeprefix(WHITEOUT)).as_posix())
        elif CONTENT.match(name) and member.isfile() and member.size <= LARGEST_FILE_BYTES:
            file = tar.extractfile(member)
            found.add(name, file.read() if file else None)
        elif NAMES.match(name) and not member.isdir():
            found.add(name, None)


def _oci_layers(layout: Path) -> Iterator[Path]:
    """The layers of the layout's one image for amd64, the lowest first."""
    manifest = json.loads((layout / "index.json").read_text())
    while "layers" not in manifest:
        fitting = [
            one
            for one in manifest.get("manifests", [])
            if one.get("platform", {}).get("architecture", "amd64") == "amd64"
        ]
        if len(fitting) != 1:
            raise LabError(f"{layout} holds {len(fitting)} images for amd64: copy one alone into a folder of its own")
        manifest = json.loads(_blob(layout, fitting[0]["digest"]).read_text())
    for layer in manifest["layers"]:
        yield _blob(layout, layer["digest"])


def _blob(layout: Path, digest: str) -> Path:
    found = re.fullmatch(r"sha256:([0-9a-f]{64})", digest)
    path = layout / "blobs" / "sha256" / (found[1] if found else "")
    if found is None or not path.is_file():
        raise LabError(f"{layout} lacks the blob {digest}: copy the image again")
    return path

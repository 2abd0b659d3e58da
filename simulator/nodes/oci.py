"""Writes container images from files as an OCI archive that containerd imports, without a container engine."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/"


@dataclass(frozen=True, slots=True)
class Text:
    """A file written here."""

    content: str
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    target: str


File = Path | Text | Link
"""A program, a whole folder, or what is written here."""
Layer = Mapping[str, File] | Path
"""Files by their path in the image, where `.` is its root; or a finished tar archive."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """The content of an image, layer by layer."""

    layers: Sequence[Layer]
    entrypoint: Sequence[str] = ()
    environment: Sequence[str] = ()
    """`NAME=value`, besides PATH."""


@dataclass
class _Archive:
    tar: tarfile.TarFile
    written: set[str] = field(default_factory=set)
    layers: dict[str, bytes] = field(default_factory=dict)

    def file(self, name: str, content: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        self.tar.addfile(info, io.BytesIO(content))

    def blob(self, content: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self.written:
            self.written.add(digest)
            self.file(f"blobs/sha256/{digest}", content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def layer(self, layer: Layer) -> bytes:
        key = repr(layer)
        if key not in self.layers:
            self.layers[key] = layer.read_bytes() if isinstance(layer, Path) else _layer(layer)
        return self.layers[key]

    def image(self, image: Image) -> dict[str, Any]:
        layers = [self.layer(layer) for layer in image.layers]
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Env": [f"PATH={PATH}", *image.environment],
                **({"Entrypoint": list(image.entrypoint)} if image.entrypoint else {}),
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in layers],
            },
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.blob(json.dumps(config).encode(), CONFIG),
            "layers": [self.blob(content, LAYER) for content in layers],
        }
        return self.blob(json.dumps(manifest).encode(), MANIFEST)


def write_archive(file: Path, images: Mapping[str, Image]) -> None:
    """Writes all images to one archive, with common layers stored once."""
    with tarfile.open(file, "w") as tar:
        archive = _Archive(tar)
        manifests = [
            {**archive.image(image), "annotations": {"io.containerd.image.name": name}}
            for name, image in images.items()
        ]
        archive.file("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
        archive.file("index.json", json.dumps(index).encode())


def _layer(files: Mapping[str, File]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, source in files.items():
            if isinstance(source, Path):
                tar.add(source, name, filter=of_root)
                continue
            info = tarfile.TarInfo(name)
            if isinstance(source, Link):
                info.type, info.linkname = tarfile.SYMTYPE, source.target
                tar.addfile(info)
            else:
                text = source.content.encode()
                info.size, info.mode = len(text), 0o755 if source.executable else 0o644
                tar.addfile(info, io.BytesIO(text))
    return content.getvalue()


def of_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same file, owned by root in the archive."""
    info.uid = info.gid = 0
    return info

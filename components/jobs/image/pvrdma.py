"""Whether an image supports PVRDMA, and the Dockerfile that repairs it (as the Bitfusion article
does with NGC images).

Codename and package names come from the image itself. Nothing is unpacked or run, so any machine
can check any image.
"""

import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ValidationError

from components.jobs.image.pvrdma_inside import PROVIDER, VENDOR, VENDOR_FOLDER, at_build
from components.jobs.image.recipe import render_dockerfile
from stacks.base import LabError
from stacks.files import opened_tar
from stacks.frozen import frozen
from stacks.guests import BitfusionClient

CONTENT = re.compile(
    r"^(etc/os-release|usr/lib/os-release|var/lib/dpkg/status|var/lib/dpkg/status\.d/[^/]+"
    r"|usr/lib/[^/]+/libibverbs\.so\.1\.[0-9.]+|lib/[^/]+/libibverbs\.so\.1\.[0-9.]+)$"
)
"""Files whose content is read."""
NAMES = re.compile(
    r"^(etc/libibverbs\.d/.+\.driver|(usr/)?lib/[^/]+/libibverbs/.+\.so|opt/mellanox/DEBS/.+"
    r"|etc/apt/sources\.list\.d/.+)$"
)
"""Files whose existence matters."""
LARGEST_FILE_BYTES = 20_000_000
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"


@dataclass
class ImageFiles:
    """What was found, by path without a leading slash."""

    content: dict[str, bytes] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def add(self, path: str, content: bytes | None) -> None:
        if content is not None:
            self.content[path] = content
        self.names.add(path)

    def remove(self, path: str) -> None:
        """Removes a file, or a folder with its content."""
        for known in [
            known for known in self.names if known == path or known.startswith(path + "/")
        ]:
            self.names.discard(known)
            self.content.pop(known, None)


class OciPlatform(BaseModel):
    architecture: str = "amd64"


class OciEntry(BaseModel):
    """A layer, or an image of an index."""

    digest: str
    platform: OciPlatform = OciPlatform()


class OciManifest(BaseModel):
    """An index, which has no layers, or a manifest."""

    manifests: tuple[OciEntry, ...] = ()
    layers: tuple[OciEntry, ...] | None = None


def read_image(place: Path) -> ImageFiles:
    """The files of an unpacked root, of its tar (`docker export`), or of an OCI layout (`skopeo
    copy … oci:folder`).

    Raises:
        LabError: when it is none of these.
    """
    if (place / "oci-layout").is_file():
        return _of_layers(_oci_layers(place))
    if (place / "etc").is_dir():
        return _of_folder(place)
    refusal = (
        f"{place} is not an image; name the folder of an unpacked root, its tar (docker export), "
        "or an OCI layout "
        "(skopeo copy docker://… oci:FOLDER)"
    )
    if not place.is_file():
        raise LabError(refusal)
    files = ImageFiles()
    with opened_tar(place, refusal) as tar:
        _take(files, tar)
    if files.content:
        return files
    raise LabError(
        f"{place} is a tar without a root file system; use `docker export` of a container, or an "
        "OCI layout"
    )


def _of_folder(root: Path) -> ImageFiles:
    """Does not follow links out of the root, which is untrusted."""
    files = ImageFiles()
    for folder in ("etc", "usr/lib", "lib", "var/lib/dpkg", "opt/mellanox"):
        if (root / folder).is_symlink():
            continue
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if CONTENT.match(name) and path.is_file() and not path.is_symlink():
                files.add(name, path.read_bytes()[:LARGEST_FILE_BYTES])
            elif NAMES.match(name):
                files.add(name, None)
    return files


def _of_layers(layers: Iterable[Path]) -> ImageFiles:
    files = ImageFiles()
    for layer in layers:
        refusal = (
            f"layer {layer.name[:12]} is not a tar that Python reads (zstd?); copy it with "
            "--dest-compress-format gzip"
        )
        with opened_tar(layer, refusal) as tar:
            _take(files, tar)
    return files


def _take(files: ImageFiles, tar: tarfile.TarFile) -> None:
    """Applies one layer with its whiteouts over the layers below."""
    for member in tar:
        path = PurePosixPath(member.name)
        name = path.as_posix().removeprefix("./").lstrip("/")
        if path.name == OPAQUE:
            files.remove(PurePosixPath(name).parent.as_posix())
        elif path.name.startswith(WHITEOUT):
            files.remove((PurePosixPath(name).parent / path.name.removeprefix(WHITEOUT)).as_posix())
        elif CONTENT.match(name) and member.isfile() and member.size <= LARGEST_FILE_BYTES:
            file = tar.extractfile(member)
            content = file.read() if file else None
            files.add(name, content)
        elif NAMES.match(name) and not member.isdir():
            files.add(name, None)


def _oci_layers(layout: Path) -> Iterator[Path]:
    """The layers of the layout's one image for amd64, the lowest first."""
    manifest = _manifest(layout / "index.json")
    while manifest.layers is None:
        images = manifest.manifests
        fitting = []
        for image in images:
            if image.platform.architecture == "amd64":
                fitting.append(image)
        if len(fitting) != 1:
            raise LabError(
                f"{layout} holds {len(fitting)} images for amd64; copy one of them into its own "
                "folder"
            )
        manifest = _manifest(_blob(layout, fitting[0].digest))
    for layer in manifest.layers:
        yield _blob(layout, layer.digest)


def _manifest(file: Path) -> OciManifest:
    try:
        return OciManifest.model_validate_json(file.read_bytes())
    except OSError as error:
        raise LabError(f"{file} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise LabError(
            f"{file} is not an OCI manifest or index ({where or 'JSON'}); copy the image again"
        ) from None


def _blob(layout: Path, digest: str) -> Path:
    match = re.fullmatch(r"sha256:([0-9a-f]{64})", digest)
    path = layout / "blobs" / "sha256" / (match[1] if match else "")
    if match is None or not path.is_file():
        raise LabError(f"{layout} lacks the blob {digest}; copy the image again")
    return path


VERBS = re.compile(
    r"^(ibverbs-providers|ibverbs-utils|libibverbs[a-z0-9-]*|librdmacm[a-z0-9-]*|rdma-core"
    r"|rdmacm-utils|perftest|infiniband-diags|libibumad[a-z0-9-]*|libibmad[a-z0-9-]*)$"
)
"""Packages of RDMA's user space, by the names that vendor and distributions share."""
VENDOR_MAINTAINERS = ("mellanox", "nvidia")
INSTALLED = (
    "rdma-core",
    "libibverbs1",
    "ibverbs-providers",
    "ibverbs-utils",
    "infiniband-diags",
    "perftest",
)
"""The Bitfusion article's list without libcapstone3, which apt installs where a release needs
it."""


@frozen
class ImageVerbs:
    """The RDMA user space of an image."""

    distribution: str
    codename: str
    packages: dict[str, str]
    vendor: tuple[str, ...]
    reasons: tuple[str, ...]
    """Why it does not support PVRDMA; empty when it does."""
    brings_vendor_packages: bool
    """Whether NGC's entrypoint could install the vendor's packages again."""
    sources: tuple[str, ...]


def judge(files: ImageFiles) -> ImageVerbs:
    """Checks an image.

    Raises:
        LabError: when it is not Debian or Ubuntu, so that its packages are unknown.
    """
    system = _os_release(files)
    name = system.get("ID", "")
    if name not in ("debian", "ubuntu"):
        raise LabError(
            f"the image is {name or 'of an unknown distribution'}; only Debian and Ubuntu images "
            "can be checked"
        )
    packages = _packages(files)
    vendor = tuple(
        sorted(package for package, (version, by) in packages.items() if _is_vendors(version, by))
    )
    of_vendor = re.compile(r"sources\.list\.d/.*(mlnx|mellanox|doca)")
    sources = tuple(sorted(filter(of_vendor.search, files.names)))
    return ImageVerbs(
        distribution=name,
        codename=system.get("VERSION_CODENAME") or system.get("UBUNTU_CODENAME", ""),
        packages={package: version for package, (version, _) in sorted(packages.items())},
        vendor=vendor,
        reasons=tuple(_reasons(files, packages, vendor)),
        brings_vendor_packages=any(
            path.startswith(VENDOR_FOLDER.lstrip("/")) for path in files.names
        ),
        sources=sources,
    )


def _reasons(
    files: ImageFiles, packages: dict[str, tuple[str, str]], vendor: tuple[str, ...]
) -> list[str]:
    reasons = []
    if "libibverbs1" not in packages:
        return ["libibverbs1 is not installed, so no program can use RDMA"]
    if vendor:
        listed = ", ".join(f"{name} {packages[name][0]}" for name in vendor)
        reasons.append(
            f"the vendor's builds are installed, which do not support {PROVIDER}: {listed}"
        )
    abi = _abi(files)
    providers = set()
    for path in files.names:
        if "/libibverbs/" in path:
            providers.add(path.rpartition("/")[2])
    of_pvrdma = [name for name in providers if name.startswith(f"lib{PROVIDER}-rdmav")]
    if f"etc/libibverbs.d/{PROVIDER}.driver" not in files.names or not of_pvrdma:
        reasons.append(
            f"ibverbs-providers has no {PROVIDER}: its .driver file or its library is missing"
        )
    elif abi and f"lib{PROVIDER}-rdmav{abi}.so" not in of_pvrdma:
        reasons.append(
            f"libibverbs loads providers of rdmav{abi}, but the image has {' '.join(of_pvrdma)}"
        )
    return reasons


def _abi(files: ImageFiles) -> str:
    """The version in the names of libibverbs' providers, a string in the library itself."""
    for path, content in files.content.items():
        provider = re.search(rb"lib%s-rdmav(\d+)\.so", content)
        if "libibverbs.so" in path and provider:
            return provider[1].decode()
    return ""


def _os_release(files: ImageFiles) -> dict[str, str]:
    text = files.content.get("etc/os-release") or files.content.get("usr/lib/os-release") or b""
    return dict(
        re.findall(r"^(\w+)=[\"']?(.*?)[\"']?$", text.decode(errors="replace"), re.MULTILINE)
    )


def _packages(files: ImageFiles) -> dict[str, tuple[str, str]]:
    """Version and maintainer of each installed package of the verbs."""
    packages = {}
    for path, content in sorted(files.content.items()):
        if not path.startswith("var/lib/dpkg/status"):
            continue
        for stanza in content.decode(errors="replace").split("\n\n"):
            fields = dict(
                re.findall(r"^(Package|Status|Version|Maintainer): (.*)$", stanza, re.MULTILINE)
            )
            # distroless images have no Status, and nothing half installed
            there = fields.get("Status", "install ok installed").endswith(" installed")
            if there and VERBS.match(fields.get("Package", "")):
                packages[fields["Package"]] = (
                    fields.get("Version", ""),
                    fields.get("Maintainer", ""),
                )
    return packages


def _is_vendors(version: str, maintainer: str) -> bool:
    return bool(re.search(VENDOR, version, re.IGNORECASE)) or any(
        name in maintainer.lower() for name in VENDOR_MAINTAINERS
    )


def repair_dockerfile(base: str, verbs: ImageVerbs) -> str:
    """Replaces the vendor's builds, as the image names them, by those of the distribution.

    Raises:
        LabError: when the image does not name its release.
    """
    return _rendered("repair", base, verbs)


def client_dockerfile(base: str, verbs: ImageVerbs, client: BitfusionClient) -> str:
    """The repair, then the Bitfusion article's TensorRT samples and its client."""
    file = client.package.url.rpartition("/")[2]
    workdir = client.sample.rpartition("/")[0]
    return _rendered("bitfusion", base, verbs, client=client, file=file, workdir=workdir)


def _rendered(template: str, base: str, verbs: ImageVerbs, **values: object) -> str:
    if not verbs.codename:
        raise LabError(
            "the image's os-release has no VERSION_CODENAME, so its release's packages cannot be "
            "named"
        )
    return render_dockerfile(
        template,
        base=base,
        verbs=verbs,
        packages=INSTALLED,
        pvrdma_checks=at_build(),
        **values,
    )

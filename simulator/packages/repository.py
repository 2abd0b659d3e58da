"""A Debian repository as a folder: pool, indices, Release, and a signature if gpg is installed."""

import hashlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from simulator.nodes.cache import run
from simulator.packages.catalogue import OFED_VERSION, URL, packages, repository_package

POOL = "pool"
INDEX = "main/binary-amd64/Packages"
REPOSITORY_PACKAGE = "doca-host.deb"
SNIPPET = "driver.yaml"
"""File with the section of a stack file for this driver, with its checksum."""


def make_repository(folder: Path, kernel: str) -> None:
    """Fills an empty folder with everything that apt on a node reads."""
    (folder / POOL).mkdir()
    entries = []
    for package in packages(kernel):
        (folder / POOL / package.file_name).write_bytes(package.packed())
        entries.append(package.index_entry(POOL))
    suite = folder / "dists" / "stable"
    (suite / INDEX).parent.mkdir(parents=True)
    (suite / INDEX).write_text("\n".join(entries))
    (suite / "Release").write_text(release({INDEX: (suite / INDEX).read_bytes()}))
    content = repository_package(sign(suite)).packed()
    (folder / REPOSITORY_PACKAGE).write_bytes(content)
    (folder / SNIPPET).write_text(snippet(hashlib.sha256(content).hexdigest()))


def release(indices: Mapping[str, bytes]) -> str:
    """The file with the checksums of the indices."""
    lines = ["Origin: simulator", "Label: simulated", "Suite: stable", "Codename: stable", "Architectures: amd64"]
    lines += ["Components: main", f"Date: {time.strftime('%a, %d %b %Y %H:%M:%S UTC', time.gmtime())}", "SHA256:"]
    lines += [f" {hashlib.sha256(text).hexdigest()} {len(text)} {name}" for name, text in indices.items()]
    return "\n".join(lines) + "\n"


def sign(suite: Path) -> bytes | None:
    """Writes InRelease, signed with a throwaway key; returns the public key, or None without gpg."""
    if not (shutil.which("gpg") and shutil.which("gpgconf")):
        return None
    home = Path(tempfile.mkdtemp(prefix="rocelab-gpg-"))  # short, because it contains the agent's socket
    gpg = ("gpg", "--homedir", str(home), "--batch", "--quiet", "--no-tty")
    try:
        name = "the simulator's packages"
        run(*gpg, "--passphrase", "", "--quick-generate-key", name, "ed25519", "sign", "never")
        inputs = ("--output", str(suite / "InRelease"), "--clearsign", str(suite / "Release"))
        run(*gpg, *inputs)
        return subprocess.run([*gpg, "--export", name], stdout=subprocess.PIPE, check=True).stdout
    finally:
        run("gpgconf", "--homedir", str(home), "--kill", "all")
        shutil.rmtree(home, ignore_errors=True)


def snippet(sha256: str) -> str:
    """A section for a stack file."""
    return (
        "# For the lab of a stack file: the driver from the simulator's repository (a stand-in of the vendor's).\n"
        "driver:\n"
        "  source: doca_ofed\n"
        f"  version: {OFED_VERSION}\n"
        "  download:\n"
        f"    url: {URL}/{REPOSITORY_PACKAGE}\n"
        f"    sha256: {sha256}\n"
    )


def kernel_release(image: Path) -> str:
    """The release in the header of a Linux boot image (Linux: Documentation/arch/x86/boot.rst)."""
    with image.open("rb") as file:
        head = file.read(1 << 16)
    at = int.from_bytes(head[0x20E:0x210], "little") + 0x200
    return head[at : head.index(b"\0", at)].decode().split()[0]

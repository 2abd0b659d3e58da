"""Debian packages, unpacked into the cache instead of installed, from the mirrors of this machine's apt."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from simulator.nodes.cache import made_once, need_programs, need_space, run
from simulator.part import Report, SimulatorError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PACKAGE_BYTES = 400 << 20
"""Space for unpacking QEMU and its dependencies, with room to spare (measured: 150 MiB)."""


def sources(*suites: str) -> list[str]:
    """Source lines for `suites` on the mirrors that this machine's apt uses.

    Raises:
        SimulatorError: if apt has no source for Debian 12.
    """
    need_programs({"apt-get": "apt", "dpkg-deb": "dpkg"}, "building the nodes' image")
    listed = run("apt-get", "-o", "Dir::State::Lists=/nonexistent", "update", "--print-uris")
    mirrors = {suite: uri for uri, suite in re.findall(r"^'(\S+)/dists/(\S+)/InRelease'", listed, re.MULTILINE)}
    if "bookworm" not in mirrors:
        raise SimulatorError(
            "apt on this machine has no source for Debian 12 (bookworm), which the nodes' image is built from.\n"
            "  Add one under /etc/apt/sources.list.d/ and run the command again. Nothing from it will be installed."
        )
    for suite in ("bookworm-backports", "trixie", "trixie-updates", "trixie-backports"):
        mirrors.setdefault(suite, mirrors["bookworm"])
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    return [f"deb {signed}{mirrors[suite]} {suite} main" for suite in suites if suite in mirrors]


def unpacked(packages: tuple[str, ...], report: Report) -> Path:
    """A folder with `packages` from the backports, unpacked with the dependencies that this machine lacks."""

    def download(folder: Path) -> None:
        need_space(folder, PACKAGE_BYTES, " and ".join(packages))
        # `package/release` would not apply to dependencies
        apt = _private_apt(
            folder, "bookworm", "bookworm-backports", options=["APT::Default-Release=bookworm-backports"]
        )
        run(*apt, "install", "--yes", "--download-only", *packages)
        _unpack(folder)

    return made_once("tools", " ".join(packages), download, report)


def fetched(packages: tuple[str, ...], report: Report) -> Path:
    """A folder with `packages` of Debian 12 unpacked, even if this machine has them installed."""

    def download(folder: Path) -> None:
        apt = _private_apt(folder, "bookworm", "bookworm-updates", "bookworm-security")
        run(*apt, "install", "--yes", "--download-only", "--reinstall", *packages)
        _unpack(folder)

    return made_once("packages", " ".join(packages), download, report)


def downloaded(packages: Sequence[str], status: str, report: Report) -> Path:
    """A folder with the .deb files of `packages` and of what they need beyond dpkg's `status` of another machine."""

    def download(folder: Path) -> None:
        apt = _private_apt(folder, "bookworm", "bookworm-updates", "bookworm-security")
        other = folder / "apt" / "status"
        other.write_text(status)
        run(*apt, f"-oDir::State::Status={other}", "install", "--yes", "--download-only", *packages)
        for package in (folder / "apt" / "archives").glob("*.deb"):
            package.rename(folder / package.name)
        shutil.rmtree(folder / "apt")

    return made_once("debs", "\0".join([*packages, status]), download, report)


def _private_apt(folder: Path, *suites: str, options: Sequence[str] = ()) -> list[str]:
    """An apt with its own state in `folder`: does not touch the machine's apt and needs no root."""
    apt = folder / "apt"
    for name in ("lists", "archives"):
        (apt / name / "partial").mkdir(parents=True)
    (apt / "sources.list").write_text("\n".join(sources(*suites)) + "\n")
    settings = [
        f"Dir::Etc::SourceList={apt}/sources.list",
        "Dir::Etc::SourceParts=-",
        f"Dir::State={apt}",
        f"Dir::Cache={apt}",
        "Dir::State::Status=/var/lib/dpkg/status",
        "APT::Sandbox::User=",
        "APT::Install-Recommends=false",
        "APT::Keep-Downloaded-Packages=true",
        # apt locks dpkg even for downloads
        "Debug::NoLocking=true",
        *options,
    ]
    command = ["apt-get", "-qq", *(f"-o{setting}" for setting in settings)]
    run(*command, "update")
    return command


def _unpack(folder: Path) -> None:
    for package in sorted((folder / "apt" / "archives").glob("*.deb")):
        run("dpkg-deb", "-x", str(package), str(folder))
    shutil.rmtree(folder / "apt")


def library_path(root: Path) -> str:
    """LD_LIBRARY_PATH for programs of an unpacked folder."""
    return f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu"

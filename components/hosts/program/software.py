"""Vendor software: download with a checksum, repositories, and the removal of an older version
where it is allowed.
"""

import hashlib
import os
import re
from typing import Any, Dict, List, Optional, Sequence

from .containers import refuse_package_scripts_under_containers
from .distribution import APT, DNF, INSTALL_S, LOCK_S, family, install, installed_versions
from .machine import Machine, StepError

CACHE = "/var/cache/rocelab"
CHUNK_BYTES = 1 << 20
SILENCE_S = 60
REMOVE_S = 600
FIRMWARE_UPDATERS = ("mlnx-fw-updater",)
"""Packages that write firmware while they are installed."""


def fetch(machine: Machine, download: Dict[str, Any]) -> str:
    """Downloads a vendor file, unless it is there already, and refuses another checksum.

    Returns its path.
    """
    # it takes as long as all the rest to start, and most runs fetch nothing
    import urllib.request  # noqa: PLC0415

    url, sha256 = str(download["url"]), str(download["sha256"])
    place = f"{CACHE}/{sha256[:12]}-{os.path.basename(url)}"
    if machine.exists(place) and _digest(machine, place) == sha256:
        return place
    target = machine.path(place)
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    digest = hashlib.sha256()
    try:
        # the lab file takes https, http and file only
        answer = urllib.request.urlopen(url, timeout=SILENCE_S)  # noqa: S310
        with answer, open(target + ".part", "wb") as file:
            for chunk in iter(lambda: answer.read(CHUNK_BYTES), b""):
                digest.update(chunk)
                file.write(chunk)
    except (OSError, ValueError) as error:
        machine.remove(place + ".part")
        raise StepError(
            f"{url} cannot be fetched: {error}", "check that this host reaches it, or use a mirror"
        ) from None
    if digest.hexdigest() != sha256:
        machine.remove(place + ".part")
        raise StepError(
            f"{url} has sha256 {digest.hexdigest()}, but the lab file sets {sha256}",
            "the file was not used; check the vendor's checksum",
        )
    os.replace(target + ".part", target)
    return place


def install_file(machine: Machine, download: Dict[str, Any], keep: bool = False) -> None:
    """Downloads and installs a package, such as one that adds a vendor's repository.

    Args:
        machine: the host.
        download: the package and its checksum.
        keep: whether the package's file stays in the cache for a second installation.
    """
    place = fetch(machine, download)
    # apt and dnf take a path as a file, and unlike dpkg and rpm they wait for another installation
    words = (
        [*APT, "--no-remove", "install", "--"] if family(machine) == "debian" else [*DNF, "install"]
    )
    machine.must(*words, machine.path(place), timeout_s=LOCK_S + INSTALL_S)
    if not keep:
        machine.remove(place)


def refuse_firmware_updates(machine: Machine, names: Sequence[str]) -> None:
    """Refuses packages that would also update firmware."""
    coming = planned(machine, names)
    updaters = sorted({*FIRMWARE_UPDATERS} & {*coming, *names})
    if updaters:
        raise StepError(
            f"{' and '.join(names)} would install {', '.join(updaters)}, which writes firmware",
            "nothing was changed; rocelab never updates firmware, so choose packages without it",
        )


def planned(machine: Machine, names: Sequence[str]) -> List[str]:
    """All packages that would be installed with these; none when planning fails, which the
    installation reports.
    """
    if family(machine) == "debian":
        machine.run(*APT, "update", timeout_s=LOCK_S)
        printed = machine.run(*APT, "--simulate", "install", "--", *names, timeout_s=120).out
        return re.findall(r"^Inst (\S+)", printed, re.MULTILINE)
    # dnf's answer to --assumeno is an exit code of 1 and the table of what it would do
    printed = machine.run("dnf", "-q", "--assumeno", "install", *names, timeout_s=LOCK_S).out
    # a name that is too long for its column has its own line
    return re.findall(r"^ (\S+)(?: |$)", printed, re.MULTILINE)


def installed_packages(machine: Machine, pattern: str) -> List[str]:
    """Installed packages whose name matches, sorted."""
    return sorted(name for name in installed_versions(machine) if re.match(pattern, name))


def remove(machine: Machine, names: Sequence[str]) -> None:
    """Removes these packages and no other."""
    if not names:
        return
    if family(machine) == "rhel":
        machine.must(
            "rpm", "-e", *names, timeout_s=REMOVE_S
        )  # unlike dnf it removes nothing that depends on them
        return
    apt = [*APT, "-o", "APT::Get::AutomaticRemove=false"]
    planned = machine.must(*apt, "--simulate", "purge", "--", *names, timeout_s=120)
    others = sorted(set(re.findall(r"^(?:Purg|Remv) (\S+)", planned, re.MULTILINE)) - set(names))
    if others:
        raise StepError(
            f"removing {', '.join(names)} would also remove {', '.join(others)}",
            "nothing was removed; remove them yourself if you agree, then run again",
        )
    machine.must(*apt, "purge", "--", *names, timeout_s=LOCK_S + REMOVE_S)


def install_packaged(
    machine: Machine, declared: Dict[str, Any], installed: str, what: str, setting: str
) -> None:
    """Installs the packages of a section, and its repository before them.

    Args:
        machine: the host.
        declared: the section of the document; its source is packaged.
        installed: the installed version; empty when there is none.
        what: the software, for people.
        setting: the section's path in the lab file.
    """
    if installed and not declared["replace"]:
        raise StepError(
            f"{what} {installed} is installed, but the lab file sets {declared['version']}",
            f"set {setting}.replace: true to let the packages {', '.join(declared['packages'])} "
            "replace it, or remove the version from the lab file",
        )
    refuse_package_scripts_under_containers(machine, what)
    if declared["repository"]:
        install_file(machine, declared["repository"])
    install(machine, declared["packages"])


def version_field(installed: str, target: Optional[str], any_version: str = "installed") -> str:
    """An installed version as the lab file writes it, so that equal versions compare equal.

    Args:
        installed: the installed version; empty when there is none.
        target: the version in the lab file; None: any.
        any_version: the field's value when any version conforms.
    """
    if not installed:
        return "not installed"
    if not target:
        return any_version
    return target if same_version(installed, target) else installed


def same_version(installed: str, target: str) -> bool:
    """Whether two versions are the same: tools print 25.07-0.9.7 where packages have
    25.07-0.9.7.0.
    """
    return (
        installed == target
        or installed.startswith(target + ".")
        or (bool(installed) and target.startswith(installed + "."))
    )


def _digest(machine: Machine, place: str) -> str:
    digest = hashlib.sha256()
    with open(machine.path(place), "rb") as file:
        for chunk in iter(lambda: file.read(CHUNK_BYTES), b""):
            digest.update(chunk)
    return digest.hexdigest()

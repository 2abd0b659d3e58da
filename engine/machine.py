"""Checks what this machine offers: tools, disk, memory, KVM. Installs nothing."""

import fcntl
import os
import re
import shutil
from pathlib import Path

from engine import gobuild, nodes_image
from engine.findings import Finding, said_by
from engine.parts import Part
from engine.places import ROOT, cache, is_supported, system

OLDEST_QEMU = 8
"""The first major version whose igb device has SR-IOV."""

KVM = Path("/dev/kvm")
KVM_CREATE_VM = 0xAE01  # _IO(KVMIO, 1) of linux/kvm.h

ROOM_FOR_NODES_MB = 3000
"""For building the nodes' image, and for the disks of a few nodes."""

MEMINFO = Path("/proc/meminfo")
MEMORY_OF_A_LAB_MB = 2500
"""Two nodes of 450 MB at most, the control plane, and `pulumi up` with its plugins."""


def look(to_build: list[Part], *, simulated: bool = True) -> list[Finding]:
    """All findings, in the order of the table; only the simulator needs QEMU, an image of its nodes and memory.

    Args:
        to_build: the parts that only a build can provide.
        simulated: whether the stack runs on the simulator.
    """
    if not simulated:
        return [_system(), _go(to_build), _ssh(), _disk(to_build)]
    return [_system(), _go(to_build), _qemu(), _kvm(), *nodes_image.findings(), _ssh(), _memory(), _disk(to_build)]


def _system() -> Finding:
    if is_supported():
        return Finding("system", system(), "this machine")
    works = "you can still use the models, the unit tests, and previews of hardware labs with an installed pulumi"
    return Finding("system", system(), "this machine", "not Linux x86_64", "make up, make test", works)


def _go(to_build: list[Part]) -> Finding:
    done = said_by("go", "env", "GOVERSION")
    version = done.removeprefix("go") or "-"
    if not to_build:
        return Finding("go", version, "path" if done else "not needed")
    lack = gobuild.what_go_lacks()
    names = ", ".join(part.name for part in to_build)
    return Finding("go", version, "path" if done else "-", lack, f"make setup (builds {names})", "install Go")


def _qemu() -> Finding:
    name = "qemu-system-x86_64"
    found = re.search(r"version (\d+)(\S*)", said_by(name, "--version"))
    if found and int(found[1]) >= OLDEST_QEMU and shutil.which("qemu-img"):
        return Finding("qemu", found[1] + found[2], "path")
    seen = f"{found[1]}{found[2]} is older than {OLDEST_QEMU}" if found else "none on PATH"
    if shutil.which("apt-get") and shutil.which("dpkg-deb"):
        return Finding("qemu", "-", f"{seen}: make up unpacks Debian's backport into the cache")
    return Finding("qemu", "-", "-", seen, "make up", f"install {name} {OLDEST_QEMU} or newer, with qemu-img")


def _kvm() -> Finding:
    """Creates a virtual machine, which needs no guest; `make up` also boots a kernel in one."""
    try:
        device = os.open(KVM, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return Finding("kvm", "no", f"{KVM}: {error.strerror}; nodes are emulated, several times slower")
    try:
        os.close(fcntl.ioctl(device, KVM_CREATE_VM, 0))
    except OSError as error:
        return Finding("kvm", "no", f"creates no machine: {error.strerror}; nodes are emulated, several times slower")
    finally:
        os.close(device)
    return Finding("kvm", "yes", "creates a machine; make up also checks that a kernel runs in it")


def _memory() -> Finding:
    """Memory that is available without swapping. A running lab already has its share."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", MEMINFO.read_text() if MEMINFO.exists() else "", re.MULTILINE)
    free_mb = int(found[1]) >> 10 if found else 0
    lack = "" if free_mb >= MEMORY_OF_A_LAB_MB or not found else f"two nodes need {MEMORY_OF_A_LAB_MB} MB"
    return Finding(
        "memory", f"{free_mb} MB free" if found else "-", "this machine", lack, "make up", "end other programs"
    )


def _ssh() -> Finding:
    version = said_by("ssh", "-V").split(",")[0]
    if version and shutil.which("ssh-keygen"):
        return Finding("ssh", version.removeprefix("OpenSSH_"), "path")
    return Finding(
        "ssh", "-", "-", "no ssh or ssh-keygen on PATH", "make up, logins to nodes", "install openssh-client"
    )


def _disk(to_build: list[Part]) -> Finding:
    place = next(path for path in [cache(), *cache().parents] if path.exists())
    free_mb = min(shutil.disk_usage(place).free, shutil.disk_usage(ROOT).free) >> 20
    needed_mb = ROOM_FOR_NODES_MB + sum(part.build.disk_mb for part in to_build)
    lack = "" if free_mb >= needed_mb else f"{needed_mb} MB needed"
    return Finding(
        "disk", f"{free_mb} MB free", str(place), lack, "make setup, make up", "free some space, or set XDG_CACHE_HOME"
    )

"""QEMU 8 or later, the first with the igb NIC: from PATH, else Debian's backport unpacked in the cache."""

import os
import re
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from simulator.nodes import debian
from simulator.nodes.cache import run
from simulator.part import Report, SimulatorError

OLDEST_MAJOR = 8


@dataclass(frozen=True)
class Qemu:
    """A QEMU installation. An unpacked one needs the paths of its parts."""

    programs: Path
    options: tuple[str, ...]
    own_environment: tuple[tuple[str, str], ...]

    @property
    def system(self) -> str:
        """The program that runs a machine."""
        return str(self.programs / "qemu-system-x86_64")

    @property
    def environment(self) -> dict[str, str]:
        """The environment for its programs."""
        return {**os.environ, **dict(self.own_environment)}

    @cached_property
    def version(self) -> str:
        """Its version, which also proves that the program starts on this machine."""
        printed = run(self.system, "--version", env=self.environment)
        found = re.search(r"version (\d\S*)", printed)
        if found is None:
            raise SimulatorError(f"{self.system} --version prints no version: {printed[:200]}")
        return found.group(1)

    def disk_tool(self, *arguments: str) -> str:
        """Runs qemu-img and returns what it prints."""
        return run(str(self.programs / "qemu-img"), *arguments, env=self.environment)


def find_qemu(report: Report) -> Qemu:
    """The QEMU to use on this machine."""
    if (system := shutil.which("qemu-system-x86_64")) and shutil.which("qemu-img", path=str(Path(system).parent)):
        installed = Qemu(Path(system).parent, (), ())
        if int(installed.version.split(".")[0]) >= OLDEST_MAJOR:
            return installed
    root = debian.unpacked(("qemu-system-x86", "qemu-utils"), report)
    firmware = [("-L", f"{root}/usr/{path}") for path in ("share/qemu", "share/seabios", "lib/ipxe/qemu")]
    own_parts = (
        ("LD_LIBRARY_PATH", debian.library_path(root)),
        # otherwise it loads the modules of an older installed QEMU and aborts
        ("QEMU_MODULE_DIR", f"{root}/usr/lib/x86_64-linux-gnu/qemu"),
    )
    return Qemu(root / "usr" / "bin", tuple(word for pair in firmware for word in pair), own_parts)

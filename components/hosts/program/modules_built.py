"""Kernel modules of a host.

Which file would be loaded, what a build needs, and whether the kernel would take it.
"""

import re
from typing import Iterable, List, NamedTuple

from .machine import Machine, StepError

PEERMEM_MODULES = ("nvidia_peermem", "nv_peer_mem")
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
DKMS = "dkms"
DKMS_KEYS = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub")
"""What DKMS signs modules with: on Ubuntu, and elsewhere."""
BUILD_S = 1500
DRIVER_S = 1800
"""A driver on a slow core: package lists, packages, and the modules."""
MLX5 = "mlx5_core"
SIGNED_GPU = "packages with signed modules (Ubuntu: linux-modules-nvidia-…)"
"""The alternative for a GPU driver where the kernel refuses modules that are built on the host."""


class ModuleFile(NamedTuple):
    """What modprobe would load; all empty when there is none."""

    path: str = ""
    version: str = ""
    """Empty for most modules of the kernel."""
    srcversion: str = ""
    kernel: str = ""
    """Release of the kernel that it was built for."""

    @property
    def of_the_kernel(self) -> bool:
        """Whether it came with the kernel: what is added later lies in updates, extra or
        weak-updates.
        """
        return "/kernel/" in self.path or self.path.startswith("(")


def module_file(machine: Machine, module: str) -> ModuleFile:
    """The file that modprobe would load now."""
    return module_file_in(machine.run("modinfo", module).out)


def module_file_in(printed: str) -> ModuleFile:
    """What modinfo prints of a module."""
    values = dict(reversed(re.findall(r"^(\w+):[ \t]*(.*)$", printed, re.MULTILINE)))
    return ModuleFile(
        values.get("filename", ""),
        values.get("version", ""),
        values.get("srcversion", ""),
        values.get("vermagic", "").partition(" ")[0],
    )


def secure_boot(machine: Machine) -> str:
    """Whether only signed modules are taken: on, off, or no EFI. The variable is four bytes of
    attributes and one.
    """
    content = machine.content(SECURE_BOOT)
    if len(content) < 5:
        return "no EFI"
    return "on" if content[4] == 1 else "off"


def refuse_unsigned_modules(machine: Machine, instead: str) -> None:
    """Refuses to build modules that Secure Boot would not load, unless a DKMS key is enrolled.

    Args:
        machine: the host.
        instead: which other source has modules signed by the distribution.
    """
    if secure_boot(machine) != "on":
        return
    for key in DKMS_KEYS:
        # its exit status is the opposite of what you expect, so this reads its output
        if (
            machine.exists(key)
            and "already enrolled" in machine.run("mokutil", "--test-key", key).out
        ):
            return
    raise StepError(
        "Secure Boot is on and no DKMS key is enrolled, so the kernel would reject a locally built "
        "driver",
        "enroll one (mokutil --import, then confirm at the console), turn Secure Boot off, or use "
        f"{instead}",
    )


def running_kernel(machine: Machine) -> str:
    """The kernel release, as in `uname -r`."""
    return machine.read("/proc/sys/kernel/osrelease")


def missing_headers(machine: Machine) -> List[str]:
    """Packages with the headers of the running kernel; without them dkms builds nothing and hardly
    reports it.
    """
    kernel = running_kernel(machine)
    if machine.exists(f"/lib/modules/{kernel}/build/"):
        return []
    return [
        (
            f"linux-headers-{kernel}"
            if machine.exists("/etc/debian_version")
            else f"kernel-devel-{kernel}"
        )
    ]


def build_for_this_kernel(machine: Machine) -> None:
    """Builds what dkms knows for the running kernel, which may be newer than the modules."""
    machine.must("dkms", "autoinstall", "-k", running_kernel(machine), timeout_s=BUILD_S)


def built_by_dkms(names: Iterable[str]) -> bool:
    """Whether one of these packages has sources that dkms builds, by the names in both families."""
    return any(DKMS in name for name in names)

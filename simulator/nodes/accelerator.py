"""Chooses KVM if it really works, otherwise emulation (TCG).

Opening /dev/kvm and creating a machine proves little: on some clouds both succeed, but an ordinary guest kernel runs so
slowly that it never boots. So the test boots our own kernel up to its first program.
"""

import fcntl
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from simulator.nodes.cache import cache_folder, digest
from simulator.nodes.image import Image
from simulator.nodes.qemu import Qemu
from simulator.part import Report, SimulatorError

Kind = Literal["kvm", "tcg"]
VARIABLE = "ROCELAB_ACCEL"
"""Environment variable that forces one kind."""

_KVM = Path("/dev/kvm")
_KVM_CREATE_VM = 0xAE01  # _IO(KVMIO, 1) of linux/kvm.h
_PROBE_WORDS = "rocelab: the kernel runs"
_PROBE_TIMEOUT_S = 8
"""With KVM our first program starts within a second, with emulation after 2 to 4."""


@dataclass(frozen=True)
class Accelerator:
    """How the guest's instructions are run."""

    kind: Kind

    def options(self, *, real_pods: bool = False) -> tuple[str, ...]:
        """QEMU's options. Emulation of a node with real pods, where dozens of Go programs start, differs in two ways.

        A program's code has to be translated before it runs. What does not fit is thrown away with all the rest, and
        these programs fill 96 MiB every ten seconds; other nodes become larger with more, but not faster. And string
        instructions are emulated byte by byte: without `erms` and `fsrm`, kernel and programs move whole words.
        """
        if self.kind == "kvm":
            return ("-accel", "kvm", "-cpu", "host")
        room_mib, processor = (384, "max,-erms,-fsrm,-la57") if real_pods else (96, "max")
        return ("-accel", f"tcg,thread=multi,tb-size={room_mib}", "-cpu", processor)

    @property
    def identity(self) -> str:
        """Part of what a snapshot depends on: with KVM the guest sees this machine's CPU."""
        return f"kvm {_cpu()}" if self.kind == "kvm" else "tcg"


def choose(qemu: Qemu, image: Image, report: Report) -> Accelerator:
    """The accelerator to use. The result of the test is kept until this machine reboots.

    Raises:
        SimulatorError: if the environment names an unknown accelerator, or one that does not work.
    """
    forced = os.environ.get(VARIABLE, "")
    if forced not in ("", "kvm", "tcg"):
        raise SimulatorError(f"{VARIABLE} is {forced!r}: set it to kvm or tcg, or unset it to let the simulator choose")
    if forced == "tcg":
        return Accelerator("tcg")
    reason = refusal_of_kvm() or _remembered_probe(qemu, image, report)
    if reason is None:
        return Accelerator("kvm")
    if forced == "kvm":
        raise SimulatorError(
            f"{VARIABLE}=kvm, but KVM does not work here: {reason}.\n  Unset it to use emulation (TCG)."
        )
    return Accelerator("tcg")


def refusal_of_kvm() -> str | None:
    """Why KVM creates no virtual machine here; None if it does."""
    try:
        device = os.open(_KVM, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return f"{_KVM}: {error.strerror}"
    try:
        os.close(fcntl.ioctl(device, _KVM_CREATE_VM, 0))
    except OSError as error:
        return f"{_KVM} creates no virtual machine: {error.strerror}"
    finally:
        os.close(device)
    return None


def _remembered_probe(qemu: Qemu, image: Image, report: Report) -> str | None:
    """The result of the test, which runs once per boot of this machine, QEMU and image."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    memory = cache_folder() / f"kvm-{digest(boot, qemu.version, str(image.folder))}.probed"
    if not memory.exists():
        for old in cache_folder().glob("kvm-*.probed"):
            old.unlink(missing_ok=True)
        found = _probe(qemu, image)
        report(f"KVM is here but does not work: {found}; emulating (TCG)" if found else "KVM works")
        partial = memory.with_suffix(f".{os.getpid()}")
        partial.write_text(found or "")
        partial.rename(memory)
    return memory.read_text() or None


def _probe(qemu: Qemu, image: Image) -> str | None:
    """Why our kernel does not run with KVM; None if it does."""
    command = [qemu.system, *qemu.options, *Accelerator("kvm").options(), "-M", "q35", "-m", "256", "-nodefaults"]
    command += ["-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot", "-kernel", str(image.kernel)]
    command += ["-initrd", str(image.initrd), "-append", "console=ttyS0 quiet panic=-1 rocelab_probe=1"]
    begin = time.monotonic()
    try:
        done = subprocess.run(
            command,
            env=qemu.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the guest's kernel had not started after {time.monotonic() - begin:.0f} s"
    printed = done.stdout.decode(errors="replace")
    if _PROBE_WORDS in printed:
        return None
    last = next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "it printed nothing")
    return f"QEMU ended with status {done.returncode} ({last[:120]})"


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    fields = ("vendor_id", "model name", "stepping", "microcode", "flags")
    return "\n".join(next((line for line in lines if line.startswith(name)), "") for name in fields)

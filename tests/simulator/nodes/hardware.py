"""QEMU's command line for a machine."""

from pathlib import Path

from simulator.nodes.accelerator import Accelerator
from simulator.nodes.image import Image
from simulator.nodes.machine import Machine
from simulator.nodes.qemu import Qemu

QEMU = Qemu(Path("/usr/bin"), ("-L", "/firmware"), ())
IMAGE = Image(Path("/cache/image-1"))


def words(machine: Machine, kind: str = "tcg") -> str:
    return " ".join(machine.command(QEMU, IMAGE, Accelerator(kind)))  # type: ignore[arg-type]

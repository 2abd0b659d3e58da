"""Firmware settings of NVIDIA's NICs, read from the NIC itself."""

import re
from typing import Dict, NamedTuple, Optional

from .machine import MISSING, Machine, StepError

TOOLS = ("mstconfig", "mlxconfig")
"""From mstflint, which distributions have, and from NVIDIA's firmware tools: same options, same
output."""
TOOL_S = 120


class Setting(NamedTuple):
    """One parameter, as numbers: its value now, and its value after the next boot."""

    now: int
    next: int


def query(machine: Machine, device: str) -> Dict[str, Setting]:
    """The settings of one NIC by name; only numbers."""
    printed = machine.must(tool_of(machine), "-d", device, "-e", "query", timeout_s=TOOL_S)
    settings = {}
    for line in printed.splitlines():
        words = line.lstrip("* ").split()  # a star marks what the next boot changes
        if len(words) == 4 and re.match(r"^[A-Z][A-Z0-9_]+$", words[0]):
            now, later = _number(words[2]), _number(words[3])
            if now is not None and later is not None:
                settings[words[0]] = Setting(now, later)
    if not settings:
        raise StepError(
            f"{device} reports no firmware settings",
            "check with lspci -s that it is an NVIDIA ConnectX",
        )
    return settings


def tool_of(machine: Machine) -> str:
    """The tool that is installed."""
    for name in TOOLS:
        if machine.run(name, "--version").code != MISSING:
            return name
    raise StepError(
        f"neither {' nor '.join(TOOLS)} is installed",
        "list mstflint in system.packages, or leave firmware.manage at false",
    )


def _number(word: str) -> Optional[int]:
    """`16` and `True(1)` as a number; None for `Array[0..7]`."""
    digits = re.match(r"^(?:[^()]*\()?(\d+)\)?$", word)
    return int(digits[1]) if digits else None

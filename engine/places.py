"""Where the engine's files are. Nothing here creates any."""

import os
import platform
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""

ENGINE = ROOT / ".engine"
BIN = ENGINE / "bin"
STANDINS = ENGINE / "standins"
"""Stand-ins have a folder of their own, so that the environment of a hardware stack cannot find them."""

HOME = ENGINE / "home"
"""PULUMI_HOME of simulator stacks: plugins by version, with stand-ins. Hardware stacks keep your own."""

LOGS = ENGINE / "logs"
VENV = ROOT / ".venv"
SOURCES = ROOT / "engine"
"""One folder per Go module built."""

SIM = SOURCES / "sim"
"""Starts the simulator from any folder."""


def cache() -> Path:
    """The cache of binaries: outside the checkout, so that a second clone starts warm."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rocelab" / "engine"


def is_supported() -> bool:
    """Downloads and builds are for Linux on x86-64, where all of it is tested."""
    return (platform.system(), platform.machine()) == ("Linux", "x86_64")


def system() -> str:
    """The system's name for messages."""
    return f"{platform.system()} {platform.machine()}"

"""Secrets as files: brought to the login's home by the stack, and taken from there to where they are needed."""

import os

from .machine import Machine

DELIVERED = "as delivered"
MISSING = "not delivered"
NEWER = "another one was delivered"
ALTERED = "altered"
PREFIX = ".rocelab-secret-"


def source_of(machine: Machine, name: str) -> str:
    """Where a secret lies that was brought; the folder of the account that we came in by."""
    user = os.environ.get("SUDO_USER", "")
    homes = [line.split(":")[5] for line in machine.read("/etc/passwd").splitlines() if line.split(":")[0] == user]
    return f"{homes[0] if user and homes else '/root'}/{PREFIX}{name}"


def delivered(machine: Machine, name: str) -> bytes:
    """The secret as it was brought; nothing when it was not."""
    return machine.content(source_of(machine, name))


def state_of(wanted: bytes, found: bytes) -> str:
    """How what is in place stands to what was brought. Without the latter nothing says that the former is wrong."""
    if not found:
        return NEWER if wanted else MISSING
    return DELIVERED if found == wanted or not wanted else NEWER

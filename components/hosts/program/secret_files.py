"""Secrets as files: the stack delivers them to the login's home, and steps install them
from there.
"""

import os

from .machine import Machine

DELIVERED = "as delivered"
MISSING = "not delivered"
NEWER = "another one was delivered"
PREFIX = ".rocelab-secret-"


def login_home(machine: Machine) -> str:
    """Home of the account that rocelab logs in with; empty when nobody logged in, as at boot."""
    user = os.environ.get("SUDO_USER", "")
    accounts = (line.split(":") for line in machine.read("/etc/passwd").splitlines())
    return next((words[5] for words in accounts if user and words[0] == user), "")


def source_of(machine: Machine, name: str) -> str:
    """Where a delivered secret is."""
    return f"{login_home(machine) or '/root'}/{PREFIX}{name}"


def delivered(machine: Machine, name: str) -> bytes:
    """The secret as it was delivered; empty when it was not."""
    return machine.content(source_of(machine, name))


def state_of(target: bytes, delivered: bytes) -> str:
    """How the installed secret compares with the delivered one; without a delivered one, any is
    taken as right.
    """
    if not delivered:
        return NEWER if target else MISSING
    return DELIVERED if delivered == target or not target else NEWER

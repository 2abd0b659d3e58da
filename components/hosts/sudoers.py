"""Lines for sudoers that allow what rocelab runs as root, and nothing else. Pure.

`read` allows programs that root owns and that only read. `build` allows Python to run what the
login sends: the lines keep other commands out of sudo's log, but a user who may use them is root.
"""

from typing import Literal

from components.hosts.pack import BOOT, PYTHON
from components.hosts.program.places import COPY_PREFIX, READER_FILE
from components.hosts.roll import REBOOT
from components.ssh.credentials import READ

Grant = Literal["read", "build"]
READING = ("plan", "look", "look firmware", "evidence", "evidence firmware")
"""Verbs of the program that change nothing. `plan` alone takes input: the settings of the lab."""
SUDO = "exec sudo -n "
BUILDING = (
    f"{PYTHON} -c {BOOT} *",
    f"python3 -I {COPY_PREFIX}-*.pyz apply",
    f"python3 -I {COPY_PREFIX}-*.pyz confirm",
    REBOOT.removeprefix(SUDO),
    READ.removeprefix(SUDO),
    "ping -c1 -W2 -I *",
    "timeout -k 2 *",
)
"""The program, a reboot, the login of a new cluster, a ping over a rail, and the lease of a run."""
SPECIAL = "\\,:="
"""Characters that sudoers(5) wants escaped in arguments."""
TEXTS = {
    "read": "# rocelab may read this host: look, audit, evidence, plan. Root owns the program, and "
    "it changes nothing.",
    "build": "# rocelab may build this host: pulumi up. This is full root: the login sends the "
    "program that runs.",
}


def commands_of(grant: Grant) -> tuple[str, ...]:
    """The commands as sudo sees them, with wildcards."""
    if grant == "read":
        return tuple(f"{PYTHON} {READER_FILE} {verb}" for verb in READING)
    return BUILDING


def lines(grant: Grant, user: str) -> str:
    """A file for /etc/sudoers.d."""
    alias = f"ROCELAB_{grant.upper()}"
    commands = ", \\\n    ".join(f"/usr/bin/{_escaped(command)}" for command in commands_of(grant))
    rule = f"{user} ALL=(root) NOPASSWD: {alias}"
    return f"{TEXTS[grant]}\nCmnd_Alias {alias} = \\\n    {commands}\n{rule}\n"


def _escaped(command: str) -> str:
    return "".join(f"\\{character}" if character in SPECIAL else character for character in command)

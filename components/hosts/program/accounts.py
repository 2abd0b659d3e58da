"""Accounts of a host and the keys by which people come in."""

import hashlib
import os
from typing import List, NamedTuple, Optional

from .blocks import block_of, with_block
from .machine import Machine, StepError

WRITE_KEYS = """import os, sys
os.umask(0o077)
folder = os.path.join(sys.argv[1], ".ssh")
os.makedirs(folder, exist_ok=True)
place = os.path.join(folder, "authorized_keys")
if os.path.islink(place):
    sys.exit(place + " is a link to somewhere else")
text = sys.stdin.read()
if not text:
    os.remove(place) if os.path.exists(place) else None
    sys.exit()
with open(place + ".new", "w") as file:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())
os.replace(place + ".new", place)
"""
"""Run as the user: root that writes into a folder of somebody else's can be led elsewhere by a link."""


class Account(NamedTuple):
    """A line of the user database."""

    uid: int
    home: str


def short(line: str) -> str:
    """A key in a few words: its kind, a digest, and the comment by which people know it."""
    words = line.split()
    if len(words) < 2:
        return f"altered: {line[:40]}"
    return " ".join([words[0], hashlib.sha256(words[1].encode()).hexdigest()[:8], *words[2:]])


def find_account(machine: Machine, name: str) -> Optional[Account]:
    """From the local file, or else from wherever this host asks for people."""
    lines = machine.read("/etc/passwd").splitlines()
    if not any(line.startswith(name + ":") for line in lines):
        lines = machine.run("getent", "passwd", name).out.splitlines()
    for line in lines:
        words = line.split(":")
        if words[0] == name and len(words) == 7:
            return Account(int(words[2]), words[5])
    return None


def put_keys(machine: Machine, name: str, keys: List[str]) -> None:
    """Makes these keys ours among an account's; without any, only those of others stay."""
    account = find_account(machine, name)
    if account is None:
        raise StepError(
            f"{name} is missing after it was made", "useradd's own log says more: /var/log/auth.log or secure"
        )
    place = _keys_file(account)
    before = machine.content(place).decode(errors="replace")
    after = with_block(before, keys, place)
    if name == os.environ.get("SUDO_USER") and not _some_key(after):
        raise StepError(
            f"the keys of the lab are the only ones that {name} has, and this program comes in by that account",
            f"give {name} another key first, or keep them under system.users",
        )
    if after != before:
        machine.must("runuser", "-u", name, "--", "python3", "-I", "-c", WRITE_KEYS, account.home, stdin=after)


def _some_key(text: str) -> bool:
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def _keys_file(account: Account) -> str:
    return f"{account.home}/.ssh/authorized_keys"


def keys_of(machine: Machine, account: Account) -> List[str]:
    """Our keys among an account's."""
    return block_of(machine.content(_keys_file(account)).decode(errors="replace"), _keys_file(account))

"""Accounts of the nodes' administrators: their keys, and sudo."""

import hashlib
import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Set

from ..blocks import block_of, with_block
from ..host import Document, Host
from ..machine import Machine, StepError, load_names
from ..places import STATE
from ..step import Before, Fields, Step, Value, value_or_reason

USERS_FILE = STATE + "/users.json"
"""Accounts with keys or sudo from rocelab; recorded before they get them."""
FIRST_UID = 1000

WRITE_KEYS = """import os, sys
os.umask(0o077)
folder = os.path.join(sys.argv[1], ".ssh")
os.makedirs(folder, exist_ok=True)
place = os.path.join(folder, "authorized_keys")
if os.path.islink(place):
    sys.exit(place + " is a symbolic link")
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
"""Runs as the user: in a user's folder, a link could make root write elsewhere."""


class Account(NamedTuple):
    """A line of the user database."""

    uid: int
    home: str


def short(line: str) -> str:
    """A short form of a key: its kind, a digest, and its comment."""
    words = line.split()
    if len(words) < 2:
        return f"altered: {line[:40]}"
    return " ".join([words[0], hashlib.sha256(words[1].encode()).hexdigest()[:8], *words[2:]])


def find_account(machine: Machine, name: str) -> Optional[Account]:
    """From the local file, or else from the host's other user databases."""
    lines = machine.read("/etc/passwd").splitlines()
    if not any(line.startswith(name + ":") for line in lines):
        lines = machine.run("getent", "passwd", name).out.splitlines()
    for line in lines:
        words = line.split(":")
        if words[0] == name and len(words) == 7:
            return Account(int(words[2]), words[5])
    return None


def put_keys(machine: Machine, name: str, keys: List[str]) -> None:
    """Sets rocelab's block among an account's keys; the keys outside the block stay."""
    account = find_account(machine, name)
    if account is None:
        raise StepError(
            f"{name} is missing after it was created",
            "see useradd's log: /var/log/auth.log or secure",
        )
    place = _keys_file(account)
    before = machine.content(place).decode(errors="replace")
    after = with_block(before, keys, place)
    lines = [line.strip() for line in after.splitlines()]
    left = [line for line in lines if line and not line.startswith("#")]
    if name == os.environ.get("SUDO_USER") and not left:
        raise StepError(
            f"the lab's keys are the only keys of {name}, and rocelab logs in with that account",
            f"give {name} another key first, or keep them under system.users",
        )
    if after != before:
        words = ("python3", "-I", "-c", WRITE_KEYS, account.home)
        machine.must("runuser", "-u", name, "--", *words, stdin=after)


def _keys_file(account: Account) -> str:
    return f"{account.home}/.ssh/authorized_keys"


def keys_of(machine: Machine, account: Account) -> List[str]:
    """The keys in rocelab's block."""
    return block_of(
        machine.content(_keys_file(account)).decode(errors="replace"), _keys_file(account)
    )


class Users(Step):
    """Each account with its keys. The account that rocelab logs in with only gets keys.

    An account is never deleted, since files on shared filesystems belong to its uid. Without keys,
    and with the locked password that it is created with, nobody can log in to it.
    """

    name = "users"
    order = 270
    effects = {"users": "none", "account": "none", "keys": "none", "sudo": "none"}
    files = ("/etc/sudoers.d/rocelab-*",)

    def target(self, document: Document) -> Fields:
        users = document.get("users")
        if not users:
            return {}
        fields: Fields = {"users": sorted(user["name"] for user in users)}
        for user in users:
            name = user["name"]
            fields[f"{name}.keys"] = [short(key) for key in user["keys"]]
            if not user["keys_only"]:
                fields[f"{name}.account"] = f"uid {user['uid']}" if user["uid"] else "present"
                fields[f"{name}.sudo"] = "all" if user["sudo"] else "none"
        return fields

    def observed(self, host: Host) -> Fields:
        machine = host.machine
        fields: Fields = {"users": sorted(load_names(machine, USERS_FILE))}
        for user in host.document["users"]:
            name = user["name"]
            account = find_account(machine, name)
            fields[f"{name}.keys"] = _shown(machine, account)
            if not user["keys_only"]:
                there = f"uid {account.uid}" if account and user["uid"] else "present"
                fields[f"{name}.account"] = there if account else "missing"
                fields[f"{name}.sudo"] = _sudo(machine, name)
        return fields

    def refuse(self, host: Host) -> None:
        for user in host.document["users"]:
            _refuse_other_peoples_accounts(host.machine, user)

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine, users = host.machine, host.document["users"]
        names = [user["name"] for user in users]
        known = load_names(machine, USERS_FILE)
        machine.put(USERS_FILE, json.dumps(sorted({*known, *names})) + "\n")
        for user in users:
            if any(field.startswith(user["name"] + ".") for field in wrong):
                _give(machine, user)
        for name in known:
            if name not in names:
                _take(machine, name)
        machine.put(USERS_FILE, json.dumps(sorted(names)) + "\n")

    def undo(self, host: Host, before: Before) -> None:
        for name in load_names(host.machine, USERS_FILE):
            _take(host.machine, name)
        host.machine.remove(USERS_FILE)


def _shown(machine: Machine, account: Optional[Account]) -> Value:
    return value_or_reason(
        lambda: [short(key) for key in keys_of(machine, account)] if account else []
    )


def _refuse_other_peoples_accounts(machine: Machine, user: Dict[str, Any]) -> None:
    name, account = user["name"], find_account(machine, user["name"])
    if user["keys_only"]:
        if account is None:
            raise StepError(
                f"rocelab logs in as {name}, but {name} is not a local account",
                "correct access.user",
            )
        return
    if account and account.uid < FIRST_UID:
        raise StepError(
            f"{name} is a system account of this host (uid {account.uid})",
            "give the management user another name",
        )
    if account and user["uid"] and account.uid != user["uid"]:
        raise StepError(
            f"{name} has uid {account.uid} here, but the lab file sets {user['uid']}; a change "
            "would orphan the account's files",
            f"change it by hand (usermod, then chown of its files), or set uid: {account.uid}",
        )
    if account is None and user["uid"]:
        owner = _owner_of_uid(machine, user["uid"])
        if owner:
            raise StepError(
                f"uid {user['uid']} of {name} belongs to {owner} on this host",
                "set a free uid in the lab file",
            )


def _owner_of_uid(machine: Machine, uid: int) -> str:
    """The accounts that have a user ID; empty when it is free."""
    owner = machine.run("getent", "passwd", str(uid)).out.split(":")[0]
    if owner:
        return owner
    lines = machine.read("/etc/passwd").splitlines()
    return " ".join(line.split(":")[0] for line in lines if f":{uid}:" in line)


def _give(machine: Machine, user: Dict[str, Any]) -> None:
    name = user["name"]
    if find_account(machine, name) is None:
        uid = ["--uid", str(user["uid"])] if user["uid"] else []
        machine.must("useradd", "--create-home", "--user-group", "--shell", "/bin/bash", *uid, name)
    put_keys(machine, name, user["keys"])
    if not user["keys_only"]:
        if user["sudo"]:
            machine.put(sudo_file(name), sudo_text(name), mode=0o440)
        else:
            machine.remove(sudo_file(name))


def _take(machine: Machine, name: str) -> None:
    """Removes keys and sudo. The account stays."""
    machine.remove(sudo_file(name))
    if find_account(machine, name):
        put_keys(machine, name, [])


def sudo_file(name: str) -> str:
    """The file that allows an account to use sudo."""
    return f"/etc/sudoers.d/rocelab-{name}"


def sudo_text(name: str) -> str:
    """All commands, without a password: these accounts have none."""
    return f"{name} ALL=(ALL:ALL) NOPASSWD: ALL\n"


def _sudo(machine: Machine, name: str) -> str:
    if not machine.exists(sudo_file(name)):
        return "none"
    return "all" if machine.content(sudo_file(name)) == sudo_text(name).encode() else "altered"

"""How the hosts are reached: the user, the one key of the lab, and the host keys that must
answer.
"""

import base64
import hmac
import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal

from pydantic import Field

from stacks.base import LabError, LocalFile, Section
from stacks.files import read_simulator_file, read_text


class Access(Section):
    """Login to every node. The private key is never part of the lab file."""

    user: str = Field(pattern=r"^[a-z_][a-z0-9_-]*$", max_length=32)
    """Login name on every node; it needs sudo without a password."""
    identity: Literal["agent", "secret", "file"] = "agent"
    """Where the private key is: a running ssh-agent, the stack secret `rocelab:sshPrivateKey`, or
    `key_file`."""
    key_file: LocalFile | None = None
    """Private key beside the simulator's state; refused for labs of kind hardware."""
    known_hosts_file: LocalFile
    """OpenSSH known_hosts with the ed25519 key of every node. There is no trust on first use."""


PASSPHRASE = re.compile(
    r"BEGIN ENCRYPTED PRIVATE KEY|Proc-Type: 4,ENCRYPTED|\bb3BlbnNzaC1rZXktdjEAAAAA(?!BG5vbmU)"
)
"""In a private key with a passphrase: PKCS #8, PEM, or base64 of OpenSSH's `openssh-key-v1` and a
cipher that is not `none`."""


def read_private_key(access: Access, root: Path) -> str:
    """The text of the key file.

    Raises:
        LabError: when the file is missing, is not a private key, or has a passphrase.
    """
    text = read_simulator_file("access.key_file", access.key_file, root)
    check_private_key(text, f"access.key_file: {access.key_file}")
    return text


def check_private_key(text: str, where: str) -> None:
    """Detects the usual mistakes without the time that parsing takes.

    Raises:
        LabError: when the text is not a private key, or has a passphrase.
    """
    if "PRIVATE KEY-----" not in text:
        raise LabError(f"{where} holds no private key; set it to the file without .pub")
    if PASSPHRASE.search(text):
        raise LabError(
            f"{where} has a passphrase, which rocelab does not ask for. Load it with ssh-add and "
            "set access.identity: agent, or use a key without a passphrase"
        )


def read_host_keys(
    access: Access,
    endpoints: Mapping[str, tuple[IPv4Address, int]],
    root: Path,
    *,
    section: str = "nodes",
    kinds: tuple[str, ...] = ("ssh-ed25519",),
) -> dict[str, str]:
    """The pinned key, `ssh-ed25519 AAAA…`, of each node by name; every fault is reported at once.

    For nodes, only ed25519 keys count: the command provider's SSH uses a pinned `ssh-rsa` key with
    SHA-1 signatures, which OpenSSH has refused since 8.8.

    Args:
        access: where known_hosts is.
        endpoints: address and port by name.
        root: base of relative paths.
        section: section of the lab file, for error messages.
        kinds: accepted kinds of key, the best first.

    Raises:
        LabError: naming each node without a usable line.
    """
    known = read_known_hosts(access, root)
    host_keys: dict[str, str] = {}
    faults: list[str] = []
    for node, (address, port) in endpoints.items():
        label = known_hosts_name(str(address), port)
        if taken := [key for kind in kinds for key in known.keys(label, (kind,))]:
            host_keys[node] = taken[0]
        else:
            keys = known.keys(label, known.kinds)
            has = (
                f"only {', '.join(sorted({key.split()[0] for key in keys}))}" if keys else "no line"
            )
            faults.append(
                f"{section}.{node}: {access.known_hosts_file} has {has} for {label}; add its "
                f"{kinds[0]} key"
            )
    if faults:
        raise LabError("\n".join(faults))
    return host_keys


def read_known_hosts(access: Access, root: Path) -> "KnownHosts":
    """The lab's known_hosts file.

    Raises:
        LabError: when it cannot be read.
    """
    text = read_text(
        root / access.known_hosts_file,
        f"access.known_hosts_file: {access.known_hosts_file}",
        "Write it with ssh-keyscan over a network you trust; for the simulator, `make up` writes "
        "it. Machines that this lab creates have no keys yet; for them, set fabric.host_keys: "
        "secret",
    )
    return KnownHosts(text.splitlines())


def known_hosts_name(address: str, port: int) -> str:
    """A host as a known_hosts file names it: with its port, unless that is 22."""
    return address if port == 22 else f"[{address}]:{port}"


class KnownHosts:
    """The parsed lines of a known_hosts file, by kind of key."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._clear: dict[tuple[str, str], list[tuple[int, str]]] = {}
        self._hashed: dict[str, list[tuple[int, str, bytes, bytes]]] = {}
        for number, line in enumerate(lines):
            words = line.split()
            if (
                len(words) >= 3
                and not line.startswith(("#", "@"))
                and _base64(words[2]) is not None
            ):
                self._add(number, *words[:3])

    @property
    def kinds(self) -> Iterable[str]:
        """Every kind of key that is in the file."""
        return {*self._hashed, *(kind for kind, _ in self._clear)}

    def keys(self, label: str, kinds: Iterable[str]) -> list[str]:
        """The keys of these kinds for a host, in the order of the file."""
        name, listed = label.encode(), []
        for kind in kinds:
            listed += self._clear.get((kind, label), [])
            # each hashed line has its own salt, so every one must be tried
            lines = self._hashed.get(kind, ())
            for at, key, salt, digest in lines:
                if hmac.digest(salt, name, "sha1") == digest:
                    listed.append((at, key))
        return [key for _, key in sorted(listed)]

    def _add(self, number: int, names: str, kind: str, key: str) -> None:
        """Adds a line, its name plain or hashed (`|1|salt|hash`, as HashKnownHosts writes it)."""
        line = f"{kind} {key}"
        if not names.startswith("|1|"):
            for name in names.split(","):
                self._clear.setdefault((kind, name), []).append((number, line))
            return
        match [_base64(word) for word in names.removeprefix("|1|").split("|")]:
            case [bytes() as salt, bytes() as digest]:
                self._hashed.setdefault(kind, []).append((number, line, salt, digest))
            case _:
                pass  # truncated, or not base64


def _base64(word: str) -> bytes | None:
    try:
        return base64.b64decode(word, validate=True)
    except ValueError:  # truncated, or not ASCII
        return None

"""How the hosts are reached: the user, the one key of the lab, and the host keys that must answer."""

import base64
import binascii
import hmac
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal

from pydantic import Field

from stacks.base import LabError, Section


class Access(Section):
    """Login to every node. The key itself never stands in the lab file."""

    user: str = Field(pattern=r"^[a-z_][a-z0-9_-]*$", max_length=32)
    """Login name on every node; it needs sudo without a password."""
    identity: Literal["agent", "secret", "file"] = "agent"
    """Where the private key is: a running ssh-agent, the stack secret `rocelab:sshPrivateKey`, or `key_file`."""
    key_file: Path | None = None
    """Private key beside the simulator's state; refused for labs of kind hardware."""
    known_hosts_file: Path
    """OpenSSH known_hosts with the ed25519 key of every node. There is no trust on first use."""


def read_private_key(access: Access, root: Path) -> str:
    """The text of the key file.

    Raises:
        LabError: when the file is missing or is not a private key.
    """
    path = root / (access.key_file or "")
    try:
        text = path.read_text()
    except OSError as error:
        raise LabError(
            f"access.key_file: {access.key_file} cannot be read ({error.strerror}). "
            "The simulator's is written by: make up"
        ) from None
    if "PRIVATE KEY-----" not in text:
        raise LabError(f"access.key_file: {access.key_file} holds no private key. Name the file without .pub")
    return text


def read_host_keys(
    access: Access,
    endpoints: Mapping[str, tuple[IPv4Address, int]],
    root: Path,
    *,
    section: str = "nodes",
    kinds: tuple[str, ...] = ("ssh-ed25519",),
) -> dict[str, str]:
    """The pinned key, `ssh-ed25519 AAAA…`, of each node by name; every fault is reported at once.

    Of nodes only ed25519 is taken: the command provider's SSH takes a pinned `ssh-rsa` key for one with SHA-1
    signatures, which OpenSSH refuses since 8.8.

    Args:
        access: where known_hosts is.
        endpoints: address and port by name.
        root: what relative paths begin at.
        section: of the lab file, for faults.
        kinds: of key that are taken, the best first.

    Raises:
        LabError: naming each node without a usable line.
    """
    path = root / access.known_hosts_file
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise LabError(
            f"access.known_hosts_file: {access.known_hosts_file} cannot be read ({error.strerror}). "
            "Write it with ssh-keyscan over a path you trust; the simulator's is made by: make up. "
            "Machines that this lab makes cannot stand in it yet: fabric.host_keys: secret pins them"
        ) from None
    found: dict[str, str] = {}
    faults: list[str] = []
    for node, (address, port) in endpoints.items():
        label = str(address) if port == 22 else f"[{address}]:{port}"
        keys = list(_keys_of(label, lines))
        if taken := [key for kind in kinds for key in keys if key.startswith(f"{kind} ")]:
            found[node] = taken[0]
        else:
            has = f"only {', '.join(sorted({key.split()[0] for key in keys}))}" if keys else "no line"
            faults.append(f"{section}.{node}: {access.known_hosts_file} has {has} for {label}; add its {kinds[0]} key")
    if faults:
        raise LabError("\n".join(faults))
    return found


def _keys_of(label: str, lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        words = line.split()
        if len(words) >= 3 and not line.startswith(("#", "@")) and _is_for(label, words[0]):
            try:
                base64.b64decode(words[2], validate=True)
            except binascii.Error:
                continue
            yield f"{words[1]} {words[2]}"


def _is_for(label: str, names: str) -> bool:
    """Whether the first word of a line names this host: in clear, or hashed as HashKnownHosts does (`|1|salt|hash`)."""
    if not names.startswith("|1|"):
        return label in names.split(",")
    try:
        salt, digest = (base64.b64decode(word, validate=True) for word in names.removeprefix("|1|").split("|"))
    except ValueError:  # cut short, or no base64
        return False
    return hmac.digest(salt, label.encode(), "sha1") == digest

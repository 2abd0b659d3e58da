"""The pinned SSH host keys: from known_hosts, or derived for the VMs that the lab creates itself.

Nobody can know the host key of a VM that is cloned in this run. So rocelab derives its key pair
from one stack secret and the VM's address and port, which known_hosts uses too. The VM receives the
private half before it starts; every connection requires the public half.
"""

import base64
import hashlib
import hmac
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path

from stacks.access import read_host_keys
from stacks.base import LabError
from stacks.fabric import Fabric
from stacks.files import MAKE_UP_WRITES_IT, read_simulator_file
from stacks.lab import Lab
from stacks.machines import Machine
from stacks.nodes import VsphereVm

SEED_KEY = "hostKeySeed"
LEAST_SEED = 32
"""Characters of the secret: 128 bits where it is hexadecimal."""
KIND = "ssh-ed25519"

Places = Mapping[str, tuple[IPv4Address, int]]
"""Address and SSH port by node."""


@dataclass(frozen=True, slots=True)
class HostKey:
    """The key pair that proves a VM's identity."""

    private: str = field(repr=False)
    """The key as an OpenSSH file; the same key always gives the same text, so that no change
    shows."""
    public: str
    """`ssh-ed25519 AAAA…`"""


def pinned_keys(
    lab: Lab, places: Places, root: Path, secret: Callable[[str], object]
) -> dict[str, str]:
    """The pinned key of each place, by node.

    Args:
        lab: the lab of the nodes.
        places: the requested nodes.
        root: base of relative paths.
        secret: returns the value of a stack secret, or None.

    Raises:
        LabError: lists each node without a key, and how to add one.
    """
    return keys_beside(machine_keys(lab, places, root, secret), lab, places, root)


def keys_beside(
    made: Mapping[str, HostKey], lab: Lab, places: Places, root: Path
) -> dict[str, str]:
    """The pinned key of each place, with known key pairs for some VMs; known_hosts must have the
    keys of all others.

    Raises:
        LabError: lists each node without a key.
    """
    others = {name: place for name, place in places.items() if name not in made}
    known = read_host_keys(lab.access, others, root) if others else {}
    return {name: made[name].public if name in made else known[name] for name in places}


def machine_keys(
    lab: Lab, places: Places, root: Path, secret: Callable[[str], object]
) -> dict[str, HostKey]:
    """The key pairs of the VMs that the lab creates; empty if known_hosts has their keys.

    Raises:
        LabError: when the secret is missing, with the command that sets it.
    """
    new = set()
    for node in lab.nodes:
        if isinstance(node, VsphereVm) and isinstance(node.machine, Machine):
            new.add(node.name)
    machines = new & places.keys()  # an adopted VM has its own key
    if lab.fabric is None or lab.fabric.host_keys == "known_hosts" or not machines:
        return {}
    seed = _seed(lab.fabric, root, secret)
    return {name: host_key(seed, *place) for name, place in places.items() if name in machines}


def host_key(seed: str, address: IPv4Address, port: int) -> HostKey:
    """The key pair of the VM at this address; only the seed's owner can compute it."""
    # this import takes a tenth of a second, which labs without VMs need not pay
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    purpose = f"rocelab ssh host key\0{address}\0{port}"
    secret = hmac.digest(seed.encode(), purpose.encode(), hashlib.sha256)
    public = ed25519.Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
    words = base64.b64encode(_field(KIND.encode()) + _field(public)).decode()
    return HostKey(_openssh(secret, public), f"{KIND} {words}")


def _seed(fabric: Fabric, root: Path, secret: Callable[[str], object]) -> str:
    if fabric.host_keys == "file":
        where, remedy = f"fabric.host_keys_file: {fabric.host_keys_file}", MAKE_UP_WRITES_IT
        stored: object = read_simulator_file(
            "fabric.host_keys_file", fabric.host_keys_file, root
        ).strip()
    else:
        where = f"the stack's secret rocelab:{SEED_KEY}"
        remedy = f"Set it: openssl rand -hex 32 | pulumi config set --secret rocelab:{SEED_KEY}"
        stored = secret(SEED_KEY)
    if not isinstance(stored, str) or len(stored) < LEAST_SEED:
        has = f"{len(stored)} characters" if isinstance(stored, str) else "nothing"
        raise LabError(
            f"{where} has {has}, but the host keys of VMs need {LEAST_SEED} characters or more. "
            f"{remedy}"
        )
    return stored


def _openssh(secret: bytes, public: bytes) -> str:
    """A private key in OpenSSH's own format (its PROTOCOL.key), which sshd reads everywhere; not
    encrypted.
    """
    pair = _field(KIND.encode()) + _field(public)
    # the number is repeated so that OpenSSH can detect a wrong passphrase; it is random where there
    # is a passphrase
    check = hashlib.sha256(public).digest()[:4] * 2
    body = check + pair + _field(secret + public) + _field(b"rocelab")
    body += bytes(range(1, 1 + -len(body) % 8))
    unencrypted = _field(b"none") + _field(b"none") + _field(b"") + struct.pack(">I", 1)
    text = base64.b64encode(
        b"openssh-key-v1\0" + unencrypted + _field(pair) + _field(body)
    ).decode()
    lines = [text[start : start + 70] for start in range(0, len(text), 70)]
    return "\n".join(
        ["-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END OPENSSH PRIVATE KEY-----", ""]
    )


def _field(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content

"""The host keys that must answer: from known_hosts, or made here for the machines that the lab makes itself.

A machine that is cloned in this run has no key that anybody could have written down. So its key pair is derived from
one secret of the stack and from where it answers, which is what known_hosts goes by too: the private half is given to
the machine before it starts, the public half is what a connection wants to see.
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
    """A pair of keys by which a machine proves that it is itself."""

    private: str = field(repr=False)
    """As OpenSSH keeps it in a file; always the same text for the same key, so that nothing is seen to change."""
    public: str
    """`ssh-ed25519 AAAA…`"""


def pinned_keys(lab: Lab, places: Places, root: Path, secret: Callable[[str], object]) -> dict[str, str]:
    """The only key that may answer at each place, by node.

    Args:
        lab: whose nodes they are.
        places: the nodes asked for.
        root: what relative paths begin at.
        secret: value of a secret of the stack, None where it has none.

    Raises:
        LabError: naming each node without one, and what gives it one.
    """
    return keys_beside(machine_keys(lab, places, root, secret), lab, places, root)


def keys_beside(made: Mapping[str, HostKey], lab: Lab, places: Places, root: Path) -> dict[str, str]:
    """The same where the key pairs of the machines are known already: of all others known_hosts must name the key.

    Raises:
        LabError: naming each node without one.
    """
    others = {name: place for name, place in places.items() if name not in made}
    known = read_host_keys(lab.access, others, root) if others else {}
    return {name: made[name].public if name in made else known[name] for name in places}


def machine_keys(lab: Lab, places: Places, root: Path, secret: Callable[[str], object]) -> dict[str, HostKey]:
    """The key pairs of the machines that the lab makes; none where their keys are written down in known_hosts.

    Raises:
        LabError: when the secret is missing, with the command that sets it.
    """
    new = {node.name for node in lab.nodes if isinstance(node, VsphereVm) and isinstance(node.machine, Machine)}
    machines = new & places.keys()  # one that was there before has a key of its own
    if lab.fabric is None or lab.fabric.host_keys == "known_hosts" or not machines:
        return {}
    seed = _seed(lab.fabric, root, secret)
    return {name: host_key(seed, *place) for name, place in places.items() if name in machines}


def host_key(seed: str, address: IPv4Address, port: int) -> HostKey:
    """The key pair of the machine that answers there; without the seed nobody can tell it."""
    # a tenth of a second, which labs without machines need not pay
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    purpose = f"rocelab ssh host key\0{address}\0{port}"
    secret = hmac.digest(seed.encode(), purpose.encode(), hashlib.sha256)
    public = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
    words = base64.b64encode(_field(KIND.encode()) + _field(public)).decode()
    return HostKey(_openssh(secret, public), f"{KIND} {words}")


def _seed(fabric: Fabric, root: Path, secret: Callable[[str], object]) -> str:
    if fabric.host_keys == "file":
        where, remedy = f"fabric.host_keys_file: {fabric.host_keys_file}", "The simulator's is written by: make up"
        try:
            found: object = (root / (fabric.host_keys_file or "")).read_text().strip()
        except OSError as error:
            raise LabError(f"{where} cannot be read ({error.strerror}). {remedy}") from None
    else:
        where = f"the stack's secret rocelab:{SEED_KEY}"
        remedy = f"Set it: openssl rand -hex 32 | pulumi config set --secret rocelab:{SEED_KEY}"
        found = secret(SEED_KEY)
    if not isinstance(found, str) or len(found) < LEAST_SEED:
        has = f"{len(found)} characters" if isinstance(found, str) else "nothing"
        raise LabError(
            f"{where} has {has}, and {LEAST_SEED} or more are needed: host keys of machines are made from it. {remedy}"
        )
    return found


def _openssh(secret: bytes, public: bytes) -> str:
    """A private key in OpenSSH's own format (its PROTOCOL.key), which sshd reads everywhere; not encrypted."""
    pair = _field(KIND.encode()) + _field(public)
    # the number stands there twice, by which OpenSSH sees a wrong passphrase; it is drawn by lot where there is one
    check = hashlib.sha256(public).digest()[:4] * 2
    body = check + pair + _field(secret + public) + _field(b"rocelab")
    body += bytes(range(1, 1 + -len(body) % 8))
    unencrypted = _field(b"none") + _field(b"none") + _field(b"") + struct.pack(">I", 1)
    text = base64.b64encode(b"openssh-key-v1\0" + unencrypted + _field(pair) + _field(body)).decode()
    lines = [text[start : start + 70] for start in range(0, len(text), 70)]
    return "\n".join(["-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END OPENSSH PRIVATE KEY-----", ""])


def _field(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content

"""PVRDMA that silently went another way: proven by what the physical ports counted, never by speed alone. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from components.validation.physics.ceilings import goodput_ratio

FALLBACK = "PVRDMA_TCP_FALLBACK"
UNKNOWN = "PVRDMA_COUNTERS_UNKNOWN"

LEAST_SHARE = 0.9
"""Of the bytes sent. Counters are read before and after by commands, and may leave a reading's last moment out."""
MOST_SHARE = 1.5
"""Beyond this somebody else used the port too, and a growth proves nothing of our bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grown:
    """Growth of one physical HCA's RDMA byte counters during a transfer; None where a counter could not be read."""

    sent_bytes: int | None
    received_bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PathProof:
    """Whether a transfer went through both physical HCAs."""

    outcome: Literal["pass", "fail", "unknown"]
    code: str
    """Empty on pass."""
    evidence: str


def proof_of_hardware(sent_bytes: int, client: Grown, server: Grown, *, path_mtu_bytes: int = 1024) -> PathProof:
    """Compares the counters of the HCAs below client and server with the bytes that the client wrote.

    PVRDMA falls back to TCP between the hosts, or to memory copies on one host, and perftest's numbers look plausible
    all the same. Counters count whole frames or payload, by vendor: both lie within the tolerance. A counter that
    cannot be read, or stepped back, is unknown: that is never a pass. One that shows a fallback fails, whatever the
    other one says.

    Args:
        sent_bytes: payload of the transfer.
        client: the HCA of the sender; it must have sent.
        server: the HCA of the receiver; it must have received.
        path_mtu_bytes: for the most that headers can add.
    """
    most = sent_bytes / goodput_ratio(path_mtu_bytes, max(sent_bytes, 1)) * MOST_SHARE
    readings = [("client's HCA sent", client.sent_bytes), ("server's HCA received", server.received_bytes)]
    said = "; ".join(f"{what} {'unreadable' if got is None else f'{got} bytes'}" for what, got in readings)
    evidence = f"{said}, of {sent_bytes} bytes written"
    known = [got for _, got in readings if got is not None and got >= 0]
    if sent_bytes <= 0:
        return PathProof(outcome="unknown", code=UNKNOWN, evidence=f"nothing was written: {evidence}")
    if any(got < LEAST_SHARE * sent_bytes for got in known):
        return PathProof(outcome="fail", code=FALLBACK, evidence=evidence)
    if len(known) < len(readings):
        return PathProof(outcome="unknown", code=UNKNOWN, evidence=evidence)
    if any(got > most for got in known):
        return PathProof(outcome="unknown", code=UNKNOWN, evidence=f"{evidence}: others use the HCA too")
    return PathProof(outcome="pass", code="", evidence=evidence)


def between_hosts(
    pairs: Iterable[tuple[str, str]], placement: Mapping[str, str | None]
) -> tuple[tuple[tuple[str, str], ...], dict[tuple[str, str], str]]:
    """Pairs of VMs that say something about the fabric, and the others, each with its reason.

    A pair on one host copies memory. Placement is read live, since vMotion and DRS move machines; a VM whose host is
    not known is left out too, because its pair might lie on one host.

    Args:
        pairs: of VMs.
        placement: ESXi host of each VM; None or absent where it is not known.
    """
    kept: list[tuple[str, str]] = []
    left: dict[tuple[str, str], str] = {}
    for pair in pairs:
        a, b = (placement.get(name) for name in pair)
        if a is None or b is None:
            lost = " and ".join(name for name in pair if placement.get(name) is None)
            left[pair] = f"the host of {lost} is not known"
        elif a == b:
            left[pair] = f"both run on {a}: memory is copied, the fabric is not used"
        else:
            kept.append(pair)
    return tuple(kept), left

"""The header that every perftest program prints before its table. Found by labels, never by line number."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from itertools import pairwise
from typing import Literal

from components.validation.parsers.lines import ResultFormatError
from stacks.words import plural

_TITLE = re.compile(r"^\s*([A-Z][A-Za-z_]*(?: [A-Z][A-Za-z_]*){0,5} Test)\s*$")
_WORDS = {
    *("Send", "Send_imm", "RDMA_Write", "RDMA_Write_imm", "RDMA_Read", "Atomic", "CMP_AND_SWAP", "FETCH_AND_ADD"),
    *("Bidirectional", "Post", "List", "BW", "Latency", "Multicast", "Test"),
}
"""All that perftest makes titles of: a damaged word must not turn a sum of two directions into one."""
_LABELS = {
    "device": re.compile(r"\bDevice\s*: (\S+)"),
    "mtu": re.compile(r"^\s*Mtu\s*: ([0-9]{1,6})\[B\]\s*$"),
    "link": re.compile(r"^\s*Link type\s*: (\S+)\s*$"),
    "gid": re.compile(r"^\s*GID index\s*: ([0-9]{1,4})\s*$"),
    "cm": re.compile(r"^\s*rdma_cm QPs\s*: (ON|OFF)\s*$"),
    "qps": re.compile(r"^\s*Number of qps\s*: ([0-9]{1,5})\b"),
}
_NEEDED = ("device", "mtu", "link", "cm")
_NOTES = (
    ("Conflicting CPU frequency", "CPU frequency varies"),
    ("BW peak won't be measured", "peak not measured"),
)
"""Messages that leave the average as good as it is: the TSC that was sampled is what perftest computes with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """What one end says of the test before it runs."""

    title: str
    """Such as `RDMA_Write BW Test`."""
    role: Literal["client", "server"]
    device: str
    path_mtu_bytes: int
    """With rdma_cm this is the port's active MTU, not necessarily the path's; without it, the path's."""
    link_type: str
    gid_index: int | None
    queue_pairs: int
    rdma_cm: bool
    local_gid: IPv4Address | IPv6Address | None
    remote_gid: IPv4Address | IPv6Address | None
    notes: tuple[str, ...]
    """Warnings that do not make the numbers worse."""


def header_of(lines: list[str]) -> Header:
    """Reads the header.

    Raises:
        ResultFormatError: when there is none, more than one, or one that lacks what every version prints.
    """
    titles = [m[1] for line in lines if (m := _TITLE.match(line))]
    if not titles:
        raise ResultFormatError(f"no perftest output: no title among {plural(len(lines), 'line')}")
    if len(titles) > 1:
        raise ResultFormatError(f"{len(titles)} perftest outputs in one: {', '.join(titles)[:80]}")
    title = titles[0]
    if unknown := [word for word in title.split() if word not in _WORDS]:
        raise ResultFormatError(f"{title}: unknown word {unknown[0]} in the title")
    found = {key: _only(pattern, lines, f"{title}: {key}") for key, pattern in _LABELS.items()}
    if missing := [key for key in _NEEDED if found[key] is None]:
        raise ResultFormatError(f"{title}: the header lacks {', '.join(missing)}: cut short")
    gid = found["gid"]
    return Header(
        title=title,
        role="server" if any("Waiting for client to connect" in line for line in lines) else "client",
        device=str(found["device"]),
        path_mtu_bytes=int(str(found["mtu"])),
        link_type=str(found["link"]),
        gid_index=int(gid) if gid else None,
        queue_pairs=int(found["qps"] or 1),
        rdma_cm=found["cm"] == "ON",
        local_gid=_gid_after("local address", lines),
        remote_gid=_gid_after("remote address", lines),
        notes=tuple(note for text, note in _NOTES if any(text in line for line in lines)),
    )


def _only(pattern: re.Pattern[str], lines: list[str], what: str) -> str | None:
    values = {m[1] for line in lines if (m := pattern.search(line))}
    if len(values) > 1:
        raise ResultFormatError(f"{what}: two values, {' and '.join(sorted(values))[:60]}")
    return values.pop() if values else None


def _gid_after(label: str, lines: list[str]) -> IPv4Address | IPv6Address | None:
    """The GID in the line after `label`; perftest prints its sixteen bytes in decimal."""
    for line, following in pairwise(lines):
        if label in line and line.strip().startswith(label) and following.strip().startswith("GID:"):
            words = following.split("GID:")[1].strip().split(":")
            if len(words) != 16 or not all(re.fullmatch("[0-9]{1,3}", word) and int(word) < 256 for word in words):
                return None
            address = IPv6Address(bytes(map(int, words)))
            return address.ipv4_mapped or address
    return None

"""Reads the text that perftest's bandwidth tests print; all versions since 2016. Judges nothing."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from itertools import pairwise

from stacks.base import LabError

MIB_S_IN_GBIT_S = 2**20 * 8 / 1e9
"""perftest's MB/sec and MiB/sec are both 2^20 bytes; its Gb/sec is 10^9 bits (perftest_parameters.c)."""
FACTOR_OF_UNIT = {"Gb/sec": 1.0, "MB/sec": MIB_S_IN_GBIT_S, "MiB/sec": MIB_S_IN_GBIT_S}


class ResultFormatError(LabError):
    """A tool's output that gives no number: foreign, truncated, or contradicting itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One message size."""

    message_bytes: int
    iterations: int
    average_gbit_s: float
    message_rate_mpps: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Perftest:
    """What one end of a test printed. Both ends print the client's numbers: count one of them."""

    title: str
    """Such as `RDMA_Write BW Test`."""
    device: str
    path_mtu_bytes: int
    """With rdma_cm this is the port's active MTU, not necessarily the path's; without it, the path's."""
    link_type: str
    gid_index: int | None
    rdma_cm: bool
    local_gid: IPv4Address | IPv6Address | None
    remote_gid: IPv4Address | IPv6Address | None
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    """Warnings that do not make the number worse."""


_LABELS = {
    "device": r"\bDevice\s*: (\S+)",
    "mtu": r"^\s*Mtu\s*: (\d+)\[B\]",
    "link": r"^\s*Link type\s*: (\S+)",
    "gid": r"^\s*GID index\s*: (\d+)",
    "cm": r"^\s*rdma_cm QPs\s*: (ON|OFF)",
}
_COLUMN = re.compile(r"#bytes|#iterations|[A-Za-z][A-Za-z_ ]*\[[^\]]+\]")
_RULE = re.compile(r"^\s*-{20,}\s*$")
_ROW = re.compile(r"^\s*\d+\s+\d+\s+[\d.]+(\s+[\d.]+)+\s*$")


def parse_bandwidth(text: str) -> Perftest:
    """Reads one end's output; stderr may be mixed in.

    Raises:
        ResultFormatError: with the reason; a number is never guessed.
    """
    lines = text.replace("\r", "").splitlines()
    title = next((m[1] for line in lines if (m := re.match(r"^\s*(\S+( \S+)* Test)\s*$", line))), None)
    if title is None:
        raise ResultFormatError(f"no perftest output: no title among {len(lines)} lines")
    if "BW" not in title.split():
        raise ResultFormatError(f"{title} is no bandwidth test")
    found = {key: _first(pattern, lines) for key, pattern in _LABELS.items()}
    if missing := [key for key in ("device", "mtu", "link", "cm") if found[key] is None]:
        raise ResultFormatError(f"{title}: the header lacks {', '.join(missing)}: cut short")
    gid = found["gid"]
    return Perftest(
        title=title,
        device=str(found["device"]),
        path_mtu_bytes=int(str(found["mtu"])),
        link_type=str(found["link"]),
        gid_index=int(gid) if gid else None,
        rdma_cm=found["cm"] == "ON",
        local_gid=_gid_after("local address", lines),
        remote_gid=_gid_after("remote address", lines),
        rows=tuple(_rows(title, lines)),
        notes=("CPU frequency varies",) if any("Conflicting CPU frequency" in line for line in lines) else (),
    )


def _rows(title: str, lines: list[str]) -> list[Row]:
    start = next((i for i, line in enumerate(lines) if line.strip().startswith("#bytes")), None)
    if start is None:
        raise ResultFormatError(f"{title}: no table: the test ended before it measured")
    columns = [column.strip() for column in _COLUMN.findall(lines[start])]
    units = {m[1] for column in columns if (m := re.match(r"BW average\[(.+)\]$", column))}
    if columns[:2] != ["#bytes", "#iterations"] or len(units) != 1:
        raise ResultFormatError(f"{title}: the table's header has no average bandwidth: {lines[start].strip()[:80]}")
    unit = units.pop()
    if unit not in FACTOR_OF_UNIT:
        raise ResultFormatError(f"{title}: bandwidth in {unit}; known are {', '.join(FACTOR_OF_UNIT)}")
    average, rate = columns.index(f"BW average[{unit}]"), _index_of("MsgRate[Mpps]", columns, title)
    end = next((i for i, line in enumerate(lines) if i > start and _RULE.match(line)), None)
    if end is None:
        raise ResultFormatError(f"{title}: the table has no end: cut short")
    rows = []
    for line in lines[start + 1 : end]:
        if not _ROW.match(line):
            continue  # stderr, such as the note on CPU frequencies, falls between header and row
        cells = line.split()
        if len(cells) != len(columns):
            raise ResultFormatError(f"{title}: {len(cells)} values under {len(columns)} columns: {line.strip()[:80]}")
        rows.append(_row(title, cells, average, rate, FACTOR_OF_UNIT[unit]))
    if not rows:
        raise ResultFormatError(f"{title}: the table has no row: nothing was measured")
    return rows


def _row(title: str, cells: list[str], average: int, rate: int, factor: float) -> Row:
    try:
        row = Row(
            message_bytes=int(cells[0]),
            iterations=int(cells[1]),
            average_gbit_s=float(cells[average]) * factor,
            message_rate_mpps=float(cells[rate]),
        )
    except ValueError as error:
        raise ResultFormatError(f"{title}: {error}") from None
    # the message rate says the same in other words, so a damaged digit shows: 6 decimals of Mpps, 2 of Gb/s
    by_rate = row.message_rate_mpps * row.message_bytes * 8 / 1e3
    allowed = 0.5e-6 * row.message_bytes * 8 / 1e3 + 0.01 * factor + 0.005 * row.average_gbit_s
    if row.average_gbit_s <= 0 or abs(by_rate - row.average_gbit_s) > allowed:
        raise ResultFormatError(
            f"{title}: {row.average_gbit_s:.4f} Gbit/s and {row.message_rate_mpps} million messages of "
            f"{row.message_bytes} bytes a second contradict each other"
        )
    return row


def _index_of(column: str, columns: list[str], title: str) -> int:
    if column not in columns:
        raise ResultFormatError(f"{title}: the table has no column {column}")
    return columns.index(column)


def _first(pattern: str, lines: list[str]) -> str | None:
    return next((m[1] for line in lines if (m := re.search(pattern, line))), None)


def _gid_after(label: str, lines: list[str]) -> IPv4Address | IPv6Address | None:
    """The GID in the line after `label`; perftest prints its sixteen bytes in decimal."""
    for line, following in pairwise(lines):
        if line.strip().startswith(label) and following.strip().startswith("GID:"):
            words = following.split("GID:")[1].strip().split(":")
            if len(words) != 16 or not all(word.isdecimal() and int(word) < 256 for word in words):
                return None
            address = IPv6Address(bytes(map(int, words)))
            return address.ipv4_mapped or address
    return None


_CAUSES = (
    (r"Unable to find the Infiniband/RoCE device|Did not detect devices", "the RDMA device is not there"),
    (r"Port number \d+ state is Down", "the port is down: cable, switch port or link setting"),
    (r"Couldn't connect to", "the server's port did not answer: no route on the rail, or a firewall"),
    (r"Couldn't listen to port|Address already in use", "the port is taken: another test is running"),
    (r"Couldn't allocate MR|Cannot allocate memory", "memory could not be registered: raise the memlock limit"),
    (r"Failed to exchange data|Incompatibility|mismatch: local", "the two ends disagree: same perftest on both?"),
    (r"GID types", "the ends use different RoCE versions"),
    (r"Failed status[^(]*\(?1?\(?12\b|status 12", "retries exceeded: path MTU, VLAN, PFC or a filter on UDP 4791"),
    (r"Failed status[^(]*\(?13\b|status 13", "receiver not ready"),
    (r"Completion with error|Failed status", "a completion with an error: packets of this path are lost"),
)


def cause_of(stderr: str) -> str | None:
    """The most likely cause of a failed run, from perftest's own messages."""
    return next((cause for pattern, cause in _CAUSES if re.search(pattern, stderr)), None)

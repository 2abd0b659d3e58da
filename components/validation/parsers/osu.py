"""Reads the tables of the OSU micro-benchmarks, versions 5 to 7: latency, bandwidth, message rate. Judges nothing."""

import re
from dataclasses import dataclass
from itertools import pairwise

from components.validation.parsers.lines import (
    INTEGER,
    NUMBER,
    Line,
    ResultFormatError,
    decimals,
    integer,
    lines_of,
    number,
    of_one_rank,
    rounding,
)
from stacks.words import plural

_TITLE = re.compile(r"^# OSU (?P<title>\S.{1,80}? Test)(?:\s+v(?P<version>[0-9.]{1,10}))?\s*$")
_ROW = re.compile(rf"^\s*{INTEGER}(?:\s+(?:{NUMBER}|Pass|Fail))+\s*$")
_LIKE_A_ROW = re.compile(r"^\s*[0-9]")
_COLUMN = re.compile(r"\S+(?: \S+)*")
LATENCIES = ("Latency (us)", "Avg Latency(us)", "Latency(us)")
BANDWIDTHS = ("Bandwidth (MB/s)", "MB/s")
RATE = "Messages/s"
CHECKED = "Validation"
GBIT_S = 8e6 / 1e9
"""An OSU MB is 10^6 bytes, unlike perftest's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OsuRow:
    """One message size. A value stands in the table once, but where the message rate stands beside it."""

    message_bytes: int
    latency_us: float | None
    bandwidth_gbit_s: float | None
    message_rate_s: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Osu:
    """One table."""

    title: str
    """Such as `MPI Latency Test`."""
    version: str | None
    both_directions: bool
    """The bandwidth is the sum of both."""
    rows: tuple[OsuRow, ...]


def parse_osu(text: str) -> Osu:
    """Reads one benchmark's output.

    Raises:
        ResultFormatError: with the reason; a number is never guessed.
    """
    lines = lines_of(text)
    titles = [(number, m) for number, line in enumerate(lines) if (m := _TITLE.match(line.text))]
    if not titles:
        raise ResultFormatError(f"no OSU benchmark among {plural(len(lines), 'line')}")
    if len(titles) > 1:
        raise ResultFormatError(f"{len(titles)} OSU benchmarks in one log")
    start, title = titles[0]
    below = lines[start + 1 :]
    heads = [line for line in below if line.text.startswith("# Size")]
    if len(heads) != 1:
        raise ResultFormatError(f"{title['title']}: {len(heads)} tables where one was expected")
    columns = _COLUMN.findall(heads[0].text.removeprefix("# "))
    if columns[0] != "Size" and columns[0].startswith("Size "):
        columns[:1] = ["Size", columns[0].removeprefix("Size ")]
    printed = of_one_rank([line for line in below if _LIKE_A_ROW.match(line.text)], "rows")
    rows = tuple(_row(title["title"], columns, line) for line in printed)
    if not rows:
        raise ResultFormatError(f"{title['title']}: the table has no row: nothing was measured")
    sizes = [row.message_bytes for row in rows]
    if any(later != max(1, 2 * earlier) for earlier, later in pairwise(sizes)):
        raise ResultFormatError(f"{title['title']}: sizes do not double from row to row: a row is missing or damaged")
    return Osu(
        title=title["title"],
        version=title["version"],
        both_directions="Bi-Directional" in title["title"],
        rows=rows,
    )


def _row(title: str, columns: list[str], line: Line) -> OsuRow:
    cells = line.text.split()
    if not _ROW.match(line.text) or len(cells) != len(columns):
        raise ResultFormatError(f"{title}: no row of {len(columns)} columns: {line.text.strip()[:80]!r}")
    said = dict(zip(columns, cells, strict=True))
    if said.get(CHECKED, "Pass") != "Pass":
        raise ResultFormatError(f"{title}: {cells[0]} bytes arrived wrong: validation {said[CHECKED]}")
    latency, bandwidth = _one(LATENCIES, said), _one(BANDWIDTHS, said)
    if latency is None and bandwidth is None:
        raise ResultFormatError(f"{title}: unknown columns: {', '.join(columns)[:80]}")
    if any(decimals(cell) != 2 for cell in (latency, bandwidth, said.get(RATE)) if cell):
        raise ResultFormatError(f"{title}: a cell has lost digits: {line.text.strip()[:80]!r}")
    row = OsuRow(
        message_bytes=integer(cells[0], f"{title}: message size"),
        latency_us=number(latency, title) if latency else None,
        bandwidth_gbit_s=number(bandwidth, title) * GBIT_S if bandwidth else None,
        message_rate_s=number(said[RATE], title) if RATE in said else None,
    )
    if (row.latency_us if row.latency_us is not None else row.bandwidth_gbit_s or 0) <= 0:
        raise ResultFormatError(f"{title}: nothing or less: {line.text.strip()[:80]!r}")
    if row.message_rate_s is not None and bandwidth:
        apart = abs(row.message_rate_s * row.message_bytes / 1e6 - number(bandwidth, title))
        if apart > (rounding(bandwidth) + rounding(said[RATE]) * row.message_bytes / 1e6) * 1.001:
            raise ResultFormatError(
                f"{title}: {bandwidth} MB/s and {said[RATE]} messages a second contradict each other"
            )
    return row


def _one(names: tuple[str, ...], said: dict[str, str]) -> str | None:
    return next((said[name] for name in names if name in said), None)

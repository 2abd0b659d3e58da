"""Reads the log of an nccl-tests run, old (`error`) and new (`#wrong`) tables. Judges nothing."""

import re
from dataclasses import dataclass
from typing import Literal

from components.validation.parsers.perftest import ResultFormatError
from components.validation.records import median

LARGE_BYTES = 2**30
"""From here up busbw is no longer bound by latency (nccl-tests doc/PERFORMANCE.md)."""
AVERAGE_TOLERANCE = 0.005

_TAG = re.compile(r"^\[\d+,\d+\]<std(out|err)>:\s?")
_ROW = re.compile(r"^\s*\d+\s+\d+\s+[a-z]\w*\s")
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """One half of a row. GB are 10^9 bytes."""

    time_us: float
    algbw_gbyte_s: float
    busbw_gbyte_s: float
    wrong: int | None
    """None in old tables, which print the largest error instead, and where nothing was checked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One message size."""

    size_bytes: int
    out_of_place: Placement
    in_place: Placement | None


@dataclass(frozen=True, kw_only=True, slots=True)
class NcclLog:
    """One whole table with its footers, and the transport that NCCL reported."""

    rows: tuple[Row, ...]
    average_busbw_gbyte_s: float
    out_of_bounds: int
    transport: Literal["ib", "socket"] | None

    @property
    def wrong(self) -> int | None:
        """Wrong elements over all rows; None when no row says."""
        halves = [half for row in self.rows for half in (row.out_of_place, row.in_place) if half]
        counts = [half.wrong for half in halves if half.wrong is not None]
        return sum(counts) if counts else None

    @property
    def large(self) -> tuple[Row, ...]:
        """The rows that say what the fabric carries: from 1 GiB up, else the largest one."""
        return tuple(row for row in self.rows if row.size_bytes >= LARGE_BYTES) or self.rows[-1:]

    @property
    def busbw_gbyte_s(self) -> float:
        """The metric: median out-of-place busbw of the large rows."""
        return round(median([row.out_of_place.busbw_gbyte_s for row in self.large]), 4)


def parse_nccl(text: str) -> NcclLog:
    """Reads a launcher's log, with tags, debug lines and warnings of all ranks between the rows.

    Raises:
        ResultFormatError: with the reason; a number is never guessed.
    """
    lines = [_TAG.sub("", line) for line in text.replace("\r", "").splitlines()]
    columns = next((line.lstrip("# ").split() for line in lines if _is_header(line)), None)
    if columns is None:
        raise ResultFormatError(f"no nccl-tests table among {len(lines)} lines")
    rows = [_row(columns, line.split()) for line in lines if _ROW.match(line)]
    if not rows:
        raise ResultFormatError("the nccl-tests table has no row: the job ended before it measured")
    bounds = _footer(r"^# Out of bounds values : (\d+) (?:OK|FAILED)\s*$", lines)
    average = _footer(rf"^# Avg bus bandwidth\s*: ({_NUMBER})\s*$", lines)
    if bounds is None or average is None:
        raise ResultFormatError(f"the nccl-tests table breaks off after {len(rows)} rows: its footers are missing")
    _refuse_contradictions(rows, average)
    return NcclLog(
        rows=tuple(rows), average_busbw_gbyte_s=average, out_of_bounds=int(bounds), transport=_transport(text)
    )


def _is_header(line: str) -> bool:
    words = line.lstrip("# ").split()
    return line.startswith("#") and words[:2] == ["size", "count"] and "busbw" in words


def _row(columns: list[str], cells: list[str]) -> Row:
    if len(cells) != len(columns):
        raise ResultFormatError(f"{len(cells)} values under {len(columns)} columns: {' '.join(cells)[:80]}")
    starts = [i for i, column in enumerate(columns) if column == "time"]
    if not starts or any(
        columns[i : i + 3] != ["time", "algbw", "busbw"] or columns[i + 3] not in ("error", "#wrong") for i in starts
    ):
        raise ResultFormatError(f"unknown columns of an nccl-tests table: {' '.join(columns)}")
    halves = [_placement(cells[i : i + 4], counted=columns[i + 3] == "#wrong") for i in starts]
    if halves[0] is None:
        raise ResultFormatError(f"no out-of-place value: {' '.join(cells)[:80]}")
    return Row(size_bytes=int(cells[0]), out_of_place=halves[0], in_place=halves[1] if len(halves) > 1 else None)


def _placement(cells: list[str], *, counted: bool) -> Placement | None:
    if cells[0] == "N/A":
        return None
    if not all(re.fullmatch(_NUMBER, cell) for cell in cells[:3]):
        raise ResultFormatError(f"not a measurement: {' '.join(cells)[:80]}")
    time_us, algbw, busbw = map(float, cells[:3])
    wrong = cells[3]
    if wrong != "N/A" and not re.fullmatch(r"\d+" if counted else _NUMBER, wrong):
        raise ResultFormatError(f"not a count of wrong elements: {wrong[:20]}")
    return Placement(
        time_us=time_us,
        algbw_gbyte_s=algbw,
        busbw_gbyte_s=busbw,
        wrong=int(wrong) if counted and wrong != "N/A" else None,
    )


def _refuse_contradictions(rows: list[Row], average: float) -> None:
    """Each row says its speed twice and the footer says the mean: a damaged or missing row shows."""
    halves = [(row.size_bytes, half) for row in rows for half in (row.out_of_place, row.in_place) if half]
    if [row.size_bytes for row in rows] != sorted({row.size_bytes for row in rows}):
        raise ResultFormatError("sizes do not grow from row to row: two tables, or a damaged one")
    factors = [half.busbw_gbyte_s / half.algbw_gbyte_s for _, half in halves if half.algbw_gbyte_s >= 1]
    factor = median(factors) if factors else None
    for size_bytes, half in halves:
        by_time = size_bytes / half.time_us / 1e3 if half.time_us > 0 else 0
        wrong_algbw = abs(by_time - half.algbw_gbyte_s) > 0.006 + 0.001 * by_time
        wrong_busbw = factor is not None and abs(half.algbw_gbyte_s * factor - half.busbw_gbyte_s) > (
            0.02 + 0.001 * half.busbw_gbyte_s
        )
        if half.time_us <= 0 or wrong_algbw or wrong_busbw:
            raise ResultFormatError(
                f"{size_bytes} bytes: {half.time_us} us, algbw {half.algbw_gbyte_s} and busbw {half.busbw_gbyte_s} "
                "GB/s contradict each other"
            )
    mean = sum(half.busbw_gbyte_s for _, half in halves) / len(halves)
    if abs(mean - average) > AVERAGE_TOLERANCE * max(mean, average) + 0.005:
        raise ResultFormatError(f"the rows' mean busbw is {mean:.4f}, the footer says {average}: rows are missing")


def _footer(pattern: str, lines: list[str]) -> float | None:
    return next((float(m[1]) for line in lines if (m := re.match(pattern, line.rstrip()))), None)


def _transport(text: str) -> Literal["ib", "socket"] | None:
    """NCCL falls back to sockets without a word in the table, and still exits with 0."""
    if re.search(r"NET/Socket : Using|Using network Socket", text):
        return "socket"
    return "ib" if re.search(r"NET/IB : Using \[0\]|Using network IB", text) else None

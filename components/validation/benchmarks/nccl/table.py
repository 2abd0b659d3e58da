"""Reads the table of nccl-tests, old (`error`) and new (`#wrong`), with and without extra columns.
Judges nothing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from components.validation.parsers import (
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
from stacks.frozen import frozen
from stacks.words import plural

LARGE_BYTES = 2**30
"""From here up latency is a small share of a row's time on a few nodes (nccl-tests
doc/PERFORMANCE.md)."""
ALIGNED_BYTES = 2**20
"""Below, sizes that are rounded to a multiple of the ranks do not grow evenly."""
SLACK = 1e-6


class Rounding(NamedTuple):
    """Half of the last printed digit of each value of a placement."""

    time_us: float
    algbw_gbyte_s: float
    busbw_gbyte_s: float


@frozen
class NcclPlacement:
    """One half of a row. GB are 10^9 bytes."""

    size_bytes: int
    time_us: float
    """Bandwidth confirms it for large messages; small ones are in the log only once."""
    algbw_gbyte_s: float
    busbw_gbyte_s: float
    rounding: Rounding
    wrong: int | None = None
    """None in old tables, which print the largest error instead, and where nothing was checked."""


@frozen
class NcclRow:
    """One message size."""

    size_bytes: int
    count: int
    """The size in elements, of one rank or of all."""
    halves: tuple[NcclPlacement, ...]
    """Out of place, and in place if that was measured."""

    @property
    def out_of_place(self) -> NcclPlacement:
        return self.halves[0]


@frozen
class NcclTable:
    """One whole table with its footers."""

    ranks: int | None
    rows: tuple[NcclRow, ...]
    average_busbw_gbyte_s: float
    """The footer's mean over all rows and both placements: no metric, as it depends on the
    sizes."""
    out_of_bounds: int
    memory_bytes: int | None = None
    """The largest message that the GPUs have memory for, if less than the job's."""

    @property
    def wrong(self) -> int | None:
        """Wrong elements over all rows; None when no row says."""
        counts = [half.wrong for row in self.rows for half in row.halves if half.wrong is not None]
        return sum(counts) if counts else None

    @property
    def large(self) -> tuple[NcclRow, ...]:
        """The rows that compare transports: from 1 GiB up, else the largest one."""
        return tuple(row for row in self.rows if row.size_bytes >= LARGE_BYTES) or self.rows[-1:]

    @property
    def busbw_gbyte_s(self) -> float:
        """The metric: out-of-place busbw of the largest row, where latency has the least share."""
        return self.rows[-1].out_of_place.busbw_gbyte_s


def refuse_contradictions(halves: Sequence[NcclPlacement], ranks: int | None) -> None:
    """Each placement says its speed twice, and busbw is algbw times one factor in the whole table.

    Raises:
        ResultFormatError: naming the size whose values do not fit together, or the rest.
    """
    least, most = 0.0, 2.0
    for half in halves:
        size_bytes, off = half.size_bytes, half.rounding
        if half.time_us <= 0:
            raise ResultFormatError(f"{size_bytes} bytes in {half.time_us} us: not a measurement")
        least_us = max(half.time_us - off.time_us, half.time_us / 2)
        slow = size_bytes / (half.time_us + off.time_us) / 1e3 * (1 - SLACK)
        fast = size_bytes / least_us / 1e3 * (1 + SLACK)
        if not slow - off.algbw_gbyte_s <= half.algbw_gbyte_s <= fast + off.algbw_gbyte_s:
            raise _contradiction(half)
        if size_bytes:
            off_busbw = off.busbw_gbyte_s * (1 + SLACK)
            least = max(least, (half.busbw_gbyte_s - off_busbw) / fast)
            most = min(most, (half.busbw_gbyte_s + off_busbw) / slow)
        elif half.busbw_gbyte_s:
            raise _contradiction(half)
        if least > most:
            raise _contradiction(half)
    if not _is_a_factor(least, most, ranks):
        raise ResultFormatError(
            f"no collective has a busbw of {least:.4f} to {most:.4f} times its algbw: contradict"
        )


def _contradiction(half: NcclPlacement) -> ResultFormatError:
    return ResultFormatError(
        f"{half.size_bytes} bytes: {half.time_us} us, algbw {half.algbw_gbyte_s} and busbw "
        f"{half.busbw_gbyte_s} GB/s contradict each other or the rows before"
    )


def _is_a_factor(least: float, most: float, ranks: int | None) -> bool:
    """1, (n-1)/n or 2(n-1)/n (nccl-tests doc/PERFORMANCE.md); of any number of ranks when the log
    does not say.
    """
    if least <= 1 <= most:
        return True
    for turns in (1, 2):
        low, high = least / turns, most / turns
        if ranks is not None:
            fits = low <= (ranks - 1) / ranks <= high
        else:
            # some n with low <= 1 - 1/n <= high
            fits = low < 1 and (high >= 1 or int(1 / (1 - high) + 1e-9) >= 1 / (1 - low) - 1e-9)
        if fits:
            return True
    return False


def refuse_gaps(sizes: list[int]) -> None:
    """Sizes grow by one factor or one step: a missing or a foreign row shows.

    Raises:
        ResultFormatError: where they do not.
    """
    if any(later < earlier or (later == earlier and later) for earlier, later in pairwise(sizes)):
        raise ResultFormatError("sizes do not grow from row to row: two tables, or a damaged one")
    large = [size for size in sizes if size >= ALIGNED_BYTES]
    steps = [later - earlier for earlier, later in pairwise(large)]
    factors = [later / earlier for earlier, later in pairwise(large)]
    if len(large) > 2 and not (_alike(steps) or _alike(factors)):
        raise ResultFormatError(
            "sizes grow neither by one factor nor by one step: a row is missing or damaged"
        )


def refuse_other_counts(rows: list[NcclRow]) -> None:
    """The count is that of one rank or of all, but the same in the whole table.

    Raises:
        ResultFormatError: naming the row that differs from the one before, or has no whole number
            of bytes an element.
    """
    counted = [row for row in rows if row.count]
    for row in counted:
        same = row.size_bytes * counted[0].count == counted[0].size_bytes * row.count
        if row.size_bytes % row.count or not same:
            raise ResultFormatError(
                f"{row.size_bytes} bytes and {row.count} elements contradict each other or the "
                "rows before"
            )


def _alike(values: list[float] | list[int]) -> bool:
    return max(values) <= min(values) * 1.01


def refuse_wrong_footers(
    halves: list[NcclPlacement],
    average_gbyte_s: float,
    average_rounding: float,
    out_of_bounds: int,
) -> None:
    """The footer's mean is over all rows, and it counts wrong results if and only if a row does.

    Raises:
        ResultFormatError: when rows and footers contradict each other.
    """
    mean = sum(half.busbw_gbyte_s for half in halves) / len(halves)
    allowed = sum(half.rounding.busbw_gbyte_s for half in halves) / len(halves) + average_rounding
    if abs(mean - average_gbyte_s) > allowed * 1.001:
        raise ResultFormatError(
            f"the rows' mean busbw is {mean:.4f}, the footer says {average_gbyte_s}: rows are "
            "missing"
        )
    counts = [half.wrong for half in halves if half.wrong is not None]
    if counts and (sum(counts) > 0) != (out_of_bounds > 0):
        raise ResultFormatError(
            f"{sum(counts)} wrong elements in the rows and {out_of_bounds} out of bounds in the "
            "footer contradict "
            "each other"
        )


_LIKE_A_ROW = re.compile(rf"^\s*{INTEGER}\s+{INTEGER}\s")
_BOUNDS = re.compile(r"^# Out of bounds values\s*: ([0-9]{1,18}) (OK|FAILED)\s*$")
_AVERAGE = re.compile(rf"^# Avg bus bandwidth\s*: ({NUMBER})(?: (?:OK|FAILED)?)?\s*$")
_MEMORY = re.compile(r"^# Reducing maxBytes to ([0-9]{1,18}) due to memory limitation\s*$")
_RANK = re.compile(r"^#\s+Rank\s+([0-9]{1,6}) ")
_STAMP = re.compile(r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$")
_TIMES = ("time", "cputime")
_PER_ITERATION = ("i_min", "i_max", "i_p99", "i_cv%")


def parse_nccl(text: str) -> NcclTable:
    """Reads a launcher's log, with tags and lines of all ranks between the rows of its one table.

    Raises:
        ResultFormatError: with the reason; a number is never guessed.
    """
    lines = lines_of(text)
    heads = [number for number, line in enumerate(lines) if _is_header(line.text)]
    if not heads:
        raise ResultFormatError(f"no nccl-tests table among {plural(len(lines), 'line')}")
    if len(heads) > 1:
        raise ResultFormatError(
            f"{len(heads)} nccl-tests tables in one log, where one was expected"
        )
    return _table(lines, heads[0])


def lost_its_beginning(text: str) -> bool:
    """Whether a log ends with right values, but lacks the list of ranks that the job prints first.

    The kubelet rotates a log that grows over `containerLogMaxSize`, and the API gives only the
    newest file. Wrong values are a fault with and without the beginning.
    """
    lines = lines_of(text)
    ended = any(bounds[2] == "OK" for bounds in _matches(_BOUNDS, lines))
    return ended and not _matches(_RANK, lines)


def _matches(pattern: re.Pattern[str], lines: Iterable[Line]) -> list[re.Match[str]]:
    matches = [pattern.match(line.text) for line in lines]
    return [match for match in matches if match]


def _is_header(text: str) -> bool:
    words = text.lstrip("# ").split()
    return text.startswith("#") and words[:2] == ["size", "count"] and "busbw" in words


def _table(lines: list[Line], head: int) -> NcclTable:
    columns = lines[head].text.lstrip("# ").split()
    starts = _blocks(columns)
    printed = of_one_rank(
        [line for line in lines[head + 1 :] if _LIKE_A_ROW.match(line.text)], "rows"
    )
    rows = [_row(columns, starts, line.text) for line in printed]
    if not rows:
        raise ResultFormatError("the nccl-tests table has no row: the job ended before it measured")
    bounds = _footer(_BOUNDS, lines[head:], len(rows))
    average = _footer(_AVERAGE, lines[head:], len(rows))
    out_of_bounds = integer(bounds[1], "out of bounds values")
    if (bounds[2] == "FAILED") != (out_of_bounds > 0):
        raise ResultFormatError(
            f"out of bounds values: {bounds[1]} {bounds[2]} contradict each other"
        )
    ranks = _ranks(lines[:head])
    memory = []
    for limit in _matches(_MEMORY, lines):
        memory.append(integer(limit[1], "memory limitation"))
    halves = [half for row in rows for half in row.halves]
    refuse_gaps([row.size_bytes for row in rows])
    refuse_other_counts(rows)
    refuse_contradictions(halves, ranks)
    average_gbyte_s = number(average[1], "average bus bandwidth")
    # printed with six digits, whatever their number behind the point
    refuse_wrong_footers(halves, average_gbyte_s, max(rounding(average[1]), 0.5e-6), out_of_bounds)
    return NcclTable(
        ranks=ranks,
        rows=tuple(rows),
        average_busbw_gbyte_s=average_gbyte_s,
        out_of_bounds=out_of_bounds,
        memory_bytes=min(memory, default=None),
    )


def _ranks(lines: list[Line]) -> int | None:
    """As many as there are devices listed; None if the log cuts a long list."""
    numbers = {match[1] for match in _matches(_RANK, lines)}
    if any(line.text.endswith("...") for line in lines):
        return None
    return len(numbers) or None


def _blocks(columns: list[str]) -> list[int]:
    """The first columns of the out-of-place and in-place measurements."""
    starts = [i for i, column in enumerate(columns) if column in _TIMES]
    rest = columns[starts[0] :] if starts else []
    if rest and rest[-1] == "timestamp":
        rest = rest[:-1]
    block = rest[: len(rest) // 2] if len(starts) == 2 else rest
    known = block[1:3] == ["algbw", "busbw"] and block[3:4] in (["error"], ["#wrong"])
    known = known and set(columns[2 : starts[0]]) <= {"type", "redop", "root"}
    if not known or rest != block * len(starts) or tuple(block[4:]) not in ((), _PER_ITERATION):
        raise ResultFormatError(
            f"unknown columns of an nccl-tests table: {' '.join(columns)[:120]}"
        )
    return starts


def _row(columns: list[str], starts: list[int], text: str) -> NcclRow:
    cells = text.split()
    if columns[-1] == "timestamp" and _STAMP.match(" ".join(cells[-2:])):
        cells = [*cells[:-2], " ".join(cells[-2:])]  # its one column holds a date and a time
    if len(cells) != len(columns):
        raise ResultFormatError(
            f"{plural(len(cells), 'value')} under {plural(len(columns), 'column')}: "
            f"{' '.join(cells)[:80]}"
        )
    size_bytes = integer(cells[0], "size")
    halves = tuple(_measured(size_bytes, columns, starts, cells))
    if cells[starts[0]] == "N/A":
        raise ResultFormatError(f"no out-of-place value: {' '.join(cells)[:80]}")
    return NcclRow(size_bytes=size_bytes, count=integer(cells[1], "count"), halves=halves)


def _measured(
    size_bytes: int, columns: list[str], starts: list[int], cells: list[str]
) -> Iterator[NcclPlacement]:
    """The halves of a row that were measured; some collectives have no in-place form."""
    for start in starts:
        time, algbw, busbw, wrong = cells[start : start + 4]
        if time == "N/A":
            continue
        what = f"not a measurement: {size_bytes} bytes"
        counted = columns[start + 3] == "#wrong"
        if wrong != "N/A":
            # counts above 999999 are printed like 1e+06
            number(wrong, f"{what}, {columns[start + 3]}")
        numbers = [number(cell, what) for cell in (time, algbw, busbw)]
        if _lost_digits(time, algbw, busbw):
            raise ResultFormatError(f"{what}: a cell has lost digits: {time} {algbw} {busbw}")
        count = None
        if counted and wrong != "N/A":
            count = int(number(wrong, what))
        if min(numbers[1], numbers[2], count or 0) < 0:
            raise ResultFormatError(f"{what}: less than nothing")
        yield NcclPlacement(
            size_bytes=size_bytes,
            time_us=numbers[0],
            algbw_gbyte_s=numbers[1],
            busbw_gbyte_s=numbers[2],
            rounding=Rounding(rounding(time), rounding(algbw), rounding(busbw)),
            wrong=count,
        )


def _lost_digits(time: str, algbw: str, busbw: str) -> bool:
    """Times have two decimals below 100 and one below 10,000; bandwidths have two below 1,000."""
    enough = decimals(time) >= (2 if float(time) < 99.9 else 1 if float(time) < 9999.9 else 0)
    return not enough or any(
        decimals(cell) < (2 if float(cell) < 999.9 else 0) for cell in (algbw, busbw)
    )


def _footer(pattern: re.Pattern[str], lines: list[Line], rows: int) -> re.Match[str]:
    footers = _matches(pattern, lines)
    if not footers:
        raise ResultFormatError(
            f"the nccl-tests table breaks off after {plural(rows, 'row')}: its footers are missing"
        )
    if len(footers) > 1:
        raise ResultFormatError("a footer of the nccl-tests table appears twice")
    return footers[0]

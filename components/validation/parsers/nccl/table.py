"""Reads the log of an nccl-tests run: old (`error`) and new (`#wrong`) tables, with and without extra columns."""

import re
from collections.abc import Iterator

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
from components.validation.parsers.nccl.rows import (
    Measured,
    NcclLog,
    Placement,
    Rounding,
    Row,
    refuse_contradictions,
    refuse_gaps,
    refuse_other_counts,
    refuse_wrong_footers,
)
from components.validation.parsers.nccl_log import transport_of
from stacks.words import plural

_LIKE_A_ROW = re.compile(rf"^\s*{INTEGER}\s+{INTEGER}\s")
_BOUNDS = re.compile(r"^# Out of bounds values\s*: ([0-9]{1,18}) (OK|FAILED)\s*$")
_AVERAGE = re.compile(rf"^# Avg bus bandwidth\s*: ({NUMBER})(?: (?:OK|FAILED)?)?\s*$")
_RANK = re.compile(r"^#\s+Rank\s+([0-9]{1,6}) ")
_STAMP = re.compile(r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$")
_TIMES = ("time", "cputime")
_PER_ITERATION = ("i_min", "i_max", "i_p99", "i_cv%")


def parse_nccl(text: str) -> NcclLog:
    """Reads a launcher's log, with tags, debug lines and warnings of all ranks between the rows of its one table.

    Raises:
        ResultFormatError: with the reason; a number is never guessed.
    """
    lines = lines_of(text)
    heads = [number for number, line in enumerate(lines) if _is_header(line.text)]
    if not heads:
        raise ResultFormatError(f"no nccl-tests table among {plural(len(lines), 'line')}")
    if len(heads) > 1:
        raise ResultFormatError(f"{len(heads)} nccl-tests tables in one log, where one was expected")
    return _table(lines, heads[0])


def _is_header(text: str) -> bool:
    words = text.lstrip("# ").split()
    return text.startswith("#") and words[:2] == ["size", "count"] and "busbw" in words


def _table(lines: list[Line], head: int) -> NcclLog:
    columns = lines[head].text.lstrip("# ").split()
    starts = _blocks(columns)
    printed = of_one_rank([line for line in lines[head + 1 :] if _LIKE_A_ROW.match(line.text)], "rows")
    read = [_row(columns, starts, line.text) for line in printed]
    if not read:
        raise ResultFormatError("the nccl-tests table has no row: the job ended before it measured")
    bounds = _footer(_BOUNDS, lines[head:], len(read))
    average = _footer(_AVERAGE, lines[head:], len(read))
    out_of_bounds = integer(bounds[1], "out of bounds values")
    if (bounds[2] == "FAILED") != (out_of_bounds > 0):
        raise ResultFormatError(f"out of bounds values: {bounds[1]} {bounds[2]} contradict each other")
    ranks = _ranks(lines[:head])
    halves = [half for _, halves in read for half in halves]
    refuse_gaps([row.size_bytes for row, _ in read])
    counts = [integer(line.text.split()[1], "count") for line in printed]
    refuse_other_counts([(row.size_bytes, count) for (row, _), count in zip(read, counts, strict=True)])
    refuse_contradictions(halves, ranks)
    average_gbyte_s = number(average[1], "average bus bandwidth")
    # printed with six digits, whatever their number behind the point
    refuse_wrong_footers(halves, average_gbyte_s, max(rounding(average[1]), 0.5e-6), out_of_bounds)
    return NcclLog(
        ranks=ranks,
        rows=tuple(row for row, _ in read),
        average_busbw_gbyte_s=average_gbyte_s,
        out_of_bounds=out_of_bounds,
        transport=transport_of(lines),
    )


def _ranks(lines: list[Line]) -> int | None:
    """As many as there are devices listed; a long list is cut, and then its length tells nothing."""
    numbers = {m[1] for line in lines if (m := _RANK.match(line.text))}
    return len(numbers) if numbers and not any(line.text.endswith("...") for line in lines) else None


def _blocks(columns: list[str]) -> list[int]:
    """Where the measurements begin, out of place and in place."""
    starts = [i for i, column in enumerate(columns) if column in _TIMES]
    rest = columns[starts[0] :] if starts else []
    if rest and rest[-1] == "timestamp":
        rest = rest[:-1]
    block = rest[: len(rest) // 2] if len(starts) == 2 else rest
    known = block[1:3] == ["algbw", "busbw"] and block[3:4] in (["error"], ["#wrong"])
    known = known and set(columns[2 : starts[0]]) <= {"type", "redop", "root"}
    if not known or rest != block * len(starts) or tuple(block[4:]) not in ((), _PER_ITERATION):
        raise ResultFormatError(f"unknown columns of an nccl-tests table: {' '.join(columns)[:120]}")
    return starts


def _row(columns: list[str], starts: list[int], text: str) -> tuple[Row, list[Measured]]:
    cells = text.split()
    if columns[-1] == "timestamp" and _STAMP.match(" ".join(cells[-2:])):
        cells = [*cells[:-2], " ".join(cells[-2:])]  # its one column holds a date and a time
    if len(cells) != len(columns):
        raise ResultFormatError(
            f"{plural(len(cells), 'value')} under {plural(len(columns), 'column')}: {' '.join(cells)[:80]}"
        )
    size_bytes = integer(cells[0], "size")
    halves = list(_measured(size_bytes, columns, starts, cells))
    if cells[starts[0]] == "N/A":
        raise ResultFormatError(f"no out-of-place value: {' '.join(cells)[:80]}")
    row = Row(
        size_bytes=size_bytes,
        out_of_place=halves[0][1],
        in_place=halves[1][1] if len(halves) > 1 else None,
    )
    return row, halves


def _measured(size_bytes: int, columns: list[str], starts: list[int], cells: list[str]) -> Iterator[Measured]:
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
        half = Placement(
            time_us=numbers[0],
            algbw_gbyte_s=numbers[1],
            busbw_gbyte_s=numbers[2],
            wrong=int(number(wrong, what)) if counted and wrong != "N/A" else None,
        )
        if min(half.algbw_gbyte_s, half.busbw_gbyte_s, half.wrong or 0) < 0:
            raise ResultFormatError(f"{what}: less than nothing")
        yield (
            size_bytes,
            half,
            Rounding(time_us=rounding(time), algbw_gbyte_s=rounding(algbw), busbw_gbyte_s=rounding(busbw)),
        )


def _lost_digits(time: str, algbw: str, busbw: str) -> bool:
    """Times have two decimals below 100 (old tables) or 10000 us, one below 10000, bandwidths two below 1000."""
    enough = decimals(time) >= (2 if float(time) < 99.9 else 1 if float(time) < 9999.9 else 0)
    return not enough or any(decimals(cell) < (2 if float(cell) < 999.9 else 0) for cell in (algbw, busbw))


def _footer(pattern: re.Pattern[str], lines: list[Line], rows: int) -> re.Match[str]:
    found = [m for line in lines if (m := pattern.match(line.text))]
    if not found:
        raise ResultFormatError(f"the nccl-tests table breaks off after {plural(rows, 'row')}: its footers are missing")
    if len(found) > 1:
        raise ResultFormatError("a footer of the nccl-tests table stands twice")
    return found[0]

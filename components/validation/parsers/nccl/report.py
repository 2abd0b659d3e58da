"""Reads the JSON that nccl-tests write with `-J`, from a file or between two marker lines of a log.

Its `env` is the writer's whole environment, secrets included: it is dropped here, and the text must be kept nowhere.
"""

import json
import math

from pydantic import JsonValue

from components.validation.parsers.lines import ResultFormatError, lines_of
from components.validation.parsers.nccl.rows import (
    Measured,
    NcclLog,
    Placement,
    Rounding,
    Row,
    refuse_contradictions,
    refuse_gaps,
    refuse_wrong_footers,
)

REPORT_BEGIN, REPORT_END = "--- nccl-tests report ---", "--- end of nccl-tests report ---"
"""Rank 0 writes the file on a worker; a wrapper prints it between these lines into the launcher's log."""
DIGITS = 0.5e-6
"""Half of the last of six decimals, as all numbers are written."""
AVERAGE_KEYS = ("bandwidth", "bandwidith")
"""The second one is how versions before 2.17.9 spell it."""


def report_in(log: str) -> str:
    """The report in a log.

    Raises:
        ResultFormatError: when the markers do not stand around exactly one.
    """
    lines = [line.text for line in lines_of(log)]
    begins = [i for i, line in enumerate(lines) if line.strip() == REPORT_BEGIN]
    ends = [i for i, line in enumerate(lines) if line.strip() == REPORT_END]
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        raise ResultFormatError(
            f"{len(begins)} beginnings and {len(ends)} ends of a report in the log, not one of each"
        )
    return "\n".join(lines[begins[0] + 1 : ends[0]])


def parse_report(text: str) -> NcclLog:
    """Reads a report. It does not tell the transport: that stands in NCCL's own lines.

    Raises:
        ResultFormatError: with the reason; a number is never guessed.
    """
    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise ResultFormatError(f"the nccl-tests report cannot be read: {str(error)[:80]}") from None
    top = _object(document, "the report")
    results = top.get("results")
    if not isinstance(results, list) or not results:
        raise ResultFormatError("the nccl-tests report has no results: the job ended before it measured")
    read = [_row(_object(entry, "a result")) for entry in results]
    halves = [half for _, found in read for half in found]
    bounds, average = (
        _object(top.get("out_of_bounds"), "out_of_bounds"),
        _object(top.get("average_bus_bandwidth"), "average_bus_bandwidth"),
    )
    out_of_bounds, gbyte_s = _count(bounds, "count"), _average(average)
    if bounds.get("okay") != ("true" if out_of_bounds == 0 else "false"):
        raise ResultFormatError(f"out_of_bounds: {out_of_bounds} and okay {bounds.get('okay')} contradict each other")
    devices = _object(top.get("config") or {}, "config").get("devices") or top.get("devices")
    ranks = len(devices) if isinstance(devices, list) and devices else None
    refuse_gaps([row.size_bytes for row, _ in read])
    refuse_contradictions(halves, ranks)
    refuse_wrong_footers(halves, gbyte_s, DIGITS, out_of_bounds)
    return NcclLog(
        collective=None,
        ranks=ranks,
        rows=tuple(row for row, _ in read),
        average_busbw_gbyte_s=gbyte_s,
        out_of_bounds=out_of_bounds,
        transport=None,
    )


def _row(entry: dict[str, JsonValue]) -> tuple[Row, list[Measured]]:
    size_bytes = _count(entry, "size")
    halves = [
        _placement(size_bytes, _object(entry[key], key))
        for key in ("out_of_place", "in_place")
        if entry.get(key) is not None
    ]
    if entry.get("out_of_place") is None:
        raise ResultFormatError(f"{size_bytes} bytes: no out-of-place value")
    row = Row(size_bytes=size_bytes, out_of_place=halves[0], in_place=halves[1] if len(halves) > 1 else None)
    rounding = Rounding(time_us=DIGITS, algbw_gbyte_s=DIGITS, busbw_gbyte_s=DIGITS)
    return row, [(size_bytes, half, rounding) for half in halves]


def _placement(size_bytes: int, said: dict[str, JsonValue]) -> Placement:
    wrong = None if said.get("nwrong") is None else _number(said, "nwrong", size_bytes)
    return Placement(
        time_us=_number(said, "time" if "time" in said else "cpu_time", size_bytes),
        algbw_gbyte_s=_number(said, "alg_bw", size_bytes),
        busbw_gbyte_s=_number(said, "bus_bw", size_bytes),
        wrong=None if wrong is None else int(wrong),
    )


def _average(said: dict[str, JsonValue]) -> float:
    return next((_number(said, key, 0) for key in AVERAGE_KEYS if key in said), math.nan)


def _number(said: dict[str, JsonValue], key: str, size_bytes: int) -> float:
    value = said.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
        raise ResultFormatError(f"{size_bytes} bytes, {key}: {str(value)[:30]!r} is no measurement")
    return float(value)


def _count(said: dict[str, JsonValue], key: str) -> int:
    value = said.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ResultFormatError(f"{key}: {str(value)[:30]!r} is no count")
    return value


def _object(value: JsonValue, what: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise ResultFormatError(f"{what}: no object in the nccl-tests report: cut short")
    return value


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _without_doubles(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return dict(pairs)

"""Reads the JSON that nccl-tests write with `-J`, from a file or between two marker lines of a log.

Its `env` is the writer's whole environment, secrets included: it is dropped here, and the text must be kept nowhere.
"""

from components.validation.parsers.documents import Document, counted, document_of, measured, part, parts
from components.validation.parsers.lines import ResultFormatError, lines_of
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

WHAT = "the nccl-tests report"
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
    top = document_of(text, WHAT)
    read = [_row(entry) for entry in parts(top, "results", WHAT)]
    halves = [half for _, found in read for half in found]
    bounds, average = part(top, "out_of_bounds", WHAT), part(top, "average_bus_bandwidth", WHAT)
    out_of_bounds = counted(bounds, "count", WHAT)
    # its booleans are strings
    if bounds.get("okay") != ("true" if out_of_bounds == 0 else "false"):
        raise ResultFormatError(f"{WHAT}: {out_of_bounds} out of bounds and okay {bounds.get('okay')} contradict")
    key = next((key for key in AVERAGE_KEYS if key in average), AVERAGE_KEYS[0])
    average_gbyte_s = measured(average, key, WHAT)
    devices = part(top, "config", WHAT).get("devices") if "config" in top else None
    devices = devices or top.get("devices")
    ranks = len(devices) if isinstance(devices, list) and devices else None
    refuse_gaps([row.size_bytes for row, _ in read])
    counts = [counted(entry, "count", WHAT) for entry in parts(top, "results", WHAT)]
    refuse_other_counts([(row.size_bytes, count) for (row, _), count in zip(read, counts, strict=True)])
    refuse_contradictions(halves, ranks)
    refuse_wrong_footers(halves, average_gbyte_s, DIGITS, out_of_bounds)
    return NcclLog(
        collective=None,
        ranks=ranks,
        rows=tuple(row for row, _ in read),
        average_busbw_gbyte_s=average_gbyte_s,
        out_of_bounds=out_of_bounds,
        transport=None,
    )


def _row(entry: Document) -> tuple[Row, list[Measured]]:
    size_bytes = counted(entry, "size", WHAT)
    placements = [
        _placement(part(entry, key, WHAT), f"{size_bytes} bytes")
        for key in ("out_of_place", "in_place")
        if key == "out_of_place" or entry.get(key) is not None
    ]
    row = Row(
        size_bytes=size_bytes,
        out_of_place=placements[0],
        in_place=placements[1] if len(placements) > 1 else None,
    )
    rounding = Rounding(time_us=DIGITS, algbw_gbyte_s=DIGITS, busbw_gbyte_s=DIGITS)
    return row, [(size_bytes, half, rounding) for half in placements]


def _placement(said: Document, what: str) -> Placement:
    return Placement(
        time_us=measured(said, "time" if "time" in said else "cpu_time", what),
        algbw_gbyte_s=measured(said, "alg_bw", what),
        busbw_gbyte_s=measured(said, "bus_bw", what),
        # null where nothing was checked
        wrong=None if said.get("nwrong") is None else int(measured(said, "nwrong", what)),
    )

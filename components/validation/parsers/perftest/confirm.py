"""Compares a parsed text with the JSON that perftest writes beside it (`--out_json`).

The JSON is no source of its own: it names no unit, keeps the last message size only, and some modes write what no JSON
reader takes.
"""

from components.validation.parsers.documents import counted, document_of, measured, part
from components.validation.parsers.lines import ResultFormatError
from components.validation.parsers.perftest.bandwidth import FACTOR_OF_UNIT, Perftest
from components.validation.parsers.perftest.latency import Latency

WHAT = "perftest's JSON"
HALF = 0.5000001


def confirm_bandwidth(run: Perftest, text: str, unit: str) -> None:
    """Refuses a run that its own JSON contradicts.

    Args:
        run: what was read from the text.
        text: the JSON file.
        unit: the unit that was asked for, as the table's header would write it, such as `Gb/sec`.

    Raises:
        ResultFormatError: when they differ, or the JSON cannot be read.
    """
    if unit not in FACTOR_OF_UNIT:
        raise ResultFormatError(f"bandwidth in {unit}; known are {', '.join(FACTOR_OF_UNIT)}")
    results, last, factor = part(document_of(text, WHAT), "results", WHAT), run.rows[-1], FACTOR_OF_UNIT[unit]
    _same("message size", last.message_bytes, counted(results, "MsgSize", WHAT), 0)
    _same("iterations", last.iterations, counted(results, "n_iterations", WHAT), 0)
    _same("message rate", last.message_rate_mpps, measured(results, "MsgRate", WHAT), 1e-6)
    _same("average bandwidth", last.average_gbit_s, measured(results, "BW_average", WHAT) * factor, 0.01 * factor)


def confirm_latency(run: Latency, text: str) -> None:
    """Refuses a run that its own JSON contradicts.

    Raises:
        ResultFormatError: when they differ, or the JSON cannot be read.
    """
    results, last = part(document_of(text, WHAT), "results", WHAT), run.rows[-1]
    _same("message size", last.message_bytes, counted(results, "MsgSize", WHAT), 0)
    _same("iterations", last.iterations, counted(results, "n_iterations", WHAT), 0)
    said = {
        "t_min": last.least_us,
        "t_max": last.greatest_us,
        "t_typical": last.typical_us,
        "t_avg": last.average_us,
        "percentile_99": last.p99_us,
        "percentile_99.9": last.p999_us,
    }
    for key, value in said.items():
        if value is not None:
            _same(key, value, measured(results, key, WHAT), 0.01)


def _same(what: str, said: float, confirmed: float, step: float) -> None:
    if abs(said - confirmed) > step * HALF:
        raise ResultFormatError(f"{what}: {said} in the table and {confirmed} in the JSON contradict each other")

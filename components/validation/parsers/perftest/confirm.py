"""Compares a parsed text with the JSON that perftest writes beside it (`--out_json`).

The JSON is no source of its own: it names no unit and keeps the last message size only. Nor is it always JSON: 4.5
quotes no key and ends objects with a comma, as do some modes of later versions. So it is read by its lines.
"""

import re
from collections.abc import Mapping

from components.validation.parsers.lines import NUMBER, ResultFormatError, lines_of, number
from components.validation.parsers.perftest.bandwidth import FACTOR_OF_UNIT, Perftest
from components.validation.parsers.perftest.latency import Latency

WHAT = "perftest's JSON"
_RESULTS = re.compile(r'^\s*"?results"?\s*:\s*\{\s*$')
_END = re.compile(r"^\s*\},?\s*$")
_PAIR = re.compile(rf'^\s*"?(?P<key>[A-Za-z][A-Za-z0-9_.]{{1,40}})"?\s*:\s*(?P<value>{NUMBER}),?\s*$')
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
    results, last, factor = _results(text), run.rows[-1], FACTOR_OF_UNIT[unit]
    _same("message size", last.message_bytes, _value(results, "MsgSize"), 0)
    _same("iterations", last.iterations, _value(results, "n_iterations"), 0)
    _same("message rate", last.message_rate_mpps, _value(results, "MsgRate"), 1e-6)
    _same("average bandwidth", last.average_gbit_s, _value(results, "BW_average") * factor, 0.01 * factor)


def confirm_latency(run: Latency, text: str) -> None:
    """Refuses a run that its own JSON contradicts.

    Raises:
        ResultFormatError: when they differ, or the JSON cannot be read.
    """
    results, last = _results(text), run.rows[-1]
    _same("message size", last.message_bytes, _value(results, "MsgSize"), 0)
    _same("iterations", last.iterations, _value(results, "n_iterations"), 0)
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
            _same(key, value, _value(results, key), 0.01)


def _same(what: str, said: float, confirmed: float, step: float) -> None:
    if abs(said - confirmed) > step * HALF:
        raise ResultFormatError(f"{what}: {said} in the table and {confirmed} in the JSON contradict each other")


def _results(text: str) -> Mapping[str, str]:
    lines = [line.text for line in lines_of(text) if line.text.strip()]
    starts = [i for i, line in enumerate(lines) if _RESULTS.match(line)]
    ends = [i for i, line in enumerate(lines) if starts and i > starts[0] and _END.match(line)]
    if len(starts) != 1 or len(ends) != 2 or ends[1] != len(lines) - 1:
        raise ResultFormatError(f"{WHAT} has no results, or is cut short")
    pairs = [_PAIR.match(line) for line in lines[starts[0] + 1 : ends[0]]]
    found = {pair["key"]: pair["value"] for pair in pairs if pair}
    if len(found) < len(pairs):
        raise ResultFormatError(f"{WHAT}: a damaged line, or a key twice")
    return found


def _value(results: Mapping[str, str], key: str) -> float:
    if key not in results:
        raise ResultFormatError(f"{WHAT} has no {key}")
    return number(results[key], f"{WHAT}, {key}")

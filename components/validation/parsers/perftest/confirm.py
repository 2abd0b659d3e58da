"""Compares a parsed text with the JSON that perftest writes beside it (`--out_json`).

The JSON is no source of its own: it names no unit, keeps the last message size only, and some modes write what no JSON
reader takes.
"""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from components.validation.parsers.lines import ResultFormatError
from components.validation.parsers.perftest.bandwidth import FACTOR_OF_UNIT, Perftest
from components.validation.parsers.perftest.latency import Latency

ROUNDING = 0.5000001


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
    results, last = _results(text), run.rows[-1]
    _same("message size", last.message_bytes, _value(results, "MsgSize"), 0)
    _same("iterations", last.iterations, _value(results, "n_iterations"), 0)
    _same("message rate", last.message_rate_mpps, _value(results, "MsgRate"), 1e-6)
    factor = FACTOR_OF_UNIT[unit]
    _same("average bandwidth", last.average_gbit_s, _value(results, "BW_average") * factor, 0.01 * factor)


def confirm_latency(run: Latency, text: str) -> None:
    """Refuses a run that its own JSON contradicts.

    Raises:
        ResultFormatError: when they differ, or the JSON cannot be read.
    """
    results, last = _results(text), run.rows[-1]
    _same("message size", last.message_bytes, _value(results, "MsgSize"), 0)
    _same("iterations", last.iterations, _value(results, "n_iterations"), 0)
    percentiles = {float(key.removeprefix("percentile_")): key for key in results if key.startswith("percentile_")}
    said = {
        "t_min": last.least_us,
        "t_max": last.greatest_us,
        "t_typical": last.typical_us,
        "t_avg": last.average_us,
        **({percentiles[99.0]: last.p99_us} if 99.0 in percentiles else {}),
        **({percentiles[99.9]: last.p999_us} if 99.9 in percentiles else {}),
    }
    for key, value in said.items():
        if value is not None:
            _same(key, value, _value(results, key), 0.01)


def _same(what: str, said: float, confirmed: float, step: float) -> None:
    if abs(said - confirmed) > step * ROUNDING:
        raise ResultFormatError(f"{what}: {said} in the table and {confirmed} in the JSON contradict each other")


def _results(text: str) -> Mapping[str, JsonValue]:
    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise ResultFormatError(f"perftest's JSON cannot be read: {str(error)[:80]}") from None
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, dict):
        raise ResultFormatError("perftest's JSON has no results: the test ended before it measured")
    return results


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _without_doubles(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return dict(pairs)


def _value(results: Mapping[str, JsonValue], key: str) -> float:
    value = results.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ResultFormatError(f"perftest's JSON has no number for {key}")
    return float(value)

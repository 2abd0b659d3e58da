"""Stack outputs that name every host, cut to a size: other stacks fetch them all to read one."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

HOSTS_BYTES = 3_000
FAULTS_BYTES = 1_500
LONGEST_TEXT = 120
REST = "..."
"""Key under which those are counted that are not named; no host can have this name."""


Results = Mapping[str, Mapping[str, str]]
"""By host, or under `REST`."""


def outline(results: Results, limit_bytes: int = HOSTS_BYTES) -> Results:
    """Results of few hosts; of many those that are not ready, and how many more of each status."""
    whole = {name: dict(result) for name, result in results.items()}
    for cut in _outlines(whole):
        if len(json.dumps(cut).encode()) <= limit_bytes:
            return cut
    return {REST: _counted(whole)}


def _outlines(whole: Results) -> Iterator[Results]:
    yield whole
    shown = {}
    for name, result in whole.items():
        if result.get("status") != "ready":
            shown[name] = {key: shortened(text) for key, text in result.items()}
    names = list(shown)
    for count in range(len(names), -1, -1):
        chosen = {name: shown[name] for name in names[:count]}
        rest = {name: result for name, result in whole.items() if name not in chosen}
        if rest:
            chosen[REST] = _counted(rest)
        yield chosen


def _counted(results: Results) -> dict[str, str]:
    """How many of each status, as words under the key that every host has."""
    counts = Counter(result.get("status", "unknown") for result in results.values())
    words = []
    for status, count in sorted(counts.items()):
        words.append(f"{count} more {status}")
    return {"status": ", ".join(words)}


Faults = Mapping[str, list[str]]
"""By the name of what has them, or under `REST`."""


def few_faults(faults: Faults, limit_bytes: int = FAULTS_BYTES) -> dict[str, JsonValue]:
    """Faults of the cluster by name: all while they are few, else the first and how many more."""
    whole: dict[str, JsonValue] = {name: list(texts) for name, texts in faults.items()}
    if len(json.dumps(whole).encode()) <= limit_bytes:
        return whole
    short = {name: shortened("; ".join(texts)) for name, texts in faults.items()}
    names = list(short)
    for count in range(len(names) - 1, 0, -1):
        cut: dict[str, JsonValue] = {name: [short[name]] for name in names[:count]}
        cut[REST] = [f"and {len(names) - count} more"]
        if len(json.dumps(cut).encode()) <= limit_bytes:
            return cut
    return {REST: [f"{len(names)} with faults"]}


def shortened(text: str) -> str:
    """A text that is cut where it is too long for an output."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[: LONGEST_TEXT - 3]}..."

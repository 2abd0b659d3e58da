"""Stack outputs that name every host, cut to a size: other stacks fetch all outputs to read one. Pure."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

HOSTS_BYTES = 3_000
FAULTS_BYTES = 1_500
LONGEST_TEXT = 120
REST = "..."
"""Key under which those are counted that are not named; no host can have this name."""


def outline(results: Mapping[str, Mapping[str, str]], limit_bytes: int = HOSTS_BYTES) -> dict[str, dict[str, str]]:
    """Result of each host while they are few; of many those that are not ready, and how many more of each status."""
    whole = {name: dict(result) for name, result in results.items()}
    for cut in _outlines(whole):
        if len(json.dumps(cut).encode()) <= limit_bytes:
            return cut
    return {REST: _counted(whole)}


def _outlines(whole: dict[str, dict[str, str]]) -> Iterator[dict[str, dict[str, str]]]:
    yield whole
    bad = {name: result for name, result in whole.items() if result.get("status") != "ready"}
    shown = {name: {key: _short(text) for key, text in result.items()} for name, result in bad.items()}
    names = list(shown)
    for count in range(len(names), -1, -1):
        chosen = {name: shown[name] for name in names[:count]}
        rest = {name: result for name, result in whole.items() if name not in chosen}
        yield chosen | ({REST: _counted(rest)} if rest else {})


def _counted(results: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """How many of each status, as words under the key that every host has."""
    counts = Counter(result.get("status", "unknown") for result in results.values())
    return {"status": ", ".join(f"{count} more {status}" for status, count in sorted(counts.items()))}


def few_faults(faults: Mapping[str, list[str]], limit_bytes: int = FAULTS_BYTES) -> dict[str, JsonValue]:
    """Faults of the cluster by name: all while they are few, else the first ones and how many more there are."""
    whole: dict[str, JsonValue] = {name: list(texts) for name, texts in faults.items()}
    if len(json.dumps(whole).encode()) <= limit_bytes:
        return whole
    short: dict[str, JsonValue] = {name: [_short("; ".join(texts))] for name, texts in faults.items()}
    names = list(short)
    for count in range(len(names) - 1, 0, -1):
        cut = {name: short[name] for name in names[:count]} | {REST: [f"and {len(names) - count} more"]}
        if len(json.dumps(cut).encode()) <= limit_bytes:
            return cut
    return {REST: [f"{len(names)} with faults"]}


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."

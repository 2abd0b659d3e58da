"""What the stack's output `fabric` tells: few words a host, and of a large lab its first hosts. Pure."""

import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

LARGEST_BYTES = 900
"""Of hosts, machines and warnings together: other stacks fetch all outputs to read one."""
LONGEST_WARNING = 120
MOST_WARNINGS = 2


def fabric_outline(
    hosts: Mapping[str, str] | None,
    vmkernels: Mapping[str, str] | None,
    places: Mapping[str, str] | None,
    warnings: Sequence[str],
) -> dict[str, JsonValue]:
    """What was seen and made, without what does not fit; what is not known yet is empty.

    Args:
        hosts: what the preflight saw of each ESXi host.
        vmkernels: the adapter that PVRDMA has on a host, such as `vmk3`.
        places: ESXi host by machine.
        warnings: the preflight's.
    """
    hosts, vmkernels, places = hosts or {}, vmkernels or {}, places or {}
    lines = {host: ", ".join(filter(None, [line, vmkernels.get(host, "")])) for host, line in hosts.items()}
    told = [text if len(text) <= LONGEST_WARNING else f"{text[: LONGEST_WARNING - 3]}..." for text in warnings]
    for count in range(max(len(lines), len(places)), -1, -1):
        cut: dict[str, JsonValue] = {
            "hosts": _first(lines, count),
            "machines": _first(places, count),
            "warnings": [
                *told[:MOST_WARNINGS],
                *([f"{len(told) - MOST_WARNINGS} more"] if told[MOST_WARNINGS:] else []),
            ],
        }
        if len(json.dumps(cut).encode()) <= LARGEST_BYTES:
            return cut
    return {}


def _first(lines: Mapping[str, str], count: int) -> dict[str, JsonValue]:
    shown: dict[str, JsonValue] = dict(list(lines.items())[:count])
    return shown | ({"...": f"{len(lines) - count} more"} if len(lines) > count else {})

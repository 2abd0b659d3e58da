"""Small fabrics without noise, whose faults a reader can see."""

from collections.abc import Callable, Iterable, Mapping

from components.validation.records import Flow
from components.validation.search.localise import Localiser
from components.validation.search.located import Located
from components.validation.search.measured_fabric import MeasuredFabric, Value

CEILING = 98.0
SOUND = 97.0
Slow = Callable[[Flow], Value]
"""Factor of a transfer; None: it fails."""


def names(nodes: int) -> list[str]:
    return [f"gpu{number:02}" for number in range(1, nodes + 1)]


def all_flows(nodes: int, rails: Iterable[str] = ("a",)) -> list[Flow]:
    return [Flow(rail, x, y) for rail in rails for x in names(nodes) for y in names(nodes) if x != y]


def measured(flows: Iterable[Flow], slow: Slow) -> dict[Flow, Value]:
    return {flow: None if (factor := slow(flow)) is None else SOUND * factor for flow in flows}


def searched(
    flows: Iterable[Flow],
    slow: Slow,
    *,
    halved: Slow | None = None,
    ceilings: bool = True,
    leaf_of: Mapping[tuple[str, str], str] | None = None,
    rated: bool = True,
) -> Located:
    """The whole search; `halved` is how slow the transfers are when measured again, as at first if not said."""
    values = measured(flows, slow)
    expected = dict.fromkeys((flow.rail for flow in values), CEILING) if ceilings else {}
    search = Localiser(MeasuredFabric(values=values, expected=expected, leaf_of=leaf_of or {}, rated=rated))
    retests: dict[Flow, list[Value]] = {}
    for _ in range(20):
        suspects = search.suspects(retests)
        if not suspects:
            return search.localise(retests)
        for flow, value in measured(suspects, halved or slow).items():
            retests.setdefault(flow, []).append(value)
    raise AssertionError(f"the search does not end: {suspects}")

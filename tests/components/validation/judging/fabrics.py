"""Small fabrics without noise, whose faults a reader can see."""

from collections.abc import Callable, Iterable, Mapping

from components.validation.judging.evidence import Fabric, Value, Way
from components.validation.judging.findings import Located
from components.validation.judging.localise import Localiser

CEILING = 98.0
SOUND = 97.0
Slow = Callable[[Way], Value]
"""Factor of a transfer; None: it fails."""


def names(nodes: int) -> list[str]:
    return [f"gpu{number:02}" for number in range(1, nodes + 1)]


def all_ways(nodes: int, rails: Iterable[str] = ("a",)) -> list[Way]:
    return [Way(rail, x, y) for rail in rails for x in names(nodes) for y in names(nodes) if x != y]


def measured(ways: Iterable[Way], slow: Slow) -> dict[Way, Value]:
    return {way: None if (factor := slow(way)) is None else SOUND * factor for way in ways}


def searched(
    ways: Iterable[Way],
    slow: Slow,
    *,
    halved: Slow | None = None,
    ceilings: bool = True,
    leaf_of: Mapping[tuple[str, str], str] | None = None,
    rated: bool = True,
) -> Located:
    """The whole search; `halved` is how slow the transfers are when measured again, as at first if not said."""
    values = measured(ways, slow)
    expected = dict.fromkeys((way.rail for way in values), CEILING) if ceilings else {}
    search = Localiser(Fabric(values=values, expected=expected, leaf_of=leaf_of or {}, rated=rated))
    retests: dict[Way, list[Value]] = {}
    for _ in range(20):
        suspects = search.suspects(retests)
        if not suspects:
            return search.localise(retests)
        for way, value in measured(suspects, halved or slow).items():
            retests.setdefault(way, []).append(value)
    raise AssertionError(f"the search does not end: {suspects}")

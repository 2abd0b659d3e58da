"""Who is tried with whom among machines of one role. Pure."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

Machine = TypeVar("Machine")

ALL_PAIRS = 16
"""So many machines of one role all try each other; of more each tries a few, since pairs grow with the square."""


def pairs(machines: Sequence[Machine]) -> Iterator[tuple[Machine, Machine]]:
    """Who tries whom: all others, or of many those 1, 2, 4, ... places further on, round the list.

    Each is both ends at least once. The steps lead to neighbours of one rack and to machines far apart.
    """
    many = len(machines)
    further = steps(many) if many > ALL_PAIRS else range(1, many)
    for i, one in enumerate(machines):
        yield from ((one, machines[(i + step) % many]) for step in further)


def steps(many: int) -> list[int]:
    """How far each of many machines looks round their list: 1, 2, 4, ..."""
    return [1 << power for power in range((many - 1).bit_length())]

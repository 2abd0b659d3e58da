"""Sets and progressions from values, the other way round of `stacks/sets.py` and `stacks/expand.py`."""

from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Any

from stacks.sets import folded, names_of

LEAST = 3
"""Entries that are a group; two are easier to read one by one."""
MOST_STEPS = 65_536
"""What a progression allows."""


def one_set(names: Sequence[str]) -> str | None:
    """A set that holds these names in this order; None where there is none."""
    sets = folded(names)
    return sets[0] if len(sets) == 1 and list(names_of(sets[0])) == list(names) else None


def progression(values: Sequence[Any]) -> Any:
    """Numbers, addresses or subnets as one value or as first and step; None where they are no progression."""
    first = values[0]
    if all(value == first for value in values):
        return plain(first)
    numbers = [_number(value) for value in values]
    step = numbers[1] - numbers[0]
    same_size = len({value.prefixlen for value in values}) == 1 if isinstance(first, IPv4Network) else True
    if not same_size or not 1 <= step <= MOST_STEPS:
        return None
    if any(number != numbers[0] + step * n for n, number in enumerate(numbers)):
        return None
    return {"first": plain(first), **({"step": step} if step > 1 else {})}


def _number(value: Any) -> int:
    if isinstance(value, IPv4Network):
        return int(value.network_address) // value.num_addresses
    return int(value)


def plain(value: Any) -> Any:
    """A number as it is, an address or subnet as text."""
    return value if isinstance(value, int) else str(value)

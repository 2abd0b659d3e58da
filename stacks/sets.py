"""Sets of names as cluster tools write them: `gpu[01-64,70]`, `Ethernet[0-252/4]`.

One bracket with numbers and ranges, in the order in which they are written. No expressions and no
lookups: what a set holds is known from its text alone.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

MOST_NAMES = 10_000
"""Most names in one set: as many nodes as a lab may have. `gpu[1-1000000]` is a typing error."""

LONGEST_NUMBER = 9
"""Digits of a number in a bracket."""

_SET = re.compile(r"(?P<before>[^\[\]]*)\[(?P<items>[^\[\]]*)\](?P<after>[^\[\]]*)")
_ITEM = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9})(?:/(?P<step>\d{1,9}))?)?")


def names_of(text: str) -> tuple[str, ...]:
    """The names of a set, in its order; a text without bracket is one name.

    Raises:
        ValueError: for a text that is no set, an empty or huge range, padding that differs, or a
            name twice.
    """
    if not re.search(r"[\[\]]", text):
        return (text,)
    parts = _SET.fullmatch(text)
    if parts is None:
        raise ValueError("one pair of brackets is allowed, as in gpu[01-64,70]")
    numbers = _numbers(parts["items"])
    if len(set(numbers)) < len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        raise ValueError(f"{parts['before']}{twice}{parts['after']} is listed twice; remove one")
    return tuple(f"{parts['before']}{number}{parts['after']}" for number in numbers)


def _numbers(items: str) -> list[str]:
    numbers: list[str] = []
    for item in items.split(","):
        match = _ITEM.fullmatch(item.strip())
        if match is None:
            raise ValueError(f"{item!r} is neither a number nor a range; write 7, 1-64 or 0-252/4")
        numbers += _range(match, MOST_NAMES - len(numbers))
    padded = [number for number in numbers if number != "0" and number.startswith("0")]
    if padded and len({len(number) for number in numbers}) > 1:
        other = next(number for number in numbers if len(number) != len(padded[0]))
        raise ValueError(
            f"{padded[0]} and {other} differ in length; pad all numbers alike, as in [008-100]"
        )
    return numbers


def _range(item: re.Match[str], most: int) -> list[str]:
    first, last, step = item["first"], item["last"] or item["first"], int(item["step"] or 1)
    padded = any(len(number) > 1 and number.startswith("0") for number in (first, last))
    if padded and len(first) != len(last):
        raise ValueError(f"{first} and {last} differ in length; pad both alike, as in [008-100]")
    if step == 0:
        raise ValueError(f"{item[0]} has step 0 and would never end; write 1 or more")
    numbers = range(int(first), int(last) + 1, step)
    if not numbers:
        raise ValueError(f"{item[0]} ends before it begins; swap its numbers")
    if len(numbers) > most:
        raise ValueError(f"more than {MOST_NAMES} names; a lab has at most as many nodes")
    return [f"{number:0{len(first) if padded else 1}d}" for number in numbers]


def folded(names: Iterable[str]) -> tuple[str, ...]:
    """Folds names into as few sets as possible, in natural order.

    Names with several numbers are folded by the number that gives the fewest sets: `enp[5-8]s0`,
    `rack1-gpu[01-16]`.
    """
    once = sorted(set(names), key=_as_counted)
    most = max((len(re.findall(r"\d+", name)) for name in once), default=0)
    ways = [_folded_at(once, place) for place in range(1, max(most, 1) + 1)]
    return min(ways, key=len)


def folded_places(places: Iterable[tuple[str, str]]) -> str:
    """Hosts with their parts, such as interfaces: `gpu[01-02] eth[0-1]`; parts of the same hosts
    are together.
    """
    hosts: dict[str, set[str]] = {}
    for name, part in places:
        hosts.setdefault(part, set()).add(name)
    parts: dict[frozenset[str], list[str]] = {}
    for part, on in sorted(hosts.items()):
        parts.setdefault(frozenset(on), []).append(part)
    texts = []
    for on_hosts, of in parts.items():
        interfaces = ", ".join(folded(filter(None, of)))
        texts.append(f"{', '.join(folded(on_hosts))} {interfaces}".strip())
    return ", ".join(sorted(texts))


def _folded_at(names: Iterable[str], place: int) -> tuple[str, ...]:
    """Sets that count the number at this place from the end."""
    groups: dict[tuple[str, str], list[str]] = {}
    folded: list[str] = []
    for name in names:
        parts = re.split(r"(\d+)", name)
        at = len(parts) - 2 * place
        if at < 1 or len(parts[at]) > LONGEST_NUMBER or re.search(r"[\[\]]", name):
            folded.append(name)
        else:
            groups.setdefault(("".join(parts[:at]), "".join(parts[at + 1 :])), []).append(parts[at])
    for (before, after), numbers in groups.items():
        for alike in _by_width(numbers):
            items = ",".join(_ranges(sorted(alike, key=int)))
            if len(alike) > 1:
                items = f"[{items}]"
            folded.append(f"{before}{items}{after}")
    return tuple(sorted(folded, key=_as_counted))


def _by_width(numbers: list[str]) -> list[list[str]]:
    """Numbers that one set can count: those with leading zeros by their width, then all others."""
    widths = {len(number) for number in numbers if len(number) > 1 and number.startswith("0")}
    by_width: dict[int, list[str]] = {}
    for number in numbers:
        width = len(number) if len(number) in widths else 0
        by_width.setdefault(width, []).append(number)
    return [by_width[width] for width in sorted(by_width)]


def _ranges(numbers: list[str]) -> Iterator[str]:
    first = last = numbers[0]
    for number in [*numbers[1:], ""]:
        if number and int(number) == int(last) + 1:
            last = number
            continue
        yield first if first == last else f"{first}-{last}"
        first = last = number


def _as_counted(name: str) -> list[tuple[int, str]]:
    """A key that sorts gpu2 before gpu10."""
    parts = []
    for part in re.split(r"(\d+)", name):
        if part:
            number = int(part) if part.isdecimal() else -1
            parts.append((number, part))
    return parts


def _checked(text: str) -> str:
    names_of(text)
    return text


NameSet = Annotated[
    str,
    Field(pattern=r"^[^\[\]]*(\[[0-9,/ -]+\][^\[\]]*)?$", min_length=1, max_length=2000),
    AfterValidator(_checked),
]
"""A set of names, such as `gpu[01-64,70]`; a name without bracket is a set of one."""

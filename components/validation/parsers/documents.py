"""JSON of benchmark tools, read more strictly than Python does: no NaN, no key with two values, no absurd number."""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from components.validation.parsers.lines import ResultFormatError

Document = Mapping[str, JsonValue]
LARGEST = 1e18


def document_of(text: str, what: str) -> Document:
    """The one object of a text.

    Raises:
        ResultFormatError: when it is cut, damaged, or not alone.
    """
    try:
        document: JsonValue = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise ResultFormatError(f"{what} cannot be read: {str(error)[:80]}") from None
    if not isinstance(document, dict):
        raise ResultFormatError(f"{what} is no object: {text.strip()[:40]!r}")
    return document


def part(document: Document, key: str, what: str) -> Document:
    """An object inside.

    Raises:
        ResultFormatError: when there is none.
    """
    value = document.get(key)
    if not isinstance(value, dict):
        raise ResultFormatError(f"{what} has no {key}: cut short")
    return value


def parts(document: Document, key: str, what: str) -> list[Document]:
    """The objects of a list inside.

    Raises:
        ResultFormatError: when it is no list of objects, or empty.
    """
    values = document.get(key)
    found: list[Document] = [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    if not isinstance(values, list) or not values or len(found) < len(values):
        raise ResultFormatError(f"{what} has no {key}: nothing was measured")
    return found


def measured(document: Document, key: str, what: str) -> float:
    """A number of nothing or more.

    Raises:
        ResultFormatError: when it is none.
    """
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST:
        raise ResultFormatError(f"{what}, {key}: {str(value)[:30]!r} is no measurement")
    return float(value)


def counted(document: Document, key: str, what: str) -> int:
    """A whole number of nothing or more.

    Raises:
        ResultFormatError: when it is none.
    """
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LARGEST:
        raise ResultFormatError(f"{what}, {key}: {str(value)[:30]!r} is no count")
    return value


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _without_doubles(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Some versions of iperf3 say a thing twice; what is said in two ways is nothing to rely on."""
    found: dict[str, JsonValue] = {}
    for key, value in pairs:
        if found.setdefault(key, value) != value:
            raise ValueError(f"the key {key[:30]} stands for two values")
    return found

"""Readings of an inventory: a probe that fails or hangs costs only its own value."""

import json
import re
from functools import partial
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Tuple

from ..machine import Done
from .read_only import ReadOnly

Json = Dict[str, Any]
LONGEST_REASON = 160
LATE = "not read"
"""How a reason begins where a slow host, and not what is read, is to blame."""


class UnknownError(Exception):
    """A value that cannot be read; the text gives the reason. Every probe may raise it, or an
    `OSError`.
    """


class Leaf(NamedTuple):
    """One value: its name in the inventory, where it is read, and how."""

    name: str
    source: str
    probe: Callable[[], Any]


class LookSection:
    """The leaves of one object, read one after another.

    What is read is in `found` at once, while the next leaf may hang.
    """

    def __init__(self, leaves: List[Leaf], readings: Json) -> None:
        self.leaves, self.found = leaves, readings

    def read(self) -> None:
        for leaf in self.leaves:
            self.found[leaf.name] = reading(leaf.source, leaf.probe)

    def give_up(self, waited_s: float) -> None:
        """Records which leaf hung, for each leaf that is missing."""
        missing = [leaf for leaf in self.leaves if leaf.name not in self.found]
        for leaf in missing:
            reason = (
                f"{LATE} within {waited_s:.0f} s"
                if leaf is missing[0]
                else f"{LATE}, since {missing[0].source} hung"
            )
            self.found[leaf.name] = {"unknown": reason, "source": leaf.source}


def reading(source: str, probe: Callable[[], Any]) -> Json:
    """A value with its source, or the reason why there is none."""
    try:
        return {"value": probe(), "source": source}
    except UnknownError as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or str(error)
    except Exception as error:  # noqa: BLE001  # a probe that fails costs its own value only
        reason = f"{type(error).__name__}: {error}"
    return {"unknown": reason[:LONGEST_REASON] or "no reason given", "source": source}


def read(leaves: Iterable[Leaf]) -> Json:
    """The readings of an object whose leaves cannot hang each for itself."""
    return {leaf.name: reading(leaf.source, leaf.probe) for leaf in leaves}


def matched(pattern: str, text: str, otherwise: str) -> str:
    """The first group of a pattern in a text of several lines; `otherwise` is the reason why the
    value is unknown.
    """
    match = re.search(pattern, text, re.MULTILINE)
    if not match:
        raise UnknownError(otherwise)
    return match[1]


def printed(done: Done) -> str:
    """What a program printed."""
    if done.code:
        lines = (done.err or done.out).strip().splitlines()
        reason = lines[-1] if lines else f"it exited with {done.code}"
        raise UnknownError(reason)
    return done.out


def printed_json(done: Done) -> Any:
    """The JSON that a program printed."""
    try:
        return json.loads(printed(done) or "[]")
    except ValueError:
        raise UnknownError("it printed no JSON") from None


def number(machine: ReadOnly, path: str) -> int:
    """A file that holds a whole number."""
    text = machine.text(path)
    try:
        return int(text, 0)
    except ValueError:
        raise UnknownError(f"it contains {text[:40]!r}, not a number") from None


def program_leaf(machine: ReadOnly, name: str, words: str, take: Callable[[str], Any]) -> Leaf:
    """A leaf in what a program prints."""
    return Leaf(name, words, lambda: take(printed(machine.once(*words.split()))))


def file_leaves(
    machine: ReadOnly, files: Mapping[str, Tuple[str, Callable[[ReadOnly, str], Any]]]
) -> List[Leaf]:
    """Leaves that are one file each: name, path and what reads it."""
    return [Leaf(name, path, partial(take, machine, path)) for name, (path, take) in files.items()]

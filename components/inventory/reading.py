"""A value with the place that it was read from, or the reason why it is unknown. Pure."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, Never, TypeVar

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
R = TypeVar("R")
H = TypeVar("H", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Reading(Generic[T_co]):
    """A leaf of an inventory: known (`value` is not None) or unknown (`unknown` says why).

    What was read and is not there is known too: an empty tuple or text, as the field's description
    says.
    """

    value: T_co | None = None
    source: str = ""
    """The file or command that was read, or tried."""
    unknown: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) != bool(self.unknown):
            raise ValueError("a reading has either a value or a reason why it is unknown")

    @property
    def is_known(self) -> bool:
        """Whether there is a value."""
        return self.value is not None

    def or_else(self: "Reading[T]", other: T) -> T:
        """The value, or `other` where it is unknown and that changes nothing."""
        return other if self.value is None else self.value

    def map(self, change: Callable[[T_co], R]) -> "Reading[R]":
        """The same reading with another form of its value."""
        if self.value is None:
            return Reading(source=self.source, unknown=self.unknown)
        return Reading(change(self.value), self.source)


def known(value: T, source: str) -> Reading[T]:
    """A value that was read."""
    return Reading(value, source)


def unknown(reason: str, source: str = "") -> Reading[Never]:
    """A value that could not be read."""
    return Reading(source=source, unknown=reason)


NOT_READ: Final[Reading[Never]] = Reading(unknown="not read")
"""Default of every leaf: an inventory has it where no probe looked."""


def majority(readings: Iterable[Reading[H]]) -> H | None:
    """The value that more than half of the known ones have; None when there is none."""
    values = [reading.value for reading in readings if reading.value is not None]
    if not values:
        return None
    value, count = Counter(values).most_common(1)[0]
    return value if count * 2 > len(values) else None

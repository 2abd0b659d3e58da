"""The form of values that are passed on and never changed."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def frozen(cls: type[T]) -> type[T]:
    """A dataclass that cannot be changed, whose fields are given by name."""
    return dataclass(frozen=True, kw_only=True, slots=True)(cls)

"""Words of messages that depend on a number. Pure; imports only the standard library."""

from collections.abc import Sequence


def plural(count: int, noun: str, nouns: str = "") -> str:
    """A number with its noun: `1 round`, `2 rounds`, `0 rounds`.

    Args:
        count: how many.
        noun: the singular.
        nouns: the plural, if it is not the singular with an s.
    """
    return f"{count} {noun if count == 1 else nouns or f'{noun}s'}"


def some(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are: `gpu01, gpu02 and 3 more`; empty for no
    names.
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def bytes_text(count: float) -> str:
    """A size in bytes, as benchmarks are used to write it: `64 KiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:g} {unit}" if count == int(count) else f"{count:.1f} {unit}"
        count /= 1024
    return ""

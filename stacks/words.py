"""Words of messages that depend on a number. Pure, and free of anything but the standard library."""


def plural(count: int, noun: str, nouns: str = "") -> str:
    """A number with its noun: `1 round`, `2 rounds`, `0 rounds`.

    Args:
        count: how many.
        noun: of one.
        nouns: of several, where that is not the noun with an s.
    """
    return f"{count} {noun if count == 1 else nouns or f'{noun}s'}"

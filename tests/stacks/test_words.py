"""Numbers with their nouns."""

import pytest

from stacks.words import plural, some


@pytest.mark.parametrize(
    ("count", "words", "said"),
    [
        (0, ("round",), "0 rounds"),
        (1, ("round",), "1 round"),
        (2, ("round",), "2 rounds"),
        (1, ("address", "addresses"), "1 address"),
        (3, ("address", "addresses"), "3 addresses"),
    ],
)
def test_one_is_one_and_everything_else_is_several(count: int, words: tuple[str, ...], said: str) -> None:
    assert plural(count, *words) == said


@pytest.mark.parametrize(
    ("names", "most", "said"),
    [
        ((), 1, ""),
        (("a",), 1, "a"),
        (("a", "b"), 1, "a and 1 more"),
        (("a", "b", "c"), 3, "a, b, c"),
        (("a", "b", "c", "d", "e"), 3, "a, b, c and 2 more"),
    ],
)
def test_the_first_are_named_and_the_others_counted(names: tuple[str, ...], most: int, said: str) -> None:
    assert some(names, most) == said

"""Numbers with their nouns."""

import pytest

from stacks.words import plural


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

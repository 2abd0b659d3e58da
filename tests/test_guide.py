"""docs/guide-roce.md: what it names exists, so that nobody follows a path that has gone."""

import re

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "guide-roce.md").read_text()


def test_every_test_that_it_names_is_there() -> None:
    tests = re.findall(r"`(tests/[\w/]+\.py)`", PAGE)

    assert len(tests) >= 8
    assert [name for name in tests if not (ROOT / name).is_file()] == []


def test_every_make_target_that_it_mentions_is_there() -> None:
    targets = set(re.findall(r"`?make ([a-z-]+)", PAGE))
    makefile = (ROOT / "Makefile").read_text()

    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_each_step_of_the_guide_has_a_row() -> None:
    steps = re.findall(r"^\| (\d+) \(", PAGE, re.MULTILINE)

    assert sorted(set(map(int, steps))) == list(range(1, 11))

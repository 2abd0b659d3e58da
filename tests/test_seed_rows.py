"""docs/seed-rows.md answers for every row of the three guides, and names tests that exist."""

import re
from pathlib import Path

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "seed-rows.md"
PROVEN = {"real", "emulated", "replayed", "rendered", "fake"}
UNPROVEN = {"out of scope"}


def rows() -> list[tuple[str, str, str]]:
    """(seed, lines, row) of the guides, as they were read."""
    lines = (Path(__file__).parent / "data" / "seed_rows.tsv").read_text().splitlines()[1:]
    return [(seed, where, row) for seed, where, row in (line.split("\t") for line in lines)]


def entries() -> dict[tuple[str, str, str], tuple[str, str, str]]:
    """(seed, lines, row) -> (what does it, test or reason, level of proof)."""
    found: dict[tuple[str, str, str], tuple[str, str, str]] = {}
    seed = ""
    for line in PAGE.read_text().splitlines():
        if heading := re.match(r"## Seed (\w)", line):
            seed = heading[1]
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        if seed and len(cells) == 5 and cells[0] != "lines" and not set(cells[0]) <= {"-"}:
            found[seed, cells[0], cells[1]] = (cells[2], cells[3], cells[4])
    return found


ENTRIES = entries()


def test_every_row_has_an_entry() -> None:
    assert [row for row in rows() if row not in ENTRIES] == []
    for row, (does, proof, level) in ENTRIES.items():
        assert level in PROVEN | UNPROVEN, f"{row}: each row is decided, proven or out of scope with the reason"
        assert does, row
        assert proof, f"{row}: a test, or the reason why there is none"


def test_the_page_has_no_rows_of_its_own() -> None:
    assert set(ENTRIES) == set(rows())


def test_a_proven_row_names_a_test_that_exists() -> None:
    for row in (row for row in ENTRIES if ENTRIES[row][2] in PROVEN):
        named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", ENTRIES[row][1])

        assert named, f"{row}: name the test as `tests/….py::test_…`"
        for file, function in named:
            path = ROOT / file
            assert path.is_file(), file
            assert not function or f"def {function}(" in path.read_text(), f"{file} has no {function}"


MORE_THAN_PYTHON = re.compile(r"tests/(integration|simulator)/|_sim\.py|/parsers/")
"""Tests on the simulator's nodes, API server and vCenter; and parsers, which read the real programs' outputs."""


def test_a_row_that_is_real_or_emulated_names_a_test_that_runs_more_than_python() -> None:
    above = [row for row in ENTRIES if ENTRIES[row][2] in ("real", "emulated")]

    assert above
    assert [row for row in above if not MORE_THAN_PYTHON.search(ENTRIES[row][1])] == [], (
        "against a counterpart of ours it is fake, without one rendered"
    )

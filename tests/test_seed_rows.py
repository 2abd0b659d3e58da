"""docs/seed-rows.md answers for every row of the three guides, and names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "seed-rows.md"
PROVEN = {"real", "emulated", "replayed", "rendered", "fake"}
UNPROVEN = {"out of scope"}
IN_TEST_ALL = ", in test-all"
"""Follows the level of a row that `make test` does not prove."""
NOT_OURS = "not ours: "
"""Introduces what is real where a counterpart is partly ours."""


def rows() -> list[tuple[str, str, str]]:
    """(seed, lines, row) of the guides, as they were read."""
    lines = (Path(__file__).parent / "data" / "seed_rows.tsv").read_text().splitlines()[1:]
    return [(seed, where, row) for seed, where, row in (line.split("\t") for line in lines)]


def entries() -> dict[tuple[str, str, str], tuple[str, str, str]]:
    """(seed, lines, row) -> (what does it, test or reason, level of proof and lane)."""
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
        assert level.removesuffix(IN_TEST_ALL) in PROVEN | UNPROVEN, f"{row}: proven, or out of scope with the reason"
        assert does, row
        assert proof, f"{row}: a test, or the reason why there is none"


def test_the_page_has_no_rows_of_its_own() -> None:
    assert set(ENTRIES) == set(rows())


NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?(?:\[([^\]]+)\])?`")
STAND_INS = {"simulator.hosts", "simulator.switch"}
"""Counterparts that are nothing but Python of ours: many hosts, and the switch."""
PARTLY_OURS = {
    "engine/vcenter": re.compile(r"\bvcenter\b|fabric_stack"),
    "engine/pods": re.compile(r"lab-pods"),
    "tests/integration/kubeadm": re.compile(r"integration\.kubeadm"),
}
"""Counterparts that are somebody else's with parts of ours, each with what names it in a test that uses it."""


class Named(NamedTuple):
    """A test as a row names it."""

    file: str
    function: str
    case: str
    """One set of parameters, in brackets; empty for all of them."""

    def exists(self) -> bool:
        path = ROOT / self.file
        if not path.is_file() or self.function not in _functions(self.file):
            return False
        return not self.case or any(f'"{self.case}"' in other.read_text() for other in path.parent.glob("*.py"))

    def runs_more_than_ours(self) -> bool:
        """Whether it runs on the simulator's nodes, API server or vCenter, or reads what a real program printed."""
        return "/parsers/" in self.file or (self.has("sim") and not STAND_INS & _imported(self.file))

    def is_partly_ours(self) -> bool:
        text = (ROOT / self.file).read_text()
        return self.has("sim") and any(pattern.search(text) for pattern in PARTLY_OURS.values())

    def is_left_out(self) -> bool:
        """Whether `make test` does not run it."""
        return self.has("whole") or self.has("kills")

    def has(self, mark: str) -> bool:
        """Whether the test, or its whole file, has a mark."""
        marks = [*_functions(self.file)[self.function].decorator_list, *_marks_of_module(self.file)]
        return any(ast.unparse(expression) == f"pytest.mark.{mark}" for expression in marks)


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text())


def _functions(file: str) -> dict[str, ast.FunctionDef]:
    return {each.name: each for each in _tree(file).body if isinstance(each, ast.FunctionDef)}


def _marks_of_module(file: str) -> list[ast.expr]:
    marks = [each.value for each in _tree(file).body if isinstance(each, ast.Assign) and _assigns_marks(each)]
    return [mark for value in marks for mark in (value.elts if isinstance(value, ast.List) else [value])]


def _assigns_marks(statement: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in statement.targets)


def _imported(file: str) -> set[str]:
    """Packages that a test module imports, by their first two names."""
    modules = [each.module or "" for each in ast.walk(_tree(file)) if isinstance(each, ast.ImportFrom)]
    return {".".join(module.split(".")[:2]) for module in modules}


def named_in(row: tuple[str, str, str]) -> list[Named]:
    return [Named(*found) for found in NAMED.findall(ENTRIES[row][1])]


def test_a_proven_row_names_test_functions_that_exist() -> None:
    for row in (row for row in ENTRIES if level_of(row) in PROVEN):
        named = named_in(row)

        assert named, f"{row}: name the test as `tests/….py::test_…`"
        assert [test for test in named if not test.function] == [], f"{row}: name a function, not a whole file"
        assert [test for test in named if not test.exists()] == [], f"{row}: there is no such test"


def level_of(row: tuple[str, str, str]) -> str:
    return ENTRIES[row][2].removesuffix(IN_TEST_ALL)


def above_fake() -> dict[tuple[str, str, str], list[Named]]:
    """The rows that are real or emulated, each with the tests that make it so."""
    rows_above = [row for row in ENTRIES if level_of(row) in ("real", "emulated")]
    return {row: [test for test in named_in(row) if test.runs_more_than_ours()] for row in rows_above}


def test_a_row_that_is_real_or_emulated_names_a_test_that_runs_more_than_ours() -> None:
    above = above_fake()

    assert above
    assert [row for row, tests in above.items() if not tests] == [], (
        "against a counterpart of ours it is fake, without one rendered"
    )


def test_a_row_whose_counterpart_is_partly_ours_names_the_part_that_is_not() -> None:
    partly = [row for row, tests in above_fake().items() if all(test.is_partly_ours() for test in tests)]

    assert len(partly) > 20
    assert [row for row in partly if NOT_OURS not in ENTRIES[row][0]] == [], "else it is fake"


def test_a_row_that_make_test_does_not_prove_says_so() -> None:
    proven = {row: named_in(row) for row in ENTRIES if level_of(row) in PROVEN} | above_fake()
    only_in_all = {row for row, tests in proven.items() if all(test.is_left_out() for test in tests)}

    assert {row for row in ENTRIES if ENTRIES[row][2].endswith(IN_TEST_ALL)} == only_in_all


@pytest.mark.parametrize(
    ("test", "more"),
    [
        ("tests/integration/test_lab.py::test_a_lab_comes_up_and_works", True),
        ("tests/components/validation/parsers/test_perftest.py::test_every_recorded_bandwidth_test_is_read", True),
        ("tests/integration/test_switch.py::test_ports_carry_their_rails_and_the_nodes_feel_it", False),
        ("tests/simulator/hosts/test_traffic.py::test_every_test_and_shape_is_measured_on_the_simulated_hosts", False),
        ("tests/stacks/test_machines.py::test_it_is_refused_with_path_and_remedy", False),
    ],
)
def test_hosts_and_a_switch_of_our_own_prove_no_more_than_a_fake(test: str, *, more: bool) -> None:
    file, _, function = test.partition("::")

    assert Named(file, function, "").runs_more_than_ours() is more


def test_a_case_that_no_test_has_is_noticed() -> None:
    named = "tests/stacks/test_machines.py", "test_it_is_refused_with_path_and_remedy"

    assert Named(*named, "a host without the switch").exists()
    assert not Named(*named, "a host without any switch").exists()

"""docs/seed-rows.md answers for every row of the three guides.

A test names the rows that it proves: `@pytest.mark.row("A 55")`, with `case="…"` where only one set of its parameters
does. The page's tests and lanes come from these marks; UPDATE_GOLDEN=1 writes them again.
"""

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "seed-rows.md"
TESTS = ROOT / "tests"
PROVEN = {"real", "emulated", "replayed", "rendered", "fake"}
OUT_OF_SCOPE = "out of scope"
IN_TEST_ALL = ", in test-all"
"""Follows the level of a row that `make test` does not prove."""
NOT_OURS = "not ours: "
"""Introduces what is real where a counterpart is partly ours."""
STAND_INS = {"simulator.hosts", "simulator.switch"}
"""Counterparts that are nothing but Python of ours: many hosts, and the switch."""
PARTLY_OURS = {
    "engine/vcenter": re.compile(r"\bvcenter\b|fabric_stack"),
    "engine/pods": re.compile(r"lab-pods"),
    "tests/integration/kubeadm": re.compile(r"integration\.kubeadm"),
}
"""Counterparts that are others' with parts of ours, each with what names it in a test that uses it."""


class Proof(NamedTuple):
    """A test with the mark of a row."""

    file: str
    function: str
    case: str = ""
    """One set of parameters; empty for all of them."""

    def __str__(self) -> str:
        case = f"[{self.case}]" if self.case else ""
        return f"`{self.file}::{self.function}{case}`"

    def has_its_case(self) -> bool:
        """Whether the case is written in a file beside the test."""
        files = (ROOT / self.file).parent.glob("*.py")
        written = re.compile(f'(?<!case=)"{re.escape(self.case)}"')
        return not self.case or any(written.search(file.read_text()) for file in files)

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


class Row(NamedTuple):
    """A row of the page."""

    text: str
    what_does_it: str
    proof: str
    """The tests, or why there is none."""
    level: str
    """With its lane."""


def rows_of_guides() -> dict[str, str]:
    """Each row of the guides, as it was read, by seed and lines."""
    lines = (TESTS / "data" / "seed_rows.tsv").read_text().splitlines()
    return dict(line.split("\t") for line in lines)


def rows_of_page(page: str) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    seed = ""
    for line in page.splitlines():
        if heading := re.match(r"## Seed (\w)", line):
            seed = heading[1]
        cells = cells_of(line)
        if seed and len(cells) == 5 and cells[0] != "lines" and not cells[0].startswith("---"):
            rows[f"{seed} {cells[0]}"] = Row(*cells[1:])
    return rows


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]


def proofs() -> dict[str, list[Proof]]:
    """The tests with marks, by row."""
    by_row: dict[str, list[Proof]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if "mark.row(" not in path.read_text():
            continue
        file = str(path.relative_to(ROOT))
        for function in _functions(file).values():
            for row, proof in _proofs_of(file, function):
                by_row.setdefault(row, []).append(proof)
    return by_row


def _proofs_of(file: str, function: ast.FunctionDef) -> Iterator[tuple[str, Proof]]:
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.row":
            case = "".join(ast.literal_eval(keyword.value) for keyword in mark.keywords)
            for row in mark.args:
                yield ast.literal_eval(row), Proof(file, function.name, case)


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text())


def _functions(file: str) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in _tree(file).body if isinstance(node, ast.FunctionDef)}


def _marks_of_module(file: str) -> list[ast.expr]:
    for node in _tree(file).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            return node.value.elts if isinstance(node.value, ast.List) else [node.value]
    return []


def _imported(file: str) -> set[str]:
    """Packages that a test module imports, by their first two names."""
    modules = [node.module or "" for node in ast.walk(_tree(file)) if isinstance(node, ast.ImportFrom)]
    return {".".join(module.split(".")[:2]) for module in modules}


ROWS = rows_of_page(PAGE.read_text())
PROOFS = proofs()


def level_of(row: str) -> str:
    return ROWS[row].level.removesuffix(IN_TEST_ALL)


def proofs_of_level(row: str) -> list[Proof]:
    """The tests that make a row as proven as it says."""
    tests = PROOFS[row]
    if level_of(row) in ("real", "emulated"):
        return [test for test in tests if test.runs_more_than_ours()]
    return tests


def written(page: str) -> str:
    """The page with tests and lanes as the marks have them."""
    lines = []
    seed = ""
    for line in page.splitlines():
        if heading := re.match(r"## Seed (\w)", line):
            seed = heading[1]
        cells = cells_of(line)
        row = f"{seed} {cells[0]}"
        if row in PROOFS:
            cells[3] = ", ".join(str(test) for test in PROOFS[row])
            cells[4] = level_of(row)
            if all(test.is_left_out() for test in proofs_of_level(row)):
                cells[4] += IN_TEST_ALL
            lines.append(f"| {' | '.join(cells)} |")
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def test_the_page_has_the_rows_of_the_guides() -> None:
    assert {row: entry.text for row, entry in ROWS.items()} == rows_of_guides()


def test_the_page_names_the_tests_that_are_marked_and_their_lane() -> None:
    page = PAGE.read_text()
    expected = written(page)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(expected)
        page = expected

    assert page == expected, "write it again with UPDATE_GOLDEN=1"


def test_a_row_is_proven_by_a_test_or_out_of_scope_with_the_reason() -> None:
    proven = {row for row in ROWS if level_of(row) in PROVEN}
    reasons = [row for row in ROWS if row not in proven and not ROWS[row].proof]

    assert {level_of(row) for row in ROWS} <= {*PROVEN, OUT_OF_SCOPE}
    assert proven == set(PROOFS), "mark the test that proves it"
    assert reasons == []
    assert [row for row in ROWS if not ROWS[row].what_does_it] == []


def test_a_row_that_is_real_or_emulated_has_a_test_that_runs_more_than_ours() -> None:
    above_fake = [row for row in ROWS if level_of(row) in ("real", "emulated")]

    assert above_fake
    assert [row for row in above_fake if not proofs_of_level(row)] == [], (
        "against a counterpart of ours it is fake, without one rendered"
    )


def test_a_row_whose_counterpart_is_partly_ours_names_the_part_that_is_not() -> None:
    above_fake = [row for row in ROWS if level_of(row) in ("real", "emulated")]
    partly = [row for row in above_fake if all(test.is_partly_ours() for test in proofs_of_level(row))]

    assert len(partly) > 20
    assert [row for row in partly if NOT_OURS not in ROWS[row].what_does_it] == [], "else it is fake"


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

    assert Proof(file, function).runs_more_than_ours() is more


def test_a_mark_names_a_case_that_its_test_has() -> None:
    named = "tests/stacks/test_machines.py", "test_it_is_refused_with_path_and_remedy"

    assert [test for tests in PROOFS.values() for test in tests if not test.has_its_case()] == []
    assert Proof(*named, "a host without the switch").has_its_case()
    assert not Proof(*named, "a host without any switch").has_its_case()

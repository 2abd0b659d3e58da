"""Code that breathes: names of the domain, and statements that a reader takes in at once.

Ruff keeps lines of 100 columns and complexity of 8 there (`ruff.toml` of components and stacks).
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

EMPTY_NAMES = {"found", "asked", "said", "one", "each", "wanted", "seen", "told"}
"""Names that say nothing of the domain; docs/style.md has better ones."""
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
BRACKETS_AND_TWO_LINES = 2
MOST_COLUMNS = 100


def folders() -> list[Path]:
    places = [*(ROOT / "components").iterdir(), ROOT / "stacks"]
    return sorted(place for place in places if any(place.rglob("*.py")) or place.suffix == ".py")


def faults(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and fault."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in EMPTY_NAMES:
            yield node.lineno, f"the name {node.id}"
        elif isinstance(node, ast.arg) and node.arg in EMPTY_NAMES:
            yield node.lineno, f"the name {node.arg}"
        elif isinstance(node, ast.Call):
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            for value in values:
                if isinstance(value, ast.IfExp):
                    yield value.lineno, "a conditional expression as an argument"
        elif isinstance(node, COMPREHENSIONS):
            for fault in comprehension_faults(node):
                yield node.lineno, fault


def comprehension_faults(node: ast.expr) -> Iterator[str]:
    inner = [part for part in ast.walk(node) if part is not node]
    if any(isinstance(part, COMPREHENSIONS) for part in inner):
        yield "a nested comprehension"
    if any(isinstance(part, ast.NamedExpr) for part in inner):
        yield "a walrus in a comprehension"
    if node.end_lineno and node.end_lineno > node.lineno + BRACKETS_AND_TWO_LINES:
        yield "a comprehension over more than two lines"


def faults_below(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*.py")) or [folder]:
        text = file.read_text()
        place = file.relative_to(ROOT)
        for number, fault in faults(ast.parse(text)):
            yield f"{place}:{number}: {fault}"
        for number, line in enumerate(text.splitlines(), start=1):
            if len(line) > MOST_COLUMNS:
                yield f"{place}:{number}: more than {MOST_COLUMNS} columns"


def test_code_uses_plain_statements_and_names_of_the_domain() -> None:
    lines = []
    for folder in folders():
        lines += faults_below(folder)

    assert lines == []


def test_every_dense_statement_is_noticed() -> None:
    dense = (
        "found = 1",
        "def f(asked): pass",
        "f(1 if x else 2)",
        "f(a=1 if x else 2)",
        "[[b for b in a] for a in c]",
        "[b for a in c if (b := a)]",
        "[\n a\n for a in b\n]",
    )

    for text in dense:
        assert list(faults(ast.parse(text))), text
    assert not list(faults(ast.parse("hosts = [\n a for a in b]\nport = 1 if x else 2")))

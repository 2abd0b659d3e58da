"""The product's source files, each parsed once for all tests that look at its statements."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def statements(path: Path) -> tuple[ast.stmt, ...]:
    """All statements of a file, nested ones too."""
    return tuple(_statements(ast.parse(path.read_text())))


@cache
def imports(path: Path) -> frozenset[str]:
    """Modules that a file imports by their full names, wherever in it."""
    return frozenset(name for statement in statements(path) for name in _imported(statement))


def imported(tree: ast.AST) -> frozenset[str]:
    """Modules that parsed source imports."""
    return frozenset(name for statement in _statements(tree) for name in _imported(statement))


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Skips expressions: they contain no statement, and a file has ten times as many of them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _statements(node)


def _imported(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
        yield statement.module

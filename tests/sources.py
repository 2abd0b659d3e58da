"""The product's source files, each parsed once for all tests that look at its imports and classes.

Only the answers are kept: the trees of all files are a million objects, which every garbage collection would visit.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Source:
    """What tests ask of a file."""

    imports: frozenset[str]
    """Modules that it imports by their full names, wherever in it."""
    names: frozenset[str]
    """What it imports from modules: `module.name`."""
    classes: tuple[tuple[str, int], ...]
    """Name and line of each class."""


@cache
def source(path: Path) -> Source:
    found = list(_statements(ast.parse(path.read_text())))
    absolute = [one for one in found if isinstance(one, ast.ImportFrom) and one.module and not one.level]
    return Source(
        imports=frozenset(name for statement in found for name in _imported(statement)),
        names=frozenset(f"{one.module}.{alias.name}" for one in absolute for alias in one.names),
        classes=tuple((one.name, one.lineno) for one in found if isinstance(one, ast.ClassDef)),
    )


def imports(path: Path) -> frozenset[str]:
    """Modules that a file imports by their full names, wherever in it."""
    return source(path).imports


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

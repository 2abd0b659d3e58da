"""Docstrings of a section's fields, for the schema and for the text of a fault.

pydantic could read them itself, but does so for each model at each start: a fifth of a preview's
processor time.
"""

import ast
import inspect
from functools import cache
from pathlib import Path

from pydantic import BaseModel


def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The docstring below each field of a model, inherited ones included."""
    docstrings: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel) and owner is not BaseModel:
            docstrings |= _of_module(inspect.getfile(owner)).get(owner.__qualname__, {})
    return docstrings


@cache
def _of_module(file: str) -> dict[str, dict[str, str]]:
    """By class and field."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return {node.name: _of_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _of_class(node: ast.ClassDef) -> dict[str, str]:
    docstrings = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
        ):
            text = below.value
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                docstrings[field.target.id] = " ".join(text.value.split())
    return docstrings

"""A lab as the text of a stack file: an entry per block, a PF or cable per line."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*|\d+(\.\d+){2,}(/\d+)?|\d+(/\d+)+")
WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
"""What a YAML parser takes for something else than text."""
INDENT = "  "


def stack_text(lab: Mapping[str, Any], key: str, head: str) -> str:
    """The stack file of a lab.

    Args:
        lab: what goes below the key.
        key: the lab's key in the configuration.
        head: comment lines.
    """
    lines = [head.rstrip("\n"), "config:", f"{INDENT}{key}:"]
    for name, value in lab.items():
        lines += _field(name, value, 2)
    return "\n".join(lines) + "\n"


def _field(name: str, value: Any, depth: int) -> Iterator[str]:
    """A field as a line, or as a block where its entries are worth lines of their own."""
    pad = INDENT * depth
    if isinstance(value, list) and value and isinstance(value[0], dict):
        yield f"{pad}{_scalar(name)}:"
        for entry in value:
            yield from _entry(entry, depth + 1)
    elif name in ("node_classes", "except", "ports") and isinstance(value, dict):
        yield f"{pad}{_scalar(name)}:"
        for inner, content in value.items():
            if name == "node_classes":
                yield f"{pad}{INDENT}{_scalar(inner)}:"
                for key, part in content.items():
                    yield from _field(key, part, depth + 2)
            else:
                yield f"{pad}{INDENT}{_scalar(inner)}: {flow(content)}"
    else:
        yield f"{pad}{_scalar(name)}: {flow(value)}"


def _entry(entry: Mapping[str, Any], depth: int) -> Iterator[str]:
    """An item of a list: a line for PFs and cables, a block for what has a name."""
    pad = INDENT * depth
    if not {"name", "names"} & entry.keys():
        yield f"{pad}- {flow(entry)}"
        return
    first = True
    for name, value in entry.items():
        for line in _field(name, value, depth + 1):
            yield f"{pad}- {line.lstrip()}" if first else line
            first = False


def flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(part) for part in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and PLAIN.fullmatch(value) and value.lower() not in WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)

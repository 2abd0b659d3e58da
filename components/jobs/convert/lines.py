"""A YAML document together with the line on which each of its parts stands."""

from dataclasses import dataclass
from typing import cast

import yaml
from pydantic import JsonValue

from stacks.base import LabError

Path = tuple[str | int, ...]

LARGEST_FILE_BYTES = 1_000_000
MOST_PARTS = 100_000
"""Aliases of aliases can make a small file endless."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document of a file."""

    value: JsonValue
    lines: dict[Path, int]

    def line(self, path: Path) -> int:
        """The line of a part, or of its nearest parent that the file has."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_documents(text: str, name: str) -> list[Document]:
    """The documents of a file.

    Raises:
        LabError: when it is no YAML, or larger than a job can be.
    """
    if len(text) > LARGEST_FILE_BYTES:
        raise LabError(f"{name}: larger than {LARGEST_FILE_BYTES} bytes, so it is no job file")
    try:
        nodes = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if node is not None]
        values = [value for value in yaml.safe_load_all(text) if value is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise LabError(f"{name} is not YAML{where}: {getattr(error, 'problem', None) or 'unreadable'}") from None
    lines = [_lines(node) for node in nodes]
    if sum(map(len, lines)) >= MOST_PARTS:
        raise LabError(f"{name}: more than {MOST_PARTS} parts, so it is no job file")
    return [Document(value=cast(JsonValue, value), lines=found) for found, value in zip(lines, values, strict=False)]


def _lines(root: yaml.Node) -> dict[Path, int]:
    """Line by path, from 1; at most MOST_PARTS of them."""
    found: dict[Path, int] = {(): root.start_mark.line + 1}
    waiting: list[tuple[Path, yaml.Node]] = [((), root)]
    while waiting and len(found) < MOST_PARTS:
        path, node = waiting.pop()
        if isinstance(node, yaml.MappingNode):
            for key, inner in node.value:
                here = (*path, str(key.value))
                found[here] = key.start_mark.line + 1
                waiting.append((here, inner))
        elif isinstance(node, yaml.SequenceNode):
            for position, inner in enumerate(node.value):
                found[(*path, position)] = inner.start_mark.line + 1
                waiting.append(((*path, position), inner))
    return found


def show(path: Path) -> str:
    """A path as people write it: `spec.mpiReplicaSpecs.Worker.template`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")

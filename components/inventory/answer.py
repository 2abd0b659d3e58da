"""The answer of a host as its part of the inventory. An invalid value costs only itself."""

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from components.inventory.model import Host

SCHEMA = 1
"""Schema of the output of the host program's verb `look`."""
HOST = TypeAdapter(Host)
SECTIONS = frozenset({"system", "pfs", "gpus", "network", "carriers"})
"""What an answer may contain about its host."""
READING = {"value", "source", "unknown"}
NO_READING = ("dataclass_type", "value_error")
"""Faults of the reading itself, not of its value."""
PASSES = 5
"""Faults are removed pass by pass: a wrong list may hide another one."""
CONTROL = re.compile(r"\\u00[01][0-9a-f]|\\u007f|\\u009[0-9a-f]|\\[bfnrt]|\x7f", re.IGNORECASE)
"""Escapes of control characters in JSON: a terminal would act on them."""


class LookAnswerError(Exception):
    """An answer that is not an inventory; its text is for people."""


def host_of(text: str, host: Host) -> Host:
    """A host with the content of its answer; name, place and time stay unchanged.

    Raises:
        AnswerError: when the answer is not an inventory.
    """
    document = _document(text)
    for key, value in HOST.dump_python(host, mode="json").items():
        if key not in SECTIONS:
            document[key] = value
    for _ in range(PASSES):
        try:
            return HOST.validate_json(json.dumps(document), strict=True)
        except ValidationError as error:
            for fault in error.errors(
                include_url=False, include_input=False, include_context=False
            ):
                _take_out(document, fault)
    raise LookAnswerError("its answer is not a valid inventory answer")


def _document(text: str) -> dict[str, Any]:
    line = next((line for line in reversed(text.splitlines()) if line.startswith("{")), "")
    try:
        document = json.loads(CONTROL.sub("?", line))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        last_lines = " / ".join(text.strip().splitlines()[-2:])
        if not last_lines:
            raise LookAnswerError("it printed nothing")
        raise LookAnswerError(f"it printed {last_lines[:200]!r} instead of an inventory answer")
    if isinstance(failed := document.get("failed"), Mapping):
        raise LookAnswerError(f"{failed.get('reason')}: {failed.get('hint')}"[:300])
    if document.pop("schema", None) != SCHEMA:
        raise LookAnswerError(f"its inventory answer has another schema than {SCHEMA}")
    return {key: value for key, value in document.items() if key in SECTIONS}


def _take_out(document: dict[str, Any], fault: ErrorDetails) -> None:
    """Replaces the fault, or the innermost reading around it; else drops the section."""
    path = fault["loc"]
    at: Any = document
    inner: tuple[Any, Any] | None = None
    for depth, step in enumerate(path, 1):
        try:
            below = at[step]
        except (KeyError, IndexError, TypeError):
            break
        is_wrong = depth == len(path) and fault["type"] in NO_READING
        if is_wrong or (isinstance(below, dict) and below and below.keys() <= READING):
            inner = (at, step)
        at = below
    if inner is None:
        document.pop(str(path[0]), None)
        return
    parent, key = inner
    source = parent[key].get("source") if isinstance(parent[key], dict) else ""
    reason = f"the host returned an invalid value: {fault['msg']}"
    parent[key] = {"unknown": reason, "source": source if isinstance(source, str) else ""}

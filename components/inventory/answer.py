"""The answer of a host as its part of the inventory."""

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from components.inventory.model import Host

SCHEMA = 1
"""Schema of the output of the host program's verb `look`."""
HOST = TypeAdapter(Host)
SECTIONS = frozenset({"system", "pfs", "gpus", "network", "carriers"})
"""What an answer may contain about its host."""
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
    try:
        return HOST.validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise LookAnswerError(f"its answer is invalid: {place}: {first['msg']}") from None


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

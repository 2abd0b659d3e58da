"""Files that this program wrote itself."""

import json
from typing import Any, Dict, List

from .machine import Machine, StepError


def load_json(machine: Machine, path: str) -> Dict[str, Any]:
    """A file of ours; empty when it is missing.

    Raises:
        StepError: when it is damaged.
    """
    text = machine.read(path)
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        raise StepError(f"{path} is damaged", "move it away; what it recorded is lost") from None
    return found if isinstance(found, dict) else {}


def load_names(machine: Machine, path: str) -> List[str]:
    """A list of names; empty when it is missing or damaged."""
    try:
        return [str(item) for item in json.loads(machine.read(path))]
    except (ValueError, TypeError):
        return []

"""The committed schema of a lab file, loaded once: to check such a schema takes longer than to check a file by it."""

import json
from pathlib import Path

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from stacks.schema import SCHEMA_FILE

SCHEMA = Draft202012Validator(json.loads(SCHEMA_FILE.read_text()))


def schema_fault(path: Path) -> str | None:
    """The first thing in which a stack file deviates from the schema."""
    fault = best_match(SCHEMA.iter_errors(yaml.safe_load(path.read_text())))
    return fault and fault.message

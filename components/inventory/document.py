"""`inventory.json`: written and read."""

import json
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from components.inventory.model import SCHEMA, Inventory
from stacks.base import LabError
from stacks.faults import reason
from stacks.files import write_file
from stacks.words import plural

INVENTORY = TypeAdapter(Inventory)


def dump(inventory: Inventory) -> bytes:
    """The document, without values that were not read."""
    return INVENTORY.dump_json(inventory, exclude_defaults=True) + b"\n"


def parse(text: bytes | str, place: str = "inventory.json") -> Inventory:
    """The inventory in a document.

    Raises:
        LabError: when it is not an inventory, or has another schema.
    """
    try:
        inventory = INVENTORY.validate_json(text)
    except ValidationError as error:
        _refuse_other_schema(_schema_of(text), place)
        first = error.errors(include_url=False)[0]
        where = "".join(f"{part}." for part in first["loc"])[:-1]
        what = f"{where}: {reason(first)}" if where else reason(first)
        cut = ": the file is empty or was cut off" if "EOF" in first["msg"] else ""
        faults = plural(error.error_count(), "fault")
        raise LabError(
            f"{place}: not an inventory: {what}{cut} ({faults}); run rocelab look again"
        ) from None
    _refuse_other_schema(inventory.schema, place)
    return inventory


def _schema_of(text: bytes | str) -> object:
    """The schema of a document that another version wrote in another shape; ours if it has none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return SCHEMA
    return content.get("schema", SCHEMA) if isinstance(content, dict) else SCHEMA


def _refuse_other_schema(schema: object, place: str) -> None:
    if schema != SCHEMA:
        raise LabError(
            f"{place}: schema {schema}, but this version reads {SCHEMA}; run this version's "
            "rocelab look"
        )


def load(path: Path) -> Inventory:
    """The inventory of a file.

    Raises:
        LabError: when it holds none.
    """
    return parse(path.read_bytes(), str(path))


def save(inventory: Inventory, path: Path) -> None:
    """Replaces the file in one step; only its owner may read its names and addresses."""
    write_file(path, dump(inventory), private=True)

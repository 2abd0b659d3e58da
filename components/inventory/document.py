"""`inventory.json`: written and read."""

import os
import tempfile
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from components.inventory.model import SCHEMA, Inventory
from stacks.base import LabError

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
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise LabError(
            f"{place}: not an inventory: {where}: {first['msg']} ({error.error_count()} faults); run rocelab look again"
        ) from None
    if inventory.schema != SCHEMA:
        raise LabError(
            f"{place}: schema {inventory.schema}, but this version reads {SCHEMA}; run this version's rocelab look"
        )
    return inventory


def load(path: Path) -> Inventory:
    """The inventory of a file.

    Raises:
        LabError: when it holds none.
    """
    return parse(path.read_bytes(), str(path))


def save(inventory: Inventory, path: Path) -> None:
    """Replaces the file in one step; only its owner may read it, since it names pods and addresses."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(dump(inventory))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

"""`inventory.json`: written and read."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from components.inventory.model import SCHEMA, Inventory
from stacks.base import LabError
from stacks.faults import reason
from stacks.files import write_file

INVENTORY = TypeAdapter(Inventory)


def dump(inventory: Inventory) -> bytes:
    """The document, without values that were not read."""
    return INVENTORY.dump_json(inventory, exclude_defaults=True) + b"\n"


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keeps the garbage collector from the new objects: millions, and no cycle among them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def parse(text: bytes | str, place: str = "inventory.json") -> Inventory:
    """The inventory in a document.

    Raises:
        LabError: when it is not an inventory, or has another schema.
    """
    try:
        with _uncollected():
            inventory = INVENTORY.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise LabError(
            f"{place}: not an inventory: {where}: {reason(first)}; run rocelab look again"
        ) from None
    if inventory.schema != SCHEMA:
        raise LabError(
            f"{place}: schema {inventory.schema}, but this version reads {SCHEMA}; "
            "run rocelab look again"
        )
    return inventory


def load(path: Path) -> Inventory:
    """The inventory of a file.

    Raises:
        LabError: when it holds none.
    """
    return parse(path.read_bytes(), str(path))


def save(inventory: Inventory, path: Path) -> None:
    """Replaces the file in one step; only its owner may read its names and addresses."""
    write_file(path, dump(inventory), private=True)

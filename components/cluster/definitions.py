"""Custom resource definitions: pinned files of upstream's releases, and small ones written here."""

from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from components.cluster.manifests import Manifest
from components.cluster.store import Store
from stacks.base import LabError
from stacks.bill import Upstream
from stacks.safe_yaml import load_yaml


def read_definitions(store: Store, kinds: Mapping[str, Upstream | Manifest]) -> Mapping[str, Manifest]:
    """The definitions of these kinds (`profiles.kinds`).

    Raises:
        LabError: when an upstream file cannot be had, or is no definition.
    """
    return {
        key: parse_definition(store.read(kind)) if isinstance(kind, Upstream) else kind for key, kind in kinds.items()
    }


def parse_definition(text: str) -> Manifest:
    """A definition without its prose: the API server checks the same, and the state is a fifth of the size."""
    found = load_yaml(text)
    if not isinstance(found, dict) or found.get("kind") != "CustomResourceDefinition":
        raise LabError("an upstream file of stacks/bill.py is no CustomResourceDefinition: correct its path")
    return cast(Manifest, without_prose(found))


def without_prose(part: JsonValue) -> JsonValue:
    """The same without descriptions; a property that is called `description` is a map and stays."""
    if isinstance(part, dict):
        return {
            key: without_prose(value)
            for key, value in part.items()
            if not (key == "description" and isinstance(value, str))
        }
    if isinstance(part, list):
        return [without_prose(item) for item in part]
    return part

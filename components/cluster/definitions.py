"""Custom resource definitions: the large ones from upstream's releases, those of nv-ipam written here."""

from collections.abc import Collection, Mapping
from typing import cast

from pydantic import JsonValue

from components.cluster.ipam_definitions import render_pool_definitions
from components.cluster.manifests import Manifest
from components.cluster.store import Store
from stacks.base import LabError
from stacks.bill import MPIJOBS_DEFINITION, NETWORKS_DEFINITION, WHEREABOUTS_DEFINITIONS
from stacks.safe_yaml import load_yaml


def read_definitions(store: Store, keys: Collection[str]) -> Mapping[str, Manifest]:
    """The definitions of those short keys (`profiles.kinds`), always in the same order.

    Raises:
        LabError: when an upstream file cannot be had, or is no definition.
    """
    upstream = {
        "networks": NETWORKS_DEFINITION,
        "mpijobs": MPIJOBS_DEFINITION,
        **{f"whereabouts-{kind}": file for kind, file in WHEREABOUTS_DEFINITIONS.items()},
    }
    found = {key: parse_definition(store.read(file)) for key, file in upstream.items() if key in keys}
    return {**found, **{key: own for key, own in render_pool_definitions().items() if key in keys}}


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

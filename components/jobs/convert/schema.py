"""What the real definition of MPIJob knows: fields that it would drop, and values of a type that it refuses."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from components.jobs.convert.lines import Path
from stacks.base import LabError

Schema = Mapping[str, JsonValue]


@dataclass(frozen=True, kw_only=True, slots=True)
class Unknown:
    """A field that the API server drops without a word."""

    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class WrongType:
    """A value that the API server refuses, with the type that it wants."""

    path: Path
    wanted: str


def schema_of(definition: Mapping[str, JsonValue], version: str) -> Schema:
    """The schema of one version of a CustomResourceDefinition.

    Raises:
        LabError: when the definition has no such version.
    """
    spec = _map(definition.get("spec"))
    versions = spec.get("versions")
    for each in versions if isinstance(versions, list) else []:
        if isinstance(each, dict) and each.get("name") == version:
            return _map(_map(each.get("schema")).get("openAPIV3Schema"))
    raise LabError(f"the MPIJob definition of stacks/bill.py has no version {version}: correct its pin")


def deviations(value: JsonValue, schema: Schema, path: Path = ()) -> Iterator[Unknown | WrongType]:
    """Everything in a document that its schema does not know or refuses, outermost only."""
    if path == ("metadata",) or value is None:
        return  # the API server knows metadata by itself
    if isinstance(value, dict):
        yield from _of_map(value, schema, path)
    elif isinstance(value, list):
        items = _map(schema.get("items"))
        if schema.get("type") == "array":
            for position, item in enumerate(value):
                yield from deviations(item, items, (*path, position))
        elif "type" in schema:
            yield WrongType(path=path, wanted=str(schema["type"]))
    elif not _fits(value, schema):
        yield WrongType(path=path, wanted=str(schema.get("type")))


def _of_map(value: Mapping[str, JsonValue], schema: Schema, path: Path) -> Iterator[Unknown | WrongType]:
    if schema.get("type", "object") != "object":
        yield WrongType(path=path, wanted=str(schema["type"]))
        return
    properties, others = _map(schema.get("properties")), schema.get("additionalProperties")
    keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or others is True
    for key, inner in value.items():
        here = (*path, key)
        if key in properties:
            yield from deviations(inner, _map(properties[key]), here)
        elif isinstance(others, dict):
            yield from deviations(inner, others, here)
        elif not keeps and (properties or path):
            yield Unknown(path=here)


def _fits(value: JsonValue, schema: Schema) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    wanted = schema.get("type")
    if isinstance(value, bool):
        return wanted in (None, "boolean")
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "array": list}
    return wanted is None or isinstance(value, kinds.get(str(wanted), object))  # type: ignore[arg-type]  # mixed forms


def _map(value: object) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}

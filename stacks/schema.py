"""The JSON Schema of a stack file, which an editor reads through the file's first line."""

import json
from pathlib import Path

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from stacks.base import members
from stacks.docstrings import field_docstrings
from stacks.lab_file import LabFile
from stacks.read import FILE, KEY
from stacks.switches import Switch

SCHEMA_FILE = Path(__file__).with_name("lab.schema.json")


class Described(GenerateJsonSchema):
    """Generates a schema with the fields' docstrings as descriptions."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        if "description" in described:
            described["description"] = " ".join(described["description"].split())
        for name, text in field_docstrings(schema["cls"]).items():
            if name in described["properties"]:
                described["properties"][name].setdefault("description", text)
        return described


def stack_file_schema() -> str:
    """The schema as text, with the lab under its key of a stack file."""
    lab = LabFile.model_json_schema(mode="validation", schema_generator=Described)
    definitions = lab.pop("$defs")
    _complete_switch_groups(definitions)
    other_file = {
        "type": "object",
        "properties": {FILE: {"type": "string"}},
        "additionalProperties": False,
    }
    lab = {"if": {"required": [FILE]}, "then": other_file, "else": lab}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rocelab stack file",
        "type": "object",
        "properties": {"config": {"type": "object", "properties": {KEY: lab}, "required": [KEY]}},
        "required": ["config"],
        "$defs": definitions,
    }
    return json.dumps(schema, indent=2, sort_keys=False) + "\n"


def _complete_switch_groups(definitions: dict[str, JsonSchemaValue]) -> None:
    """Allows a group every key that a switch of any OS has."""
    group, by_os = definitions["SwitchGroup"], members(Switch, "os")
    known: JsonSchemaValue = {}
    for model in by_os.values():
        known = {**definitions[model.__name__]["properties"], **known}
    group["properties"] = {
        **known,
        **group["properties"],
        "os": {"enum": list(by_os), "type": "string"},
    }
    del group["properties"]["name"]
    group["required"] = [*group["required"], "os"]
    group["additionalProperties"] = False

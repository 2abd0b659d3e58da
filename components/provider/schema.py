"""The package schema, from the properties classes: what `pulumi package get-schema` prints."""

from collections.abc import Mapping
from inspect import getdoc
from typing import Any

from components.provider.base import REPLACES, SECRET, Properties
from components.provider.resources import (
    COMPONENTS,
    RESOURCES,
    VERSION,
    component_class,
    resource_class,
)
from stacks.schema import Described

Json = dict[str, Any]

ANY = {"$ref": "pulumi.json#/Any"}
LAB_TEXT = "The lab as JSON; its fields and limits are in stacks/lab.schema.json."
SECRETS = {
    "sshPrivateKey": "Private key of the hosts' user, with `access.identity: secret`.",
    "kubeconfig": "Administrator's kubeconfig, with `cluster.kubeconfig: secret`.",
    "vcenterPassword": "Password of `fabric.user`, with `fabric.password: secret`.",
    "hostKeySeed": "What the SSH host keys of created VMs are derived from.",
    "licenceToken": "Token of the vGPU license server.",
    "bitfusionToken": "Token of Bitfusion's clients.",
}


def package_schema() -> Json:
    """The schema of the whole package; imports every resource."""
    types: Json = {}
    resources = {token: _component(token) for token in COMPONENTS}
    resources |= {token: _resource(token, types) for token in RESOURCES}
    settings: Json = {"lab": {"type": "string", "description": LAB_TEXT}}
    for key, text in SECRETS.items():
        settings[key] = {"type": "string", "secret": True, "description": text}
    return {
        "name": "rocelab",
        "version": VERSION,
        "description": "RDMA labs: hosts, switches, vSphere, clusters and their measurement.",
        "config": {"variables": settings},
        "provider": {"inputProperties": settings, "properties": settings},
        "resources": resources,
        "types": types,
    }


def _component(token: str) -> Json:
    kind = component_class(token)
    properties: Json = {}
    for name, text in kind.OUTPUTS.items():
        properties[name] = {"type": "object", "additionalProperties": ANY, "description": text}
    properties["kubeconfig"] = {
        "type": "string",
        "secret": True,
        "description": kind.OUTPUTS["kubeconfig"],
    }
    return {
        "description": getdoc(kind),
        "isComponent": True,
        "properties": properties,
        "required": sorted(properties.keys() - kind.OPTIONAL),
    }


def _resource(token: str, types: Json) -> Json:
    kind = resource_class(token)
    inputs, state = _object(kind.inputs, token, types), _object(kind.state, token, types)
    for name in kind.inputs.marked(REPLACES):
        inputs["properties"][name]["willReplaceOnChanges"] = True
    return {
        "description": getdoc(kind),
        "inputProperties": inputs["properties"],
        "requiredInputs": inputs["required"],
        "properties": state["properties"],
        "required": state["required"],
    }


def _object(model: type[Properties], token: str, types: Json) -> Json:
    schema = model.model_json_schema(schema_generator=Described)
    definitions = schema.pop("$defs", {})
    converter = _Types(token.rpartition(":")[0], definitions, types)
    properties = {name: converter.of(spec) for name, spec in schema["properties"].items()}
    for name in model.marked(SECRET):
        properties[name]["secret"] = True
    return {"properties": properties, "required": schema.get("required", [])}


class _Types:
    """From pydantic's JSON Schema to Pulumi's; nested models become types of the module."""

    def __init__(self, module: str, definitions: Json, types: Json) -> None:
        self._module = module
        self._definitions = definitions
        self._types = types

    def of(self, spec: Mapping[str, Any]) -> Json:
        converted = self._type(spec)
        if "description" in spec:
            converted["description"] = spec["description"]
        return converted

    def _type(self, spec: Mapping[str, Any]) -> Json:
        if "$ref" in spec:
            return self._named(spec["$ref"].rpartition("/")[2])
        choices = [choice for choice in spec.get("anyOf", []) if choice.get("type") != "null"]
        if len(choices) == 1:
            return self._type(choices[0])
        kind = spec.get("type")
        if kind == "array":
            return {"type": kind, "items": self.of(spec.get("items", {}))}
        if kind == "object":
            values = spec.get("additionalProperties")
            inner = self.of(values) if isinstance(values, dict) else dict(ANY)
            return {"type": kind, "additionalProperties": inner}
        return {"type": kind} if kind else dict(ANY)

    def _named(self, name: str) -> Json:
        spec = self._definitions[name]
        if "properties" not in spec:
            return self.of(spec)
        token = f"{self._module}:{name}"
        if token not in self._types:
            described: Json = {"type": "object", "required": spec.get("required", [])}
            self._types[token] = described  # before its fields, which may name it again
            fields = spec["properties"].items()
            described["properties"] = {field: self.of(inner) for field, inner in fields}
        return {"$ref": f"#/types/{token}"}

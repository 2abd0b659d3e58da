"""All faults of a lab file in one text: line, path, value, limit and remedy, at most
fifteen lines.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from ipaddress import AddressValueError
from typing import Any, TypeVar, cast, get_args

import yaml
from pydantic import BaseModel, Tag, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from stacks.base import InterfaceName, Name, PciAddress, ResourceName
from stacks.bill import Image
from stacks.cluster import VendorId
from stacks.docstrings import field_docstrings
from stacks.nodes import Node
from stacks.rails import Rail
from stacks.rules import BrokenRulesError, Fault, Parts, Path, broken_rules, show
from stacks.safe_yaml import compose_yaml

T = TypeVar("T")

# built once: for a union that takes longer than to validate a node
RAIL, NODE = TypeAdapter(Rail), TypeAdapter[Node](Node)

MOST_SHOWN = 12
LONGEST_VALUE = 40
WORDS = {
    "missing": "missing",
    "extra_forbidden": "unknown key",
    "string_type": "should be text",
    "bool_type": "should be true or false",
    "tuple_type": "should be a list",
    "dict_type": "should be an object",
    "model_type": "should be an object",
    "dataclass_type": "should be an object",
    "too_short": "should have at least {min_length}, not {actual_length}",
    "union_tag_not_found": "{discriminator} is missing",
    "union_tag_invalid": "{tag!r} is not one of {expected_tags}",
}
"""Where pydantic's own words name Python's types."""


def _pattern(text: object) -> str:
    """The pattern of a kind of text."""
    return str(
        next(part.pattern for part in get_args(text)[1].metadata if hasattr(part, "pattern"))
    )


FORMS = {
    _pattern(Name): "lower-case letters, digits and hyphens, a letter first",
    _pattern(InterfaceName): "letters, digits, dots, hyphens and underscores, a letter first",
    _pattern(ResourceName): "lower-case letters, digits and underscores",
    _pattern(PciAddress): "an address like 0000:19:00.0, in lower case",
    _pattern(
        Image
    ): "registry/name:tag or registry/name@sha256:…, the name in lower case and without https://",
    _pattern(VendorId): "four lower-case hexadecimal digits from `lspci -n`, such as 15b3",
}
"""Patterns of the vocabulary in words."""
UNION_TAGS = ("union_tag_not_found", "union_tag_invalid")
SECRET_KEY = re.compile(r"(?i)passw|passphrase|secret|token|key|credential|kubeconfig")
"""Names whose values are never shown."""
STACK_SECRET = re.compile(r"`(rocelab:\w+)`")
"""The stack's secret in the docstring of a field that says where it is."""


def faults_of(error: ValidationError, model: type[BaseModel], given: object) -> list[Fault]:
    """Every fault of a refused file.

    The rules between its sections are checked only when all of them are valid.
    """
    faults = field_faults(error, model, given)
    details = error.errors(include_url=False)
    if not any(
        isinstance(detail.get("ctx", {}).get("error"), BrokenRulesError) for detail in details
    ):
        faults.extend(broken_rules(_valid_parts(given, model)))
    return faults


def field_faults(error: ValidationError, model: type[BaseModel], given: object) -> list[Fault]:
    """Every fault of a refused file.

    The rules between its sections are checked only when all of them are valid.
    """
    faults: list[Fault] = []
    details = error.errors(include_url=False)
    deeper = {
        detail["loc"][:-depth] for detail in details for depth in range(1, len(detail["loc"]))
    }
    for detail in details:
        if detail["type"] == "too_short" and detail["loc"] in deeper:
            continue  # it is too short only because its items were refused
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, BrokenRulesError):
            faults.extend(cause.faults)
        else:
            path = _path(detail, given)
            faults.append(Fault(path, _text(detail, model, path)))
    return faults


def report(faults: list[Fault], file_name: str, file_text: str | None) -> str:
    """The text that a user sees; with the file's text each fault names its line."""
    lines = []
    for fault in faults[:MOST_SHOWN]:
        number = _line_of(fault.path, file_text) if file_text else None
        lines.append(
            f"  {f'line {number}: ' if number else ''}{show(fault.path) or 'lab'}: {fault.text}"
        )
    if len(faults) > MOST_SHOWN:
        lines.append(f"  and {len(faults) - MOST_SHOWN} more")
    return "\n".join([f"{file_name} does not describe a lab that can be built:", *lines])


def _path(detail: ErrorDetails, given: Any) -> Path:
    """Where the fault is in the file. pydantic's own path also names the branch of each union on
    the way.
    """
    path: list[str | int] = []
    for step in detail["loc"]:
        keys = (
            range(len(given))
            if isinstance(given, list)
            else given
            if isinstance(given, dict)
            else ()
        )
        if step in keys:
            given = given[step]
            path.append(step)
    return (*path, detail["loc"][-1]) if detail["type"] == "missing" else tuple(path)


def _text(detail: ErrorDetails, model: type[BaseModel], path: Path) -> str:
    kind, value = detail["type"], detail.get("input")
    if kind == "missing":
        return f"missing. {_meaning(detail['loc'], model)}".rstrip()
    if kind == "extra_forbidden":
        owner = _model_at(detail["loc"][:-1], model)
        known = [field.alias or name for name, field in owner.model_fields.items()] if owner else []
        return _unknown_key(str(detail["loc"][-1]), known)
    if kind == "literal_error" and "'secret'" in detail["ctx"]["expected"]:
        return _not_the_secret(detail["ctx"]["expected"], detail["loc"], model)
    text = reason(detail)
    if (kind == "value_error" and not isinstance(value, str)) or (
        kind in UNION_TAGS and isinstance(value, dict)
    ):
        return text  # complete in itself
    if text == WORDS["dict_type"] and (needed := _needed(_model_at(detail["loc"], model))):
        text = f"{text} with {needed}"
    field = next((step for step in reversed(path) if isinstance(step, str)), "")
    shown = "" if SECRET_KEY.search(field) else _shown(value)
    joint = "" if not shown else " " if text.startswith("should") else ": "
    return f"{shown}{joint}{text}. {_meaning(detail['loc'], model)}".rstrip()


def reason(detail: ErrorDetails) -> str:
    """What is wrong with a value, and how to write it, without the value and its place."""
    kind, value, context = detail["type"], detail.get("input"), detail.get("ctx", {})
    if isinstance(context.get("error"), AddressValueError):
        return "not an IPv4 address; names and IPv6 are not supported"
    if form := FORMS.get(context.get("pattern", "")):
        return f"write {form}"
    if kind in UNION_TAGS and not isinstance(value, dict):
        kind = "dict_type"
    text = (
        WORDS[kind].format(**context)
        if kind in WORDS
        else detail["msg"].removeprefix("Value error, ")
    )
    quotes = (
        "; put it in quotes" if kind == "string_type" and isinstance(value, int | float) else ""
    )
    return text.removeprefix("Input ").removeprefix("String ") + quotes


def _needed(model: type[BaseModel] | None) -> str:
    """The fields that a section cannot do without."""
    return (
        ", ".join(name for name, field in model.model_fields.items() if field.is_required())
        if model
        else ""
    )


def _shown(value: object) -> str:
    """A scalar as a lab file has it; empty for anything else."""
    if isinstance(value, str):
        if len(value) > LONGEST_VALUE:
            value = f"{value[: LONGEST_VALUE - 1]}…"
        return repr(value)
    return json.dumps(value) if isinstance(value, int | float) or value is None else ""


def _not_the_secret(expected: str, loc: Path, model: type[BaseModel]) -> str:
    """The value may be the secret itself, so it is not repeated."""
    text = (
        f"should be {expected}, not the secret itself; if it was one, remove it from the file and "
        "change it"
    )
    owner = _model_at(loc[:-1], model)
    docstring = field_docstrings(owner).get(str(loc[-1]), "") if owner else ""
    key = STACK_SECRET.search(docstring)
    return f"{text}, then run: pulumi config set --secret {key[1]}" if key else text


def _unknown_key(key: str, known: list[str]) -> str:
    # people forget the unit: `mtu` is far from `mtu_bytes` by letters, and near by meaning
    near = [field for field in known if field.startswith(key)] or difflib.get_close_matches(
        key, known, n=1
    )
    return (
        f"unknown key; did you mean {near[0]}?"
        if near
        else f"unknown key; known here: {', '.join(known)}"
    )


def _meaning(loc: Path, model: type[BaseModel]) -> str:
    """The first sentence of a field's docstring."""
    owner = _model_at(loc[:-1], model)
    text = field_docstrings(owner).get(str(loc[-1]), "") if owner and loc else ""
    return text.replace("\n", " ").split(". ")[0]


def _model_at(loc: Path, model: type[BaseModel]) -> type[BaseModel] | None:
    at = [("", model)]
    for step in (step for step in loc if isinstance(step, str)):
        if owner := next(
            (candidate for _, candidate in at if step in candidate.model_fields), None
        ):
            at = list(_branches(owner.model_fields[step].annotation))
        else:
            chosen = [entry for entry in at if step == entry[0] or _has_tag(entry[1], step)]
            at = chosen or at
    return next((candidate for _, candidate in at), None)


def _branches(
    annotation: Any,  # annotations have no common type
    tag: str = "",
) -> Iterator[tuple[str, type[BaseModel]]]:
    """The models that a field may hold, each with the name of its branch in pydantic's paths."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield tag or annotation.__name__, annotation
    parts = get_args(annotation)
    tag = next((part.tag for part in parts if isinstance(part, Tag)), tag)
    for part in parts:
        yield from _branches(part, tag)


def _has_tag(model: type[BaseModel], step: str) -> bool:
    return any(step in get_args(field.annotation) for field in model.model_fields.values())


def _valid_parts(given: object, model: type[BaseModel]) -> Parts:
    """The valid parts of a refused file, so that rules between sections can be checked."""
    sections = given if isinstance(given, Mapping) else {}

    def valid(kind: TypeAdapter[T], value: object) -> T | None:
        try:
            return kind.validate_python(value, strict=False)
        except ValidationError:
            return None

    def valid_list(kind: TypeAdapter[T], key: str) -> dict[int, T]:
        values = sections.get(key)
        kept = (
            {i: valid(kind, value) for i, value in enumerate(values)}
            if isinstance(values, list)
            else {}
        )
        return {i: part for i, part in kept.items() if part is not None}

    rails = valid_list(RAIL, "rails")
    plain_keys = [key for key in model.model_fields if key in sections]
    plain_keys = [key for key in plain_keys if key not in ("rails", "nodes")]
    return Parts(
        rails,
        valid_list(NODE, "nodes"),
        {key: valid(_adapter(model, key), sections[key]) for key in plain_keys},
        all_rails_valid=len(rails) == len(sections.get("rails") or ()),
    )


@cache
def _adapter(model: type[BaseModel], section: str) -> TypeAdapter[object]:
    return TypeAdapter(cast("type[object]", model.model_fields[section].annotation))


def _line_of(path: Path, file_text: str) -> int | None:
    """The line of a path in the stack file, or of its nearest parent when the key is missing."""
    try:
        node = compose_yaml(file_text)
    except yaml.YAMLError:
        return None
    line: int | None = None
    for step in ("config", "rocelab:lab", *path):
        if isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == str(step)), None)
            if pair is None:
                return line
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif (
            isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value)
        ):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            return line
    return line

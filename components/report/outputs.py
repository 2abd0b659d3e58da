"""Reads a stack's output `validation` through the pulumi CLI, or from a file that holds all outputs."""

import json
from pathlib import Path

from pydantic import JsonValue, ValidationError

from components.stack import Stack, ask_pulumi
from components.validation.summary import Summary
from stacks.base import LabError, UnreachableError


def read_outputs(stack: Stack, file: Path | None) -> dict[str, JsonValue]:
    """All outputs of a stack; secrets stay hidden, a report needs none.

    Raises:
        LabError: when there is no such stack, or what was read are no outputs.
    """
    if file is not None:
        try:
            text = file.read_text()
        except OSError as error:
            raise LabError(f"{file} cannot be read: {error.strerror}") from None
    else:
        text = _ask(stack)
    try:
        outputs = json.loads(text)
    except ValueError:
        outputs = None
    if not isinstance(outputs, dict):
        raise LabError(f"{file or f'stack {stack.name}'}: no outputs in JSON were found")
    return outputs


def _ask(stack: Stack) -> str:
    _ = stack.file  # a name that nobody has is told with those that are close
    try:
        return ask_pulumi("stack", "output", "--json", "--stack", stack.name)
    except UnreachableError as error:
        if "no stack named" not in str(error):
            raise
        raise UnreachableError(f"{error}. make up makes it, on hardware pulumi up") from None


def summary_in(outputs: dict[str, JsonValue]) -> Summary | None:
    """The verdict; None when the lab asks for no validation.

    Raises:
        LabError: when there is none yet, or another version of this program wrote it.
    """
    found = outputs.get("validation")
    if not isinstance(found, dict):
        raise LabError("the stack has no output `validation` yet: pulumi up makes it")
    if found.get("mode") == "off":
        return None
    try:
        return Summary.model_validate_json(json.dumps(found), strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise LabError(
            f"the output `validation` is of another version of this program ({where}: {fault['msg']}): run pulumi up"
        ) from None

"""Reads a stack's output `validation` through the engine's CLI, or from a file that holds all outputs."""

import json
import subprocess
from pathlib import Path

from pydantic import JsonValue, ValidationError

from components.validation.summary import Summary
from stacks.base import LabError


def read_outputs(stack: str, file: Path | None) -> dict[str, JsonValue]:
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
        raise LabError(f"{file or f'stack {stack}'}: no outputs in JSON were found")
    return outputs


def _ask(stack: str) -> str:
    command = ["pulumi", "stack", "output", "--json", "--stack", stack]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise LabError('pulumi is not on PATH: eval "$(make env)"') from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        why = said[-1] if said else f"exit {done.returncode}"
        what = ". make up makes it, on hardware pulumi up" if "no stack named" in why else ""
        raise LabError(f"{' '.join(command)} failed: {why}{what}")
    return done.stdout


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

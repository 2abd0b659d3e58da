"""What a stack's state keeps of its measurement, as commands ask the engine for it: secrets stay closed."""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from components.stack import ask_pulumi
from stacks.base import LabError

MEASUREMENT = "pulumi-python:dynamic/validation:Measurement::"
"""In the URN of the resource, behind the types of its parents and before its name."""


def measurement_outputs(stack: str) -> Mapping[str, JsonValue]:
    """The outputs of a stack's `Measurement`; none where it was never measured.

    Raises:
        LabError: when there is no such stack, no engine to ask, or no state in what it says.
    """
    text = ask_pulumi("stack", "export", "--stack", stack)
    try:
        resources = json.loads(text)["deployment"].get("resources", [])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LabError(f"pulumi stack export --stack {stack}: no deployment in JSON was found") from None
    return next((one.get("outputs", {}) for one in resources if MEASUREMENT in one["urn"]), {})

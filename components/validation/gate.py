"""The gate: the last resource of the program, and the only one that fails for a verdict.

Every state contains the path of this module, so it must not move.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult
from pydantic import JsonValue

from components.validation.summary import closed

SETTLE_S = 1.0
"""The stack's outputs reach the engine while the gate starts; a failure stops everything else."""

Properties = dict[str, JsonValue]


class VerdictError(Exception):
    """The lab does not meet its file."""


class GateProvider(ResourceProvider):
    """Lets a deployment pass, or fails it."""

    serialize_as_secret_always = False

    def diff(self, _id: str, _olds: Properties, _news: Properties) -> DiffResult:
        """Checks again when verdict or mode changed; a gate that failed is not in the state."""
        return DiffResult(changes=any(_olds.get(key) != _news.get(key) for key in ("mode", "function", "performance")))

    def create(self, props: Properties) -> CreateResult:
        return CreateResult("gate", _passed(props))

    def update(self, _id: str, _olds: Properties, _news: Properties) -> UpdateResult:
        return UpdateResult(_passed(_news))


def _passed(props: Properties) -> Properties:
    mode, function, performance = (str(props[key]) for key in ("mode", "function", "performance"))
    if closed(mode, function, performance):
        time.sleep(SETTLE_S)
        logging.getLogger("grpc").setLevel(logging.CRITICAL)  # it would print our traceback
        raise VerdictError(_message(function, performance, str(props["reasons"])))
    return props


def _message(function: str, performance: str, reasons: str) -> str:
    return (
        f"the lab does not pass. function: {function}, performance: {performance}\n{reasons}\n"
        "The stack output `validation` has the whole verdict. After a repair: pulumi up, or to measure in any case "
        "ROCELAB_VALIDATE=again pulumi up; to accept this result, set benchmarks.mode: warn"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class GateArgs:
    mode: str
    verdict: pulumi.Input[Mapping[str, JsonValue]]
    """The stack output `validation`."""


class Gate(Resource, module="validation", name="Gate"):
    """Fails the deployment in mode enforce when an axis of the verdict failed."""

    def __init__(self, name: str, args: GateArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        verdict = pulumi.Output.from_input(args.verdict)
        inputs: dict[str, pulumi.Input[str]] = {
            "mode": args.mode,
            "function": verdict.apply(lambda v: str(v["function"])),
            "performance": verdict.apply(lambda v: str(v["performance"])),
            "reasons": verdict.apply(_lines),
        }
        super().__init__(GateProvider(), name, inputs, opts)


def _lines(verdict: Mapping[str, JsonValue]) -> str:
    reasons = verdict["reasons"]
    return "\n".join(f"  {reason}" for reason in reasons) if isinstance(reasons, list | tuple) else ""

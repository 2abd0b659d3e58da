"""The gate: the last resource of the program, and the only one that fails for a verdict."""

import asyncio

from components.provider.base import Properties, Resource, changed
from components.validation.summary import closed
from stacks.base import LabError

SETTLE_S = 1.0
"""The stack's outputs reach the engine while the gate starts; a failure stops everything else."""


class VerdictError(LabError):
    """The lab does not meet its file."""


class GateInputs(Properties):
    mode: str
    function: str
    performance: str
    reasons: tuple[str, ...] = ()


class Gate(Resource[GateInputs, GateInputs]):
    """Lets a deployment pass, or fails it; a gate that failed is not in the state."""

    async def diff(self, old: GateInputs, new: GateInputs) -> set[str]:
        """Checks again when verdict or mode changed."""
        return {"mode", "function", "performance"}.intersection(changed(old, new))

    async def create(self, new: GateInputs) -> GateInputs:
        if closed(new.mode, new.function, new.performance):
            await asyncio.sleep(SETTLE_S)
            raise VerdictError(_message(new))
        return new


def _message(new: GateInputs) -> str:
    reasons = "\n".join(f"  {reason}" for reason in new.reasons)
    return (
        f"the lab does not pass. function: {new.function}, performance: "
        f"{new.performance}\n{reasons}\nThe stack output `validation` has the whole verdict. "
        "After a repair, run pulumi up; to force a measurement, ROCELAB_VALIDATE=again pulumi "
        "up; to accept this result, set benchmarks.mode: warn"
    )

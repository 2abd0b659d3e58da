"""The last measurement as the state of a stack keeps it."""

from pathlib import Path

from pydantic import ValidationError

from components.gate.measured import MeasuredState
from components.stack import Stack
from components.validation.benchmarks.plan import plan_of
from components.validation.store import declared_rails, document_of
from components.validation.summary import Summary
from components.validation.verdict import verdict_by
from stacks.base import LabError
from stacks.lab import Lab


def measured_state(stack: Stack, lab: Lab, file: Path | None) -> MeasuredState | None:
    """The last measurement; None if there is none.

    Args:
        stack: whose state is read.
        lab: of its file as it is now.
        file: output of `pulumi stack export`, to read instead.

    Raises:
        UnreachableError: when the state cannot be read.
        LabError: when it is of another version of this program.
    """
    outputs = stack.measurement(file)
    if "verdict" not in outputs:
        return None
    try:
        verdict = Summary.model_validate(outputs["verdict"])
    except ValidationError:
        raise LabError(
            f"stack {stack.name}: another version of rocelab wrote the verdict: run pulumi up"
        ) from None
    changes = _moved_cables(lab, verdict, stack.root)
    plan = plan_of(lab)
    if plan is not None and outputs.get("plan_digest") != plan.digest:
        changes[""] = ["the lab file sets other measurements"]
    return MeasuredState(
        verdict=verdict_by(lab, verdict, stack.root),
        hosts=outputs.get("hosts") or {},
        lab_changes=changes,
    )


def _moved_cables(lab: Lab, verdict: Summary, root: Path) -> dict[str, list[str]]:
    """Declared cables that the measurement had otherwise, by node, if its document is here."""
    document = document_of(verdict, root)
    if document is None:
        return {}
    before = document.leaves
    moved: dict[str, list[str]] = {}
    for rail in declared_rails(lab):
        for node, leaf in rail.leaves.items():
            old = before.get((node, rail.rail), leaf)
            if old != leaf:
                text = f"{rail.rail} was cabled to {old}, now to {leaf}"
                moved.setdefault(node, []).append(text)
    return moved

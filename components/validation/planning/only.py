"""A part of a plan, named by hand: some tests, rails or nodes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from components.validation.planning.plan import Plan
from components.validation.planning.quarantine import without
from stacks.base import LabError


@dataclass(frozen=True, kw_only=True, slots=True)
class Only:
    """What is left of each kind; empty: all of it."""

    tests: frozenset[str] = frozenset()
    rails: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()

    @classmethod
    def of(cls, plan: Plan, names: Sequence[str]) -> Self:
        """What kind each name is of.

        Raises:
            LabError: for a name that the plan does not have.
        """
        nodes = {end.node for rail in plan.rails for end in rail.ends}
        tests: set[str] = {*plan.verbs.tests, *(["nccl"] if plan.nccl else []), *(["pods"] if plan.pods else [])}
        known: dict[str, set[str]] = {"tests": tests, "rails": {rail.name for rail in plan.rails}, "nodes": nodes}
        if strange := [name for name in names if not any(name in of_kind for of_kind in known.values())]:
            there = "; ".join(f"{kind}: {', '.join(sorted(found)[:12])}" for kind, found in known.items())
            raise LabError(f"--only {strange[0]}: the plan has nothing of that name. It has {there}")
        return cls(**{kind: frozenset(names) & found for kind, found in known.items()})


def only(plan: Plan, wanted: Only) -> Plan:
    """The part of a plan. Jobs run over all nodes and rails, so a part of those has no job.

    Raises:
        LabError: when nothing is left to measure.
    """
    if wanted.nodes:
        plan = without(plan, {end.node for rail in plan.rails for end in rail.ends} - wanted.nodes)
    rails = tuple(rail for rail in plan.rails if not wanted.rails or rail.name in wanted.rails)
    whole = not (wanted.rails or wanted.nodes)
    with_job = whole and (not wanted.tests or "nccl" in wanted.tests)
    tests = tuple(test for test in plan.verbs.tests if not wanted.tests or test in wanted.tests)
    bandwidth = any(test.endswith("_bw") for test in tests)
    update: dict[str, object] = {"tests": tests or plan.verbs.tests[:1]}
    if not bandwidth:
        update |= {"both_ways": False, "incast": 0}
    rails = rails if tests else tuple(rail.model_copy(update={"ends": ()}) for rail in rails)
    pods = plan.pods if not wanted.tests or "pods" in wanted.tests else None
    part = plan.model_copy(
        update={
            "verbs": plan.verbs.model_copy(update=update),
            "rails": rails,
            "pods": pods.on(wanted.rails) if pods and wanted.rails else pods,
            "nccl": plan.nccl if with_job else None,
            "jobs": plan.jobs if whole and not wanted.tests else (),
        }
    )
    if not part.stages and part.nccl is None and part.pods is None:
        raise LabError("--only leaves nothing to measure: a rail needs two of its nodes")
    return part

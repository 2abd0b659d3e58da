"""Parts of a plan: without hosts that are not ready, only what you name, or only what is confirmed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from components.validation.planning.jobs import PlannedJob
from components.validation.planning.plan import Plan
from stacks.base import LabError

TAKES_PART = ("ready", "drained", "undone", "left")
"""Statuses of hosts that are as the lab wants them; those that are not active stand in no plan anyway."""


def quarantined(plan: Plan, results: Mapping[str, object]) -> dict[str, str]:
    """The hosts of the plan that are not ready, each with step, reason and hint in one line."""
    planned = {end.node for rail in plan.rails for end in rail.ends}
    found: dict[str, str] = {}
    for name, result in results.items():
        if name in planned and isinstance(result, Mapping) and result.get("status") not in TAKES_PART:
            said = [str(result[key]) for key in ("step", "reason", "hint") if result.get(key)]
            found[name] = f"{result.get('status')}: {'; '.join(said)}"
    return found


def without(plan: Plan, names: Collection[str]) -> Plan:
    """The plan of those that are left. A job of fewer than two workers is none, and a further one says why."""
    if not names:
        return plan
    rails = tuple(
        rail.model_copy(update={"ends": tuple(end for end in rail.ends if end.node not in names)})
        for rail in plan.rails
    )
    pods = plan.pods.without(names) if plan.pods else None
    nccl = plan.nccl
    if nccl is not None:
        nodes = tuple(node for node in nccl.nodes if node not in names)
        nccl = nccl.model_copy(update={"nodes": nodes}) if len(nodes) > 1 else None
    jobs = tuple(_job_without(job, names) for job in plan.jobs)
    return plan.model_copy(update={"rails": rails, "pods": pods, "nccl": nccl, "jobs": jobs})


def _job_without(job: PlannedJob, names: Collection[str]) -> PlannedJob:
    """It would wait for a pod on a host that is not ready, and fail."""
    if job.workers is None or not (gone := [node for node in job.workers.nodes if node in names]):
        return job
    nodes = tuple(node for node in job.workers.nodes if node not in names)
    if len(nodes) < 2:
        why = f"fewer than two workers are left without {', '.join(gone[:3])}{' …' if gone[3:] else ''}"
        return job.model_copy(update={"workers": None, "impossible": why})
    return job.model_copy(update={"workers": job.workers.model_copy(update={"nodes": nodes})})


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


JOBS = frozenset({"gpu_memory", "nccl_one_node", "nccl_all_reduce"})
"""What runs with the nodes of the all-reduce, and is measured again together."""


def confirming(plan: Plan, names: Collection[str]) -> Plan | None:
    """The plan of those values alone; None where none of them can be measured by itself.

    Args:
        plan: of the whole run.
        names: of values, as the history has them: test, shape and rail in one text, or the name of a job.
    """
    wanted = {tuple(name.split()) for name in names}
    rails = {parts[2] for parts in wanted if len(parts) == 3}
    tests = {parts[0] for parts in wanted if len(parts) == 3}
    nccl = plan.nccl if JOBS & set(names) else None
    if nccl is not None:
        # the job is judged by what the rails carry at the same time
        rails |= set(nccl.rails)
        tests |= {plan.verbs.test}
    kept = tuple(test for test in plan.verbs.tests if test in tests)
    if not kept:
        return None
    both_ways = any(parts[1] == "both_ways" for parts in wanted if len(parts) == 3)
    verbs = plan.verbs.model_copy(update={"tests": kept, "both_ways": both_ways, "sizes": (), "incast": 0})
    chosen = tuple(rail for rail in plan.rails if rail.name in rails)
    return plan.model_copy(update={"verbs": verbs, "rails": chosen, "pods": None, "nccl": nccl, "jobs": ()})

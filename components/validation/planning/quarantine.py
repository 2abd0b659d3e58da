"""Hosts that take no part because they are not ready: the others are measured, and the result is partial. Pure."""

from collections.abc import Collection, Mapping

from components.validation.planning.jobs import PlannedJob
from components.validation.planning.plan import Plan

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

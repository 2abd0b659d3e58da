"""The part of a plan that measures again what was worse than before. Pure."""

from collections.abc import Collection

from components.validation.planning.plan import Plan

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

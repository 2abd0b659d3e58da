"""Parts of a plan: without some hosts, only what you name, or only what needs confirmation."""

from collections.abc import Collection, Mapping

from components.validation.benchmarks.jobs.plan import PlannedJob
from components.validation.benchmarks.plan import Plan
from stacks.base import LabError
from stacks.words import some

TAKES_PART = ("ready", "drained", "undone", "left")
"""Statuses of hosts that are as the lab wants them; hosts that are not active are in no plan
anyway."""


def quarantined(plan: Plan, results: Mapping[str, object]) -> dict[str, str]:
    """The hosts of the plan that are not ready, each with step, reason and hint in one line."""
    reasons: dict[str, str] = {}
    planned = plan.nodes
    for name, result in results.items():
        if (
            name in planned
            and isinstance(result, Mapping)
            and result.get("status") not in TAKES_PART
        ):
            parts = []
            for key in ("step", "reason", "hint"):
                if result.get(key):
                    parts.append(str(result[key]))
            reasons[name] = f"{result.get('status')}: {'; '.join(parts)}"
    return reasons


def without(plan: Plan, names: Collection[str]) -> Plan:
    """The plan without some hosts. NCCL needs two workers; a further job with fewer says why it
    cannot run.
    """
    if not names:
        return plan
    rails = tuple(rail.without(names) for rail in plan.rails)
    pods = plan.pods.without(names) if plan.pods else None
    not_run = dict(plan.not_run)
    why = f"without {some(sorted(names), 3)}, fewer than two nodes with GPUs are left"
    gpu_nodes = tuple(node for node in plan.gpu_nodes if node not in names)
    if plan.gpu_nodes and len(gpu_nodes) < 2:
        gpu_nodes, not_run["gpu_memory"] = (), why
    nccl = plan.nccl
    if nccl is not None:
        nodes = tuple(node for node in nccl.nodes if node not in names)
        nccl = nccl.model_copy(update={"nodes": nodes}) if len(nodes) > 1 else None
        if nccl is None:
            not_run["nccl_all_reduce"] = why
    alone = tuple(node for node in plan.alone if node not in names)
    update = {
        "rails": rails,
        "pods": pods,
        "gpu_nodes": gpu_nodes,
        "nccl": nccl,
        "not_run": not_run,
        "alone": alone,
    }
    return plan.replace(**update, jobs=tuple(_job_without(job, names) for job in plan.jobs))


def _job_without(job: PlannedJob, names: Collection[str]) -> PlannedJob:
    """The job on the remaining nodes: it would wait for a pod on a host that is not ready, and
    fail.
    """
    if job.workers is None or not (gone := [node for node in job.workers.nodes if node in names]):
        return job
    nodes = tuple(node for node in job.workers.nodes if node not in names)
    if len(nodes) < 2:
        why = (
            "fewer than two workers are left without "
            f"{', '.join(gone[:3])}{' …' if gone[3:] else ''}"
        )
        return job.replace(workers=None, impossible=why)
    workers = job.workers.model_copy(update={"nodes": nodes})
    return job.replace(workers=workers)


def only(plan: Plan, names: Collection[str]) -> Plan:
    """The plan of the tests, rails and nodes that you name. Jobs run only over all nodes and rails.

    Raises:
        LabError: for a name that the plan does not have, or when nothing is left to measure.
    """
    parts = {"gpu_memory": plan.gpu_memory, "nccl": plan.nccl, "pods": plan.pods}
    all_tests: set[str] = {*plan.verbs.tests, *(name for name, part in parts.items() if part)}
    known = {"tests": all_tests, "rails": {rail.name for rail in plan.rails}, "nodes": plan.nodes}
    _refuse_unknown(known, names)
    tests, rails, nodes = (of_kind & set(names) for of_kind in known.values())
    if nodes:
        plan = without(plan, plan.nodes - nodes)
    if "gpu_memory" in tests:
        tests |= {"ib_write_bw"}  # it is compared with the host memory of the same run
    chosen = tuple(rail for rail in plan.rails if not rails or rail.name in rails)
    part = plan.replace(rails=chosen, alone=(), not_run={})
    if rails and plan.pods:
        part = part.replace(pods=plan.pods.on(rails))
    if rails or nodes:
        part = part.replace(jobs=(), nccl=None)
    if tests:
        part = _only_tests(part, tests)
    if not part.stages and part.nccl is None and part.pods is None:
        raise LabError("--only leaves nothing to measure: name at least two nodes of a rail")
    return part


def _refuse_unknown(known: Mapping[str, Collection[str]], names: Collection[str]) -> None:
    for name in names:
        if any(name in of_kind for of_kind in known.values()):
            continue
        there = [f"{kind}: {', '.join(sorted(of_kind)[:12])}" for kind, of_kind in known.items()]
        raise LabError(
            f"--only {name}: the plan has no such test, rail or node. It has {'; '.join(there)}"
        )


def _only_tests(plan: Plan, tests: Collection[str]) -> Plan:
    """The plan without jobs, and without what else the names leave out."""
    verbs = tuple(test for test in plan.verbs.tests if test in tests)
    of_verbs: dict[str, object] = {"tests": verbs or plan.verbs.tests[:1]}
    if not any(test.endswith("_bw") for test in verbs):
        of_verbs |= {"both_ways": False, "incast": 0}
    update: dict[str, object] = {"jobs": (), "verbs": plan.verbs.replace(**of_verbs)}
    if not verbs:
        update["rails"] = tuple(rail.replace(ends=()) for rail in plan.rails)
    if "nccl" not in tests:
        update["nccl"] = None
    if "pods" not in tests:
        update["pods"] = None
    if "gpu_memory" not in tests:
        update["gpu_nodes"] = ()
    return plan.replace(**update)


VERBS_ALONE: dict[str, object] = {
    "pods": None,
    "gpu_nodes": (),
    "nccl": None,
    "jobs": (),
    "alone": (),
    "not_run": {},
}
"""Of a part that has nothing but verbs."""


def alone(plan: Plan, node: str) -> Plan:
    """The plan that tests one node by itself.

    Raises:
        LabError: for a node that the plan does not have, or a lab that measures no writes.
    """
    if node not in plan.nodes:
        raise LabError(f"--node {node}: the plan has no such node: {some(sorted(plan.nodes), 12)}")
    if "ib_write_bw" not in plan.verbs.tests:
        raise LabError(
            "--node: benchmarks.verbs.tests lacks ib_write_bw, the test of a NIC; add it"
        )
    part = without(plan, plan.nodes - {node})
    verbs = plan.verbs.replace(tests=("ib_write_bw",), both_ways=False, sizes=(), incast=0)
    return part.replace(**VERBS_ALONE).replace(verbs=verbs, alone=(node,))


JOBS = frozenset({"gpu_memory", "nccl_one_node", "nccl_all_reduce"})
"""Values that are measured together with the all-reduce."""


def confirming(plan: Plan, names: Collection[str]) -> Plan | None:
    """The plan that measures these values again; None where none can be measured by itself.

    Args:
        plan: of the whole run.
        names: of values in the history: test, shape and rail in one text, or the name of a job.
    """
    tests, shapes, rails = set[str](), set[str](), set[str]()
    for name in names:
        if name.count(" ") == 2:
            test, shape, rail = name.split()
            tests.add(test)
            shapes.add(shape)
            rails.add(rail)
    nccl = plan.nccl if JOBS & set(names) else None
    gpu_nodes = plan.gpu_nodes if JOBS & set(names) else ()
    if nccl is not None or gpu_nodes:
        # the ceiling of both is the bandwidth of the rails at the same time
        used = nccl.rails if nccl else [rail.name for rail in plan.rails]
        rails.update(used)
        tests |= {plan.verbs.test}
    kept = tuple(test for test in plan.verbs.tests if test in tests)
    if not kept:
        return None
    verbs = plan.verbs.replace(tests=kept, both_ways="both_ways" in shapes, sizes=(), incast=0)
    chosen = tuple(rail for rail in plan.rails if rail.name in rails)
    part = plan.replace(**VERBS_ALONE)
    return part.replace(verbs=verbs, rails=chosen, gpu_nodes=gpu_nodes, nccl=nccl)

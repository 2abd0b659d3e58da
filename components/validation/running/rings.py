"""Runs NCCL's ring within each node alone before it runs over all: a broken node is found without the network."""

import re
import threading
from collections.abc import Mapping

from components.jobs.programs import RING_S, NcclPlan, job_name, node_ring_job
from components.kubernetes.client import KubernetesApi
from components.validation.parsers.nccl import parse_nccl
from components.validation.planning.plan import Plan
from components.validation.records import NodeRing
from components.validation.running.evidence import evidence_of
from components.validation.running.mpijob import (
    JobError,
    MpiJobs,
    Say,
    Waiting,
    delete_quietly,
    wait,
)
from components.validation.running.pulls import refuse_missing_image
from stacks.base import LabError

RING_LOG = "nccl_one_node.log"
"""Name of the launcher's log in the run's bundle."""
_LINE = re.compile(r"^\[(?P<host>[a-z0-9.-]{1,253})\] (?P<text>.*)$")
_EXIT = re.compile(r"^exit (?P<code>[0-9]{1,3})$")
_THROUGH_HOST = re.compile(r" -> [0-9]+\[[0-9a-f]+\] via SHM/")
"""NCCL, src/transport/shm.cc: `Channel %02d : %d[%d] -> %d[%d] via SHM/%s/%s`; between peers it is `via P2P/`."""
LATE = 124


def run_rings(
    plan: Plan, run_id: str, kubeconfig: str, say: Say, stop: threading.Event
) -> tuple[tuple[NodeRing, ...], dict[str, str]]:
    """Runs the job to its end; whatever happens is a result. Blocks: call it in a thread.

    Returns:
        A result for each node, and by name the launcher's log and, of a job that failed, what else there is to look at.
    """
    if plan.nccl is None:
        raise ValueError("the plan has no NCCL job")
    try:
        api = KubernetesApi(kubeconfig)
    except LabError as error:
        return _all_failed(plan.nccl, str(error)), {}
    name, made, raw, nodes = f"{job_name(run_id)}-ring", False, dict[str, str](), dict[str, str]()
    jobs = MpiJobs(api, plan.nccl, plan.lab)
    try:
        try:
            refuse_missing_image(plan.nccl, say)
            for old in jobs.sweep():
                say(f"job {old} of a killed run deleted")
            jobs.create(node_ring_job(plan.nccl, plan.lab, run_id))
            made = True
            waiting = Waiting.of("nccl_one_node", plan.nccl, simulated=False)
            wait(jobs, name, waiting, say, stop, lambda: nodes.update(jobs.node_of(name)))
            raw[RING_LOG] = jobs.log(name)
            found = read_rings(plan.nccl, raw[RING_LOG], nodes)
        except LabError as error:
            if isinstance(error, JobError) and error.has_log:
                raw[RING_LOG] = jobs.log(name)
            found = _all_failed(plan.nccl, str(error))
        if made and any(ring.outcome != "measured" for ring in found) and not stop.is_set():
            raw |= evidence_of(api, plan.nccl.namespace, name)
        return found, raw
    finally:
        if made:
            delete_quietly(jobs, name, say)
        api.close()


def read_rings(plan: NcclPlan, log: str, node_of: Mapping[str, str]) -> tuple[NodeRing, ...]:
    """The result of each node.

    Args:
        plan: of the job.
        log: the launcher's, with the host before each line.
        node_of: node of each worker's pod.
    """
    said: dict[str, list[str]] = {}
    for line in log.splitlines():
        if found := _LINE.match(line):
            pod = found["host"].partition(".")[0]
            said.setdefault(node_of.get(pod, pod), []).append(found["text"])
    rings = [_ring(node, lines) for node, lines in said.items()]
    missing = [node for node in plan.nodes if node not in said][: max(len(plan.nodes) - len(rings), 0)]
    rings += [NodeRing(node=node, outcome="failed", reason="it printed nothing") for node in missing]
    return tuple(sorted(rings, key=lambda ring: ring.node))


def _ring(node: str, lines: list[str]) -> NodeRing:
    ended = next((int(found["code"]) for line in reversed(lines) if (found := _EXIT.match(line))), None)
    try:
        table = parse_nccl("\n".join(lines))
    except LabError as error:
        why = f"no end within {RING_S} s" if ended == LATE else f"exit {ended}: {error}"
        return NodeRing(node=node, outcome="failed", reason=why)
    wrong = table.out_of_bounds or table.wrong
    return NodeRing(
        node=node,
        outcome="failed" if wrong or ended else "measured",
        reason=f"{wrong} values came out wrong within the node: its memory or a GPU is broken" if wrong else "",
        busbw_gbyte_s=table.busbw_gbyte_s,
        through_host=any(_THROUGH_HOST.search(line) for line in lines),
    )


def _all_failed(plan: NcclPlan, reason: str) -> tuple[NodeRing, ...]:
    return tuple(NodeRing(node=node, outcome="failed", reason=reason) for node in plan.nodes)

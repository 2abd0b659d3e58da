"""NCCL's ring within each node alone, before it runs over all nodes: a broken node is found without the network."""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence

from components.finding import Finding
from components.jobs.mpijob import job_name
from components.kubernetes.client import KubernetesApi
from components.physics.nccl import rails_gbyte_s
from components.physics.signs import GPU_PEERS_HINT
from components.validation import Say
from components.validation.benchmarks.nccl.judge import rails_gbit_s
from components.validation.benchmarks.nccl.plan import RING_S, NcclPlan, node_ring_job
from components.validation.benchmarks.nccl.table import parse_nccl
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.commands import LATE
from components.validation.cluster import evidence_of, refuse_missing_image
from components.validation.mpijobs import JobError, MpiJobs
from components.validation.records import NodeRing, Outcome, RunRecord, outcome_counts
from components.validation.summary import NOTHING, JudgedTest, function_of_counts, rate, worse_of
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.words import plural

RING_LOG = "nccl_one_node.log"
"""Name of the launcher's log in the run's bundle."""
_LINE = re.compile(r"^\[(?P<host>[a-z0-9.-]{1,253})\] (?P<text>.*)$")
_EXIT = re.compile(r"^exit (?P<code>[0-9]{1,3})$")
_THROUGH_HOST = re.compile(r" -> [0-9]+\[[0-9a-f]+\] via SHM/")
"""NCCL, src/transport/shm.cc: `Channel %02d : %d[%d] -> %d[%d] via SHM/%s/%s`; between peers it is `via P2P/`."""


def run_rings(
    plan: Plan, run_id: str, kubeconfig: str, say: Say, stop: threading.Event
) -> tuple[tuple[NodeRing, ...], dict[str, str]]:
    """Runs the job to its end; whatever happens is a result. Blocks: call it in a thread.

    Returns:
        A result for each node, and by name the launcher's log and, of a job that failed, what else there is to look at.
    """
    if plan.nccl is None:
        raise ValueError("the plan has no NCCL job")
    name, raw, nodes = f"{job_name(run_id)}-ring", dict[str, str](), dict[str, str]()
    try:
        with KubernetesApi(kubeconfig) as api:
            jobs = MpiJobs(api, plan.nccl, plan.lab, simulated=plan.simulated)
            refuse_missing_image(plan.nccl, say)
            jobs.sweep(say)
            with jobs.created(name, node_ring_job(plan.nccl, plan.lab, run_id), say):
                try:
                    raw[RING_LOG] = jobs.finished_log(
                        name, "nccl_one_node", say, stop, lambda: nodes.update(jobs.node_of(name))
                    )
                    found = read_rings(plan.nccl, raw[RING_LOG], nodes)
                except LabError as error:
                    if isinstance(error, JobError) and error.log:
                        raw[RING_LOG] = error.log
                    found = rings_without_a_run(plan, "failed", str(error))
                if any(ring.outcome != "measured" for ring in found) and not stop.is_set():
                    raw |= evidence_of(api, plan.nccl.namespace, name)
    except LabError as error:
        found = rings_without_a_run(plan, "failed", str(error))
    return found, raw


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


def rings_without_a_run(plan: Plan, outcome: Outcome, reason: str) -> tuple[NodeRing, ...]:
    """The same outcome for each node; none where the plan has no such job."""
    nodes = plan.nccl.nodes if plan.nccl and plan.rings else ()
    return tuple(NodeRing(node=node, outcome=outcome, reason=reason) for node in nodes)


MOST_NODES = 4


def judge_rings(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> JudgedTest:
    """The all-reduce within each node: the slowest node against the median one, of two against the faster."""
    found = [ring for ring in record.rings if ring.outcome == "measured"]
    counts = outcome_counts(ring.outcome for ring in record.rings)
    shown = JudgedTest(
        test="nccl_one_node",
        shape="",
        rail=None,
        function=function_of_counts(plan.rings, **counts),
        performance="not rated",
        because=NOTHING,
        unit="GB/s",
        **counts,
    )
    if not found:
        return shown
    slowest, middle = _slowest(found), _middle(found)
    ratio = slowest.of_itself / middle
    return shown.model_copy(
        update={
            "performance": worse_of(
                rate(ratio, benchmarks.verbs.threshold_pair), "warn" if _through_host(plan, record) else "pass"
            ),
            "because": "",
            "median": slowest.of_itself,
            "ceiling": round(middle, 3),
            "basis": f"{slowest.node} is the slowest of {plural(len(found), 'node')}, against the middle of them",
            "ratio": round(ratio, 4),
        }
    )


def ring_reasons(record: RunRecord) -> Iterator[str]:
    """Why it is no pass."""
    yield from (f"nccl_one_node {ring.node} {ring.outcome}: {ring.reason}" for ring in record.rings if ring.reason)


def ring_findings(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> Iterator[Finding]:
    """Nodes that are slow on their own, without the network."""
    found = [ring for ring in record.rings if ring.outcome == "measured"]
    if not found:
        return
    middle = _middle(found)
    slow = [r for r in found if rate(r.of_itself / middle, benchmarks.verbs.threshold_pair) != "pass"]
    for ring in sorted(slow, key=lambda one: one.of_itself)[:MOST_NODES]:
        yield Finding(
            code="NODE_RING_SLOW",
            where=ring.node,
            evidence=f"its GPUs reduce at {ring.of_itself:.1f} GB/s among themselves, those of other nodes at "
            f"{middle:.1f}",
            hint="no rail is used there: check nvidia-smi topo -m and nvlink -e, the fabric manager, ACS and IOMMU",
        )
    if through := _through_host(plan, record):
        yield Finding(
            code="GPU_PEERS_OFF",
            where=", ".join(ring.node for ring in through[:MOST_NODES]),
            evidence=f"NCCL moves data between GPUs of one node through the host's memory (via SHM), at "
            f"{_slowest(through).of_itself:.1f} GB/s where the rails carry {_rails_gbyte_s(plan, record):.1f}",
            hint=GPU_PEERS_HINT,
        )


def _through_host(plan: Plan, record: RunRecord) -> list[NodeRing]:
    """Nodes whose GPUs exchange data through the host's memory, and so more slowly than the network carries it."""
    rails = _rails_gbyte_s(plan, record)
    return [ring for ring in record.rings if ring.through_host and 0 < ring.of_itself < rails]


def _rails_gbyte_s(plan: Plan, record: RunRecord) -> float:
    return rails_gbyte_s(rails_gbit_s(plan, record)[0])


def _slowest(rings: Sequence[NodeRing]) -> NodeRing:
    return min(rings, key=lambda ring: ring.of_itself)


def _middle(rings: Sequence[NodeRing]) -> float:
    """The upper median: of two nodes, the faster shows what such a node can do."""
    return sorted(ring.of_itself for ring in rings)[len(rings) // 2]

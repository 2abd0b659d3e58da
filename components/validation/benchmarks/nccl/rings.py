"""NCCL's ring within each node alone, before it runs over all: a broken node shows without
network.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from components.finding import Finding
from components.jobs.mpijob import job_name
from components.physics.nccl import rails_gbyte_s
from components.physics.signs import GPU_PEERS_HINT
from components.validation.benchmarks.nccl.judge import rails_gbit_s
from components.validation.benchmarks.nccl.plan import RING_S, NcclPlan, node_ring
from components.validation.benchmarks.nccl.table import parse_nccl
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.commands import LATE
from components.validation.mpijobs import NO_KUBECONFIG, ClusterRun, JobToRun, run_job
from components.validation.records import NodeRing, Outcome, RunRecord
from components.validation.repeats import LEAST_FOR_INTERVAL, NORMAL, mad
from components.validation.summary import (
    NOTHING,
    JudgedTest,
    Performance,
    counted,
    rate,
    worse_of,
)
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.words import plural

Rings = tuple[NodeRing, ...]
RING_LOG = "nccl_one_node.log"
_LINE = re.compile(r"^\[(?P<host>[a-z0-9.-]{1,253})\] (?P<text>.*)$")
_EXIT = re.compile(r"^exit (?P<code>[0-9]{1,3})$")
_THROUGH_HOST = re.compile(r" -> [0-9]+\[[0-9a-f]+\] via SHM/")
"""NCCL, src/transport/shm.cc: `Channel %02d : %d[%d] -> %d[%d] via SHM/%s/%s`; between peers it is
`via P2P/`."""


def measure_rings(plan: NcclPlan, cluster: ClusterRun) -> Rings:
    """The rings with their line of progress; skipped without a cluster. Blocks."""
    if cluster.lacks(plan):
        return rings_without_a_run(plan, "skipped", NO_KUBECONFIG)
    rings = run_rings(plan, cluster)
    words = []
    with_value = [ring for ring in rings if ring.busbw_gbyte_s]
    if with_value:
        slowest = min(with_value, key=lambda ring: ring.of_itself)
        words.append(f"slowest {slowest.node}, {slowest.of_itself:.2f} GB/s")
    bad = [ring for ring in rings if ring.outcome != "measured"]
    words += [f"{ring.node} {ring.outcome}: {ring.reason}" for ring in bad[:3]]
    cluster.say(f"nccl_one_node: {'; '.join(words)}")
    return rings


def run_rings(plan: NcclPlan, cluster: ClusterRun) -> Rings:
    """Runs the job to its end; whatever happens is a result. Blocks: call it in a thread."""
    alone, program = node_ring(plan)
    return run_job(
        cluster,
        JobToRun(
            name=f"{job_name(cluster.run_id)}-ring",
            what="nccl_one_node",
            workers=alone,
            program=program,
            log_name=RING_LOG,
            read=lambda job: read_rings(plan, job.log, job.node_of),
            failed=lambda reason: rings_without_a_run(plan, "failed", reason),
            sound=lambda rings: all(ring.outcome == "measured" for ring in rings),
        ),
    )


def read_rings(plan: NcclPlan, log: str, node_of: Mapping[str, str]) -> Rings:
    """The result of each node.

    Args:
        plan: of the job.
        log: the launcher's, with the host before each line.
        node_of: node of each worker's pod.
    """
    printed: dict[str, list[str]] = {}
    for line in log.splitlines():
        match = _LINE.match(line)
        if match:
            pod = match["host"].partition(".")[0]
            printed.setdefault(node_of.get(pod, pod), []).append(match["text"])
    rings = [_ring(node, lines) for node, lines in printed.items()]
    silent = [node for node in plan.nodes if node not in printed]
    for node in silent[: max(len(plan.nodes) - len(rings), 0)]:
        rings.append(NodeRing(node=node, outcome="failed", reason="it printed nothing"))
    return tuple(sorted(rings, key=lambda ring: ring.node))


def _ring(node: str, lines: list[str]) -> NodeRing:
    code = _exit_code(lines)
    try:
        table = parse_nccl("\n".join(lines))
    except LabError as error:
        if code == LATE:
            why = f"no end within {RING_S} s"
        else:
            why = f"exit {code}: {error}"
        return NodeRing(node=node, outcome="failed", reason=why)
    wrong = table.out_of_bounds or table.wrong
    reason = ""
    outcome: Outcome = "failed" if wrong or code else "measured"
    if wrong:
        reason = f"{wrong} values came out wrong within the node: its memory or a GPU is broken"
    return NodeRing(
        node=node,
        outcome=outcome,
        reason=reason,
        busbw_gbyte_s=table.busbw_gbyte_s,
        through_host=any(_THROUGH_HOST.search(line) for line in lines),
    )


def _exit_code(lines: Sequence[str]) -> int | None:
    """The code of the node's mpirun, whose line is the last of its kind."""
    for line in reversed(lines):
        match = _EXIT.match(line)
        if match:
            return int(match["code"])
    return None


def rings_without_a_run(plan: NcclPlan, outcome: Outcome, reason: str) -> Rings:
    """The same outcome for each node."""
    return tuple(NodeRing(node=node, outcome=outcome, reason=reason) for node in plan.nodes)


MOST_NODES = 4
NOISE_SIGMAS = 6
"""A node of a lab of 256 lies further from the middle by chance once in millions of runs."""


def judge_rings(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> JudgedTest:
    """The all-reduce within each node: the slowest node against the median one, of two against the
    faster.
    """
    measured = [ring for ring in record.rings if ring.outcome == "measured"]
    outcomes = [ring.outcome for ring in record.rings]
    shown = counted("nccl_one_node", outcomes, plan.rings, NOTHING, "GB/s")
    if not measured:
        return shown
    slowest, middle = _slowest(measured), _middle(measured)
    ratio = slowest.of_itself / middle
    performance = _rated(slowest, measured, benchmarks)
    basis = f"{slowest.node} is the slowest, against the middle of {plural(len(measured), 'node')}"
    if performance != rate(ratio, benchmarks.verbs.threshold_pair):
        basis += ", and within their noise"
    if _through_host(plan, record):
        performance = worse_of(performance, "warn")
    return shown.rated(performance, middle, basis, ratio, median=slowest.of_itself)


def ring_reasons(record: RunRecord) -> Iterator[str]:
    """Why it is no pass."""
    for ring in record.rings:
        if ring.reason:
            yield f"nccl_one_node {ring.node} {ring.outcome}: {ring.reason}"


def ring_findings(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> Iterator[Finding]:
    """Nodes that are slow on their own, without the network."""
    measured = [ring for ring in record.rings if ring.outcome == "measured"]
    if not measured:
        return
    middle = _middle(measured)
    slow = [ring for ring in measured if _rated(ring, measured, benchmarks) != "pass"]
    for ring in sorted(slow, key=lambda ring: ring.of_itself)[:MOST_NODES]:
        yield Finding(
            code="NODE_RING_SLOW",
            where=ring.node,
            evidence=f"its GPUs reduce at {ring.of_itself:.1f} GB/s among themselves, those of "
            "other nodes at "
            f"{middle:.1f}",
            hint="no rail is used there: check nvidia-smi topo -m and nvlink -e, the fabric "
            "manager, ACS and IOMMU",
        )
    if through := _through_host(plan, record):
        yield Finding(
            code="GPU_PEERS_OFF",
            where=", ".join(ring.node for ring in through[:MOST_NODES]),
            evidence="NCCL moves data between GPUs of one node through the host's memory (via "
            f"SHM), at {_slowest(through).of_itself:.1f} GB/s where the rails carry "
            f"{_rails_gbyte_s(plan, record):.1f}",
            hint=GPU_PEERS_HINT,
        )


def _rated(ring: NodeRing, measured: Sequence[NodeRing], benchmarks: Benchmarks) -> Performance:
    """A node against the others; noise alone, which shows in how they differ, is no warning."""
    middle = _middle(measured)
    performance = rate(ring.of_itself / middle, benchmarks.verbs.threshold_pair)
    if performance != "warn" or len(measured) < LEAST_FOR_INTERVAL:
        return performance
    noise = mad([other.of_itself for other in measured]) / NORMAL
    if middle - ring.of_itself <= NOISE_SIGMAS * noise:
        return "pass"
    return performance


def _through_host(plan: Plan, record: RunRecord) -> list[NodeRing]:
    """Nodes whose GPUs exchange data through host memory, more slowly than rails carry it."""
    rails = _rails_gbyte_s(plan, record)
    return [ring for ring in record.rings if ring.through_host and 0 < ring.of_itself < rails]


def _rails_gbyte_s(plan: Plan, record: RunRecord) -> float:
    return rails_gbyte_s(rails_gbit_s(plan, record)[0])


def _slowest(rings: Sequence[NodeRing]) -> NodeRing:
    return min(rings, key=lambda ring: ring.of_itself)


def _middle(rings: Sequence[NodeRing]) -> float:
    """The upper median: of two nodes, the faster shows what such a node can do."""
    return sorted(ring.of_itself for ring in rings)[len(rings) // 2]

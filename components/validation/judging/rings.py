"""The judgement over NCCL's ring within each node: a broken node is found before the network is blamed for it."""

from collections import Counter
from collections.abc import Iterator, Sequence

from components.validation.judging.jobs import rails_gbit_s
from components.validation.judging.states import NOTHING, function_of_counts, rate, worse_of
from components.validation.physics.ceilings import nccl_ceiling_gbyte_s
from components.validation.planning.plan import Plan
from components.validation.records import NodeRing, RunRecord
from components.validation.summary import Finding, JudgedTest
from stacks.benchmarks import Benchmarks
from stacks.words import plural

MOST_NODES = 4


def judge_rings(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> JudgedTest:
    """The all-reduce within each node: the slowest node is held against one in the middle, of two the faster."""
    found = [ring for ring in record.rings if ring.outcome == "measured"]
    count = Counter(ring.outcome for ring in record.rings)
    outcomes = {"measured": count["measured"], "failed": count["failed"], "skipped": count["skipped"]}
    shown = JudgedTest(
        test="nccl_one_node",
        shape="",
        rail=None,
        function=function_of_counts(plan.rings, errors=count["error"], **outcomes),
        performance="not rated",
        because=NOTHING,
        unit="GB/s",
        errors=count["error"],
        **outcomes,
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


def ring_findings(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> Iterator[Finding]:
    """Nodes that are slow by themselves: the network has no part in it."""
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
            hint="no rail is used there: look at nvidia-smi topo -m and nvlink -e, the fabric manager, ACS and IOMMU",
        )
    if through := _through_host(plan, record):
        yield Finding(
            code="GPU_PEERS_OFF",
            where=", ".join(ring.node for ring in through[:MOST_NODES]),
            evidence=f"NCCL moves data between GPUs of one node through the host's memory (via SHM), at "
            f"{_slowest(through).of_itself:.1f} GB/s where the rails carry {_rails_gbyte_s(plan, record):.1f}",
            hint="look at nvidia-smi topo -p2p r, at ACS and IOMMU, and for NCCL_P2P_DISABLE or NCCL_P2P_LEVEL",
        )


def _through_host(plan: Plan, record: RunRecord) -> list[NodeRing]:
    """Nodes whose GPUs do not reach each other, and which are slower than the network for it."""
    rails = _rails_gbyte_s(plan, record)
    return [ring for ring in record.rings if ring.through_host and 0 < ring.of_itself < rails]


def _rails_gbyte_s(plan: Plan, record: RunRecord) -> float:
    return nccl_ceiling_gbyte_s(rails_gbit_s(plan, record)[0])


def _slowest(rings: Sequence[NodeRing]) -> NodeRing:
    return min(rings, key=lambda ring: ring.of_itself)


def _middle(rings: Sequence[NodeRing]) -> float:
    """The upper one of two in the middle: of two nodes, the faster says what such a node can."""
    return sorted(ring.of_itself for ring in rings)[len(rings) // 2]

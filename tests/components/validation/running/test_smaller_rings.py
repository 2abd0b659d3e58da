"""After a slow ring over all nodes the runner measures smaller ones in its budget, and the verdict names the part."""

import asyncio
import time

import pytest

from components.validation.benchmarks.nccl import run as nccl
from components.validation.benchmarks.nccl.plan import NcclPlan
from components.validation.benchmarks.nccl.run import smaller_rings
from components.validation.benchmarks.nccl.search import slow_parts
from components.validation.benchmarks.plan import Plan, plan_of
from components.validation.measuring import _begun
from components.validation.mpijobs import ClusterRun
from components.validation.records import NcclResult, RingResult, RunRecord
from stacks.benchmarks import Benchmarks, Nccl
from tests.components.audit.spoilt import lab

BUSBW = 40.0


def plan_on(nodes: int = 8) -> Plan:
    benchmarks = Benchmarks(mode="enforce", budget_s=9000, nccl=Nccl(runner="ssh"))
    content = lab(nodes)
    nodes_with_gpus = tuple(node.model_copy(update={"gpus": 8}) for node in content.nodes)
    plan = plan_of(content.model_copy(update={"benchmarks": benchmarks, "nodes": nodes_with_gpus}))
    assert plan
    assert plan.nccl
    return plan


def record_of(plan: Plan, busbw_gbyte_s: float) -> RunRecord:
    record = _begun(plan, "")
    transfers = []
    for stage in plan.stages:
        for transfers_of_round in plan.rounds_of(stage):
            for transfer in transfers_of_round:
                measured = stage.result(transfer.flow, "measured")
                update = {"samples": (392.0,), "line_rate_gbit_s": 400.0}
                transfers.append(measured.model_copy(update=update))
    nccl = NcclResult(outcome="measured", busbw_gbyte_s=busbw_gbyte_s)
    return record.model_copy(update={"transfers": tuple(transfers), "nccl": nccl})


def searched(monkeypatch: pytest.MonkeyPatch, plan: Plan, whole: float, budget_s: float) -> tuple[RingResult, ...]:
    def ring(_plan: NcclPlan, nodes: tuple[str, ...], _number: int, _cluster: ClusterRun) -> RingResult:
        return RingResult(nodes=nodes, busbw_gbyte_s=BUSBW if "gpu03" in nodes else 2 * BUSBW)

    monkeypatch.setattr(nccl, "run_smaller_ring", ring)
    cluster = ClusterRun(kubeconfig=None, lab="pod1", run_id="r1", simulated=False, say=lambda _: None)
    until_s = time.monotonic() + budget_s
    return asyncio.run(smaller_rings(plan, record_of(plan, whole), {}, cluster, until_s))


def test_the_slow_node_is_measured_out_and_named_in_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_on()
    rings = searched(monkeypatch, plan, BUSBW, 9000)
    record = record_of(plan, BUSBW).model_copy(update={"smaller_rings": rings})

    [finding] = slow_parts(plan, record, {})

    assert (finding.code, finding.where) == ("NODE_SLOW", "gpu03, all rails")
    assert RunRecord.model_validate_json(record.model_dump_json()) == record


def test_a_fast_ring_and_an_empty_budget_measure_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_on()

    assert searched(monkeypatch, plan, 97.0, 9000) == ()
    assert searched(monkeypatch, plan, BUSBW, 100) == ()

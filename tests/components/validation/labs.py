"""Variations of the reference lab, and records as a run would leave them."""

from components.validation.benchmarks.plan import Plan, plan_of
from components.validation.benchmarks.verbs.plan import Transfer
from components.validation.records import (
    GpuTransfer,
    Loopback,
    NcclResult,
    NodeRing,
    NodesAlone,
    PodRails,
    RailInPods,
    RunRecord,
    Shape,
    TransferResult,
    VerbsTest,
)
from components.validation.verdict import judge
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab

NVLINK_GBYTE_S = 359.5
"""A ring of four H200 of one host, as tests/samples/nccl/one_node_ring_4xH200.txt has it."""


def first_rounds(plan: Plan) -> list[list[Transfer]]:
    """The schedule of the first stage, by which rails are compared."""
    return plan.rounds_of(plan.verbs.stages[0])


def plan_for(lab: Lab) -> Plan:
    plan = plan_of(lab)
    assert plan is not None
    return plan


def hardware(lab: Lab) -> Lab:
    """The reference lab as if it were made of real machines."""
    return lab.model_copy(update={"kind": "hardware"})


def changed(lab: Lab, **benchmarks: object) -> Lab:
    """The lab with other benchmark settings."""
    assert lab.benchmarks
    return lab.model_copy(update={"benchmarks": lab.benchmarks.model_copy(update=benchmarks)})


def with_nodes(lab: Lab, count: int) -> Lab:
    """The lab with `count` copies of its first node."""
    first = lab.nodes[0]
    return lab.model_copy(
        update={"nodes": tuple(first.model_copy(update={"name": f"gpu{n:02}"}) for n in range(1, count + 1))}
    )


def paired(lab: Lab) -> Lab:
    """The lab with each node against each, however long that takes."""
    assert lab.benchmarks
    verbs = lab.benchmarks.verbs.model_copy(update={"schedule": "pairs"})
    return changed(lab, verbs=verbs, budget_s=86_400)


def measured(  # noqa: PLR0917  # what a test wants to say of a transfer, in a line
    rail: str,
    client: str,
    server: str,
    value: float,
    line_rate_gbit_s: float | None = 100.0,
    test: VerbsTest = "ib_write_bw",
    shape: Shape = "one_way",
    **fields: object,
) -> TransferResult:
    """One transfer that did what it should; `fields` are further ones of the record, such as samples."""
    known: dict[str, object] = {
        "test": test,
        "shape": shape,
        "rail": rail,
        "client": client,
        "server": server,
        "outcome": "measured",
        "samples": (value,),
        "path_mtu_bytes": 4096,
        "line_rate_gbit_s": line_rate_gbit_s,
        "client_gid_index": 3,
        "server_gid_index": 3,
    }
    return TransferResult.model_validate(known | fields)


def record(
    plan: Plan,
    gbit_s: float = 97.0,
    nccl: NcclResult | None = None,
    also: list[TransferResult] | None = None,
    latency_us: float = 2.0,
) -> RunRecord:
    """A run of all stages in which every transfer reached the same, unless `also` has another result for it."""
    results: dict[tuple[str, str, str, str, str], TransferResult] = {}
    for stage in plan.stages:
        value = gbit_s * (2 if stage.shape == "both_ways" else 1) if stage.bandwidth else latency_us
        for t in (t for transfers in plan.rounds_of(stage) for t in transfers):
            one = measured(t.rail, t.client, t.server, value, test=stage.test, shape=stage.shape)
            results[_key(one)] = one
    results |= {_key(t): t for t in also or []}
    return RunRecord(
        run_id="20261121-060000-abcd",
        started_at="2026-11-21T06:00:00Z",
        duration_s=12.5,
        simulated=plan.simulated,
        plan_digest=plan.digest,
        transfers=tuple(results.values()),
        alone=nodes_alone(plan),
        pods=rails_in_pods(plan),
        gpu_memory=tuple(
            GpuTransfer(
                rail=t.rail,
                client=t.client,
                server=t.server,
                outcome="measured",
                gbit_s=97.0,
                host_gbit_s=97.0,
            )
            for transfers in plan.gpu_memory
            for t in transfers
        ),
        rings=tuple(
            NodeRing(node=node, outcome="measured", busbw_gbyte_s=NVLINK_GBYTE_S)
            for node in (plan.nccl.nodes if plan.nccl and plan.rings else ())
        ),
        nccl=nccl,
    )


def function_of(plan: Plan, run: RunRecord) -> str:
    """The function axis of a run's verdict, which no bound changes."""
    return judge(plan, Benchmarks(), run).verdict().function


def nodes_alone(plan: Plan) -> NodesAlone | None:
    """Each NIC reaches to itself what its line allows."""
    places = [(node, rail) for node in plan.alone for rail in plan.rails_of(node)]
    good = {"outcome": "measured", "gbit_s": 97.0, "line_rate_gbit_s": 100.0}
    loopbacks = [Loopback.model_validate({"node": node, "rail": rail, **good}) for node, rail in places]
    return NodesAlone(loopbacks=tuple(loopbacks)) if places else None


def rails_in_pods(plan: Plan) -> PodRails | None:
    """As a run leaves it: every pair reached on hardware, and no real pod in the simulator."""
    if plan.pods is None:
        return None
    if plan.simulated:
        return PodRails(outcome="skipped", played=True, reason="kwok plays the nodes' kubelets, so no pod runs")
    counts = ((rail, len(rail.pairs)) for rail in plan.pods.rails)
    rails = (RailInPods(rail=rail.name, pods=len(rail.nodes), pairs=pairs, reached=pairs) for rail, pairs in counts)
    return PodRails(outcome="measured", rails=tuple(rails))


def _key(t: TransferResult) -> tuple[str, str, str, str, str]:
    return t.test, t.shape, t.rail, t.client, t.server


def reduced(busbw_gbyte_s: float = 23.5, *, replayed: bool = False) -> NcclResult:
    return NcclResult(outcome="measured", replayed=replayed, busbw_gbyte_s=busbw_gbyte_s, average_busbw_gbyte_s=7.8)

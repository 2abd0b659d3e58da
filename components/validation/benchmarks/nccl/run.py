"""Runs the all-reduce over all nodes, and reads its log."""

import asyncio
import time
from collections.abc import Iterator

from pydantic import JsonValue

from components.jobs.mpijob import job_name
from components.jobs.workers import Transport
from components.physics.signs import reasons_in
from components.validation.benchmarks.nccl.judge import ceiling_of
from components.validation.benchmarks.nccl.log import (
    NcclNetwork,
    parse_nccl_log,
    rail_faults,
    rails_by_order,
    unnamed_adapters,
)
from components.validation.benchmarks.nccl.plan import (
    RING_S,
    NcclPlan,
    all_reduce,
    smaller_ring,
)
from components.validation.benchmarks.nccl.search import search_of
from components.validation.benchmarks.nccl.table import NcclTable, lost_its_beginning, parse_nccl
from components.validation.benchmarks.plan import Plan
from components.validation.mpijobs import NO_KUBECONFIG, ClusterRun, FinishedJob, JobToRun, run_job
from components.validation.records import CurvePoint, NcclResult, RingResult, RunRecord, outcome_of
from components.validation.search.measured_fabric import BAD_BELOW, Topology
from stacks.base import LabError
from stacks.words import plural

NCCL_LOG = "nccl_all_reduce.log"
MOST_FAULTS = 4
ROTATED = (
    "the launcher's log has lost its beginning, and with it the transport that the ranks report: "
    "the kubelet rotates logs at containerLogMaxSize, 10 MiB by default. Raise it on each node "
    "that can run the launcher, and measure again"
)


def measure_nccl(plan: NcclPlan, cluster: ClusterRun, broken: str) -> NcclResult:
    """The all-reduce with its line of progress; skipped over what is broken. Blocks."""
    if cluster.lacks(plan):
        broken = NO_KUBECONFIG
    if broken:
        return NcclResult(outcome="skipped", reasons=(broken,))
    result = run_nccl(plan, cluster)
    cluster.say(f"nccl_all_reduce {result.shown(result.busbw_gbyte_s, 'GB/s')}")
    return result


def run_nccl(plan: NcclPlan, cluster: ClusterRun) -> NcclResult:
    """Runs the job to its end; whatever happens is a result. Blocks: call it in a thread."""
    name = job_name(cluster.run_id)
    return run_job(
        cluster,
        JobToRun(
            name=name,
            what="nccl_all_reduce",
            workers=plan,
            program=all_reduce(plan),
            log_name=NCCL_LOG,
            read=lambda job: read_nccl(plan, name, job.log, replayed=job.replayed),
            # not replayed: the operator really ran the job, even if the log is a recording
            failed=lambda reason: NcclResult(outcome="failed", job=name, reasons=(reason,)),
            sound=lambda result: result.outcome != "failed",
        ),
    )


async def smaller_rings(
    plan: Plan, record: RunRecord, leaf_of: Topology, cluster: ClusterRun, until_s: float
) -> tuple[RingResult, ...]:
    """Pairs and halves, if the ring over all nodes is slow, for as long as the budget lasts."""
    nccl, ceiling = record.nccl, ceiling_of(plan, record)
    if plan.nccl is None or nccl is None or nccl.replayed or record.simulated or ceiling is None:
        return ()
    whole = nccl.busbw_gbyte_s
    if whole is None or whole >= BAD_BELOW * ceiling.value:
        return ()
    results: list[RingResult] = []
    while time.monotonic() + RING_S < until_s:
        rings = search_of(plan.nccl.nodes, leaf_of, whole, results).next_rings()
        if not rings:
            break
        cluster.say(f"nccl_all_reduce is slow: {plural(len(rings), 'smaller ring')}")
        running = []
        for number, nodes in enumerate(rings, len(results)):
            ring = cluster.in_thread(run_smaller_ring, plan.nccl, nodes, number, cluster)
            running.append(ring)
        results += await asyncio.gather(*running)
    return tuple(results)


def run_smaller_ring(
    plan: NcclPlan, nodes: tuple[str, ...], number: int, cluster: ClusterRun
) -> RingResult:
    """Runs the ring over some of the nodes. Blocks: call it in a thread."""
    ring = smaller_ring(plan, nodes)
    name = f"{job_name(cluster.run_id)}-{number}"

    def read(job: FinishedJob) -> RingResult:
        return RingResult(nodes=nodes, busbw_gbyte_s=parse_nccl(job.log).busbw_gbyte_s)

    return run_job(
        cluster,
        JobToRun(
            name=name,
            what="a smaller ring",
            workers=ring,
            program=all_reduce(ring),
            log_name=f"nccl_ring_{number}.log",
            read=read,
            failed=lambda _: RingResult(nodes=nodes, busbw_gbyte_s=None),
            sound=lambda _: True,
            alone=False,
        ),
    )


def read_nccl(plan: NcclPlan, name: str, log: str, *, replayed: bool) -> NcclResult:
    """Reads the launcher's log; one that gives no number is a failed result, a rotated one proves
    nothing.
    """
    result = NcclResult(outcome="failed", job=name, replayed=replayed, raw=NCCL_LOG)
    # a recorded log may be a table alone
    if not replayed and lost_its_beginning(log):
        return result.replace(outcome="error", reasons=(ROTATED,))
    try:
        table = parse_nccl(log)
    except LabError as error:
        return result.replace(reasons=(str(error), *reasons_in(log)))
    network = parse_nccl_log(log)
    # a recorded log comes from other machines, so it cannot contradict this lab's plan
    if replayed:
        faults = []
    else:
        faults = faults_of_table(table, network, "roce", plan.largest_bytes)
    return result.replace(
        outcome=outcome_of(faults),
        reasons=tuple(faults),
        busbw_gbyte_s=table.busbw_gbyte_s,
        average_busbw_gbyte_s=table.average_busbw_gbyte_s,
        wrong=table.wrong,
        transport=network.transport,
        network=network_details(network),
        **rails_of_channels(network),
        curve=curve_of(table),
    )


def rails_of_channels(network: NcclNetwork) -> dict[str, tuple[str, ...]]:
    """A few channels that left the rails, and hosts whose channels could not be checked.

    Each rank lists its devices in the order of the rails.
    """
    faults = rail_faults(network, rails_by_order(network))
    return {
        "off_rail": tuple(faults[:MOST_FAULTS]),
        "unchecked": tuple(unnamed_adapters(network)[:MOST_FAULTS]),
    }


def curve_of(table: NcclTable) -> tuple[CurvePoint, ...]:
    """Out-of-place busbw and time by message size, as tables are drawn."""
    points = []
    for row in table.rows:
        half = row.out_of_place
        size = row.size_bytes
        points.append(
            CurvePoint(message_bytes=size, value=half.busbw_gbyte_s, time_us=half.time_us)
        )
    return tuple(points)


REPORTED = {"socket": "sockets", "ib": "RDMA", None: "no transport at all"}


def faults_of_table(
    table: NcclTable, network: NcclNetwork, transport: Transport, largest_bytes: int | None
) -> list[str]:
    """Contradictions between a log and its job; empty if the ranks reduced correctly over it.

    NCCL falls back to sockets without a word in the table, and still exits with 0.
    """
    faults = list(wrong_values(table, "memory, GPU or transport"))
    expected, words = ("socket", "sockets") if transport == "tcp" else ("ib", "RDMA (NET/IB)")
    if network.transport != expected:
        faults.append(f"NCCL reported {REPORTED[network.transport]} instead of {words}")
    return [*faults, *missing_sizes(table, largest_bytes)]


def wrong_values(table: NcclTable, suspects: str) -> Iterator[str]:
    """The fault of wrong sums, with what may have broken them."""
    wrong = table.wrong or table.out_of_bounds
    if wrong:
        yield f"{plural(wrong, 'value')} came out wrong: {suspects} is broken"


def missing_sizes(table: NcclTable, largest_bytes: int | None) -> Iterator[str]:
    """The fault of a table that ends early; sizes double, up to what the GPUs have memory for."""
    last_bytes = table.rows[-1].size_bytes
    planned_bytes = largest_bytes or 0
    if table.memory_bytes is not None:
        planned_bytes = min(planned_bytes, table.memory_bytes)
    if 2 * last_bytes <= planned_bytes:
        yield f"the table ends at {last_bytes} bytes, not at {planned_bytes}"


def network_details(network: NcclNetwork) -> dict[str, JsonValue]:
    """Facts about the network from NCCL's log; shown, never judged."""
    devices: dict[str, None] = {}
    for of_host in network.used_devices.values():
        devices.update(dict.fromkeys(of_host))
    details: dict[str, JsonValue] = {
        "nccl": network.version,
        "cuda_driver": network.cuda_driver,
        "algorithm": network.algorithm,
        "pinned_net": network.pinned_net,
        "gpu_direct": network.gpu_direct,
        "devices": list(devices) or None,
    }
    return {name: value for name, value in details.items() if value is not None}

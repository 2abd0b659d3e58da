"""Runs the all-reduce over all nodes, and reads its log."""

import threading

from pydantic import JsonValue

from components.jobs.mpijob import job_name
from components.jobs.workers import Transport
from components.kubernetes.client import KubernetesApi
from components.physics.signs import reasons_in
from components.validation import Say
from components.validation.benchmarks.nccl.log import (
    NcclNetwork,
    parse_nccl_log,
    rail_faults,
    rails_by_order,
    unnamed_adapters,
)
from components.validation.benchmarks.nccl.plan import NcclPlan, all_reduce_job
from components.validation.benchmarks.nccl.table import NcclTable, lost_its_beginning, parse_nccl
from components.validation.benchmarks.plan import Plan
from components.validation.cluster import evidence_of, refuse_missing_image
from components.validation.mpijobs import JobError, MpiJobs
from components.validation.records import CurvePoint, NcclResult
from stacks.base import LabError
from stacks.words import plural

NCCL_LOG = "nccl_all_reduce.log"
"""Name of the launcher's log in the run's bundle."""
MOST_FAULTS = 4
ROTATED = (
    "the launcher's log has lost its beginning, and with it the transport that the ranks report: the kubelet rotates "
    "logs at containerLogMaxSize, 10 MiB by default. Raise it on each node that can run the launcher, and measure again"
)


def run_nccl(
    plan: Plan, run_id: str, kubeconfig: str, say: Say, stop: threading.Event
) -> tuple[NcclResult, dict[str, str]]:
    """Runs the job to its end; whatever happens is a result. Blocks: call it in a thread.

    Returns:
        The result, and by name the launcher's log and, of a job that failed, what else there is to look at.
    """
    if plan.nccl is None:
        raise ValueError("the plan has no NCCL job")
    name, raw = job_name(run_id), dict[str, str]()
    try:
        with KubernetesApi(kubeconfig) as api:
            jobs = MpiJobs(api, plan.nccl, plan.lab, simulated=plan.simulated)
            if not plan.simulated:  # a simulated node pulls nothing
                refuse_missing_image(plan.nccl, say)
            jobs.sweep(say)
            with jobs.created(name, all_reduce_job(plan.nccl, plan.lab, run_id), say):
                try:
                    raw[NCCL_LOG] = jobs.finished_log(name, "nccl_all_reduce", say, stop)
                    result = read_nccl(plan.nccl, name, raw[NCCL_LOG], replayed=jobs.replayed(name))
                except LabError as error:
                    if isinstance(error, JobError) and error.log:
                        raw[NCCL_LOG] = error.log
                    # not replayed: the operator really ran the job, even if the log is a recording
                    result = NcclResult(outcome="failed", job=name, reasons=(str(error),))
                if result.outcome == "failed" and not stop.is_set():
                    raw |= evidence_of(api, plan.nccl.namespace, name)
    except LabError as error:
        result = NcclResult(outcome="failed", reasons=(str(error),))
    return result, raw


def read_nccl(plan: NcclPlan, name: str, log: str, *, replayed: bool) -> NcclResult:
    """Reads the launcher's log; one that gives no number is a failed result, a rotated one proves nothing."""
    # a recorded log may be a table alone
    if not replayed and lost_its_beginning(log):
        return NcclResult(outcome="error", job=name, reasons=(ROTATED,), raw=NCCL_LOG)
    try:
        table = parse_nccl(log)
    except LabError as error:
        reasons = (str(error), *reasons_in(log))
        return NcclResult(outcome="failed", job=name, replayed=replayed, reasons=reasons, raw=NCCL_LOG)
    network = parse_nccl_log(log)
    # a recorded log comes from other machines, so it cannot contradict this lab's plan
    faults = [] if replayed else faults_of_table(table, network, "roce", plan.largest_bytes)
    return NcclResult(
        outcome="failed" if faults else "measured",
        reasons=tuple(faults),
        job=name,
        replayed=replayed,
        busbw_gbyte_s=table.busbw_gbyte_s,
        average_busbw_gbyte_s=table.average_busbw_gbyte_s,
        wrong=table.wrong,
        transport=network.transport,
        network=network_details(network),
        **rails_of_channels(network),
        curve=curve_of(table),
        raw=NCCL_LOG,
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
    return tuple(
        CurvePoint(message_bytes=row.size_bytes, value=row.out_of_place.busbw_gbyte_s, time_us=row.out_of_place.time_us)
        for row in table.rows
    )


def faults_of_table(
    table: NcclTable, network: NcclNetwork, transport: Transport, largest_bytes: int | None
) -> list[str]:
    """Contradictions between a log and its job; empty if the ranks reduced correctly over the transport.

    NCCL falls back to sockets without a word in the table, and still exits with 0.
    """
    faults = wrong_values(table, "memory, GPU or transport")
    reported = {"socket": "sockets", "ib": "RDMA"}.get(network.transport or "", "no transport at all")
    if network.transport != ("socket" if transport == "tcp" else "ib"):
        faults.append(f"NCCL reported {reported} instead of {'sockets' if transport == 'tcp' else 'RDMA (NET/IB)'}")
    return [*faults, *missing_sizes(table, largest_bytes)]


def wrong_values(table: NcclTable, suspects: str) -> list[str]:
    """The fault of wrong sums, with what may have broken them."""
    wrong = table.wrong or table.out_of_bounds
    return [f"{plural(wrong, 'value')} came out wrong: {suspects} is broken"] if wrong else []


def missing_sizes(table: NcclTable, largest_bytes: int | None) -> list[str]:
    """The fault of a table that ends early; sizes double, up to what the GPUs have memory for."""
    last_bytes = table.rows[-1].size_bytes
    planned_bytes = largest_bytes or 0
    if table.memory_bytes is not None:
        planned_bytes = min(planned_bytes, table.memory_bytes)
    if 2 * last_bytes > planned_bytes:
        return []
    return [f"the table ends at {last_bytes} bytes, not at {planned_bytes}"]


def network_details(network: NcclNetwork) -> dict[str, JsonValue]:
    """Facts about the network from NCCL's log; shown, never judged."""
    devices: list[JsonValue] = list(dict.fromkeys(d for found in network.used_devices.values() for d in found))
    details: dict[str, JsonValue] = {
        "nccl": network.version,
        "cuda_driver": network.cuda_driver,
        "algorithm": network.algorithm,
        "pinned_net": network.pinned_net,
        "gpu_direct": network.gpu_direct,
        "devices": devices or None,
    }
    return {name: value for name, value in details.items() if value is not None}

"""NCCL's all-reduce jobs: over all nodes, and within each node alone. Pure."""

from pydantic import JsonValue

from components.jobs.mpijob import LAB_LABEL, RUN_LABEL, MpiProgram, job_name, mpi_job
from components.jobs.workers import JobRequest, Workers, workers_of
from components.physics.nccl import largest_message_bytes
from stacks.base import LabError
from stacks.benchmarks import Benchmarks, Nccl
from stacks.lab import Lab

RING_BYTES = (2**30, 2**31)
"""Smallest and largest message of a node's own ring: smaller ones do not measure its links, and
larger ones show no more."""
RING_S = 180


class NcclPlan(Workers):
    """The all-reduce over the workers."""

    smallest_bytes: int
    largest_bytes: int


def nccl_plan(workers: Workers, nccl: Nccl | None) -> NcclPlan:
    """The all-reduce over these workers, up to a message that measures their bandwidth."""
    smallest_bytes, largest_bytes = 8, None
    if nccl is not None:
        smallest_bytes, largest_bytes = nccl.smallest_bytes, nccl.largest_bytes
    if largest_bytes is None:
        enough_bytes = largest_message_bytes(workers.ranks, len(workers.attachments))
        largest_bytes = max(smallest_bytes, enough_bytes)
    return NcclPlan(**dict(workers), smallest_bytes=smallest_bytes, largest_bytes=largest_bytes)


def all_reduce_job(plan: NcclPlan, lab: str, run_id: str) -> dict[str, JsonValue]:
    """The job of one run of the runner, which finds and deletes it by its labels."""
    return mpi_job(job_name(run_id), plan, all_reduce(plan), {LAB_LABEL: lab, RUN_LABEL: run_id})


def all_reduce(plan: NcclPlan, apart_s: int | None = None) -> MpiProgram:
    """nccl-tests' all-reduce with one GPU per rank."""
    sizes = ("-b", str(plan.smallest_bytes), "-e", str(plan.largest_bytes), "-f", "2")
    # a ring crosses each NIC once, which is what the ceiling assumes
    return MpiProgram(
        words=(plan.nccl_tests, *sizes, "-g", "1"),
        variables={"NCCL_ALGO": "Ring"},
        apart_s=apart_s,
    )


def smaller_ring(plan: NcclPlan, nodes: tuple[str, ...]) -> NcclPlan:
    """The ring over some of the nodes, with one large message."""
    size_bytes = min(RING_BYTES[1], plan.largest_bytes)
    sizes = {"smallest_bytes": size_bytes, "largest_bytes": size_bytes}
    return plan.model_copy(update={"nodes": nodes, "timeout_s": RING_S, **sizes})


def node_ring(plan: NcclPlan) -> tuple[NcclPlan, MpiProgram]:
    """The same ring within each node alone, without any rail: what its GPUs reach among
    themselves.
    """
    smallest_bytes, largest_bytes = (min(size, plan.largest_bytes) for size in RING_BYTES)
    off_the_rails: dict[str, object] = {"attachments": (), "shared_devices": ()}
    off_the_rails |= {"traffic_class": None, "routed": False}
    if plan.runner == "pods":
        off_the_rails["host"] = None
    sizes = {"smallest_bytes": smallest_bytes, "largest_bytes": largest_bytes}
    alone = plan.model_copy(update=off_the_rails | sizes)
    return alone, all_reduce(alone, RING_S)


def node_ring_job(plan: NcclPlan, lab: str, run_id: str) -> dict[str, JsonValue]:
    """Its job."""
    alone, program = node_ring(plan)
    return mpi_job(f"{job_name(run_id)}-ring", alone, program, {LAB_LABEL: lab, RUN_LABEL: run_id})


def nccl_of(lab: Lab, benchmarks: Benchmarks) -> tuple[NcclPlan | None, str]:
    """The job over all active nodes that have GPUs, or why there is none."""
    nccl = benchmarks.nccl
    if not any(node.gpus and node.role == "worker" for node in lab.active_nodes):
        return None, "nodes[].gpus: no active worker has GPUs"
    if nccl is None:
        also = "; without a cluster, its runner is ssh or slurm"
        if lab.cluster:
            also = ""
        return None, f"benchmarks.nccl: missing{also}"
    if lab.cluster is None and nccl.runner == "pods":
        return None, "cluster: missing, and benchmarks.nccl.runner is pods; set it to ssh or slurm"
    try:
        request = JobRequest(
            namespace=benchmarks.namespace,
            image=nccl.image or "",
            timeout_s=nccl.timeout_s,
            runner=nccl.runner,
            nccl_tests=nccl.program,
        )
        workers = workers_of(lab, request)
    except LabError as error:
        return None, str(error)
    return nccl_plan(workers, nccl), ""

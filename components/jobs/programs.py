"""NCCL's all-reduce jobs, over all nodes and within each node alone, and MPI's all-reduce on CPUs."""

from pathlib import Path

from pydantic import JsonValue

from components.jobs.mpijob import LAB_LABEL, RUN_LABEL, MpiProgram, mpi_job
from components.jobs.workers import Workers
from components.physics.nccl import largest_message_bytes
from stacks.benchmarks import Nccl

RING_BYTES = (2**30, 2**31)
"""Smallest and largest message of a node's own ring: smaller ones do not measure its links, and
larger ones show no more."""
RING_S = 180
"""For a node's own ring, which a sound node ends within seconds."""

MPI_ALL_REDUCE = Path(__file__).with_name("mpi_all_reduce.py")


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


def job_name(run_id: str) -> str:
    """The name of a run's job, short enough for a DNS label with `-worker-NNNN`."""
    return f"bench-{run_id}".lower()


def all_reduce_job(plan: NcclPlan, lab: str, run_id: str) -> dict[str, JsonValue]:
    """The job of one run of the runner, which finds and deletes it by its labels."""
    return mpi_job(job_name(run_id), plan, all_reduce(plan), {LAB_LABEL: lab, RUN_LABEL: run_id})


def all_reduce(plan: NcclPlan, apart_s: int | None = None) -> MpiProgram:
    """nccl-tests' all-reduce with one GPU per rank."""
    sizes = ("-b", str(plan.smallest_bytes), "-e", str(plan.largest_bytes), "-f", "2")
    # a ring crosses each NIC once, which is what the ceiling assumes
    return MpiProgram(words=("all_reduce_perf", *sizes, "-g", "1"), variables={"NCCL_ALGO": "Ring"}, apart_s=apart_s)


def mpi_all_reduce(smallest_bytes: int, largest_bytes: int) -> MpiProgram:
    """MPI's all-reduce. The job carries its text: any image with Open MPI, UCX and mpi4py runs it."""
    words = ("python3", "-c", MPI_ALL_REDUCE.read_text(), str(smallest_bytes), str(largest_bytes))
    return MpiProgram(words=words, over_ucx=True)


def node_ring_job(plan: NcclPlan, lab: str, run_id: str) -> dict[str, JsonValue]:
    """The same ring within each node alone, without any rail: what its GPUs reach among themselves."""
    smallest_bytes, largest_bytes = (min(size, plan.largest_bytes) for size in RING_BYTES)
    off_the_rails: dict[str, object] = {"attachments": (), "host": None, "shared_devices": ()}
    off_the_rails |= {"traffic_class": None, "routed": False}
    sizes = {"smallest_bytes": smallest_bytes, "largest_bytes": largest_bytes}
    alone = plan.model_copy(update=off_the_rails | sizes)
    program = all_reduce(alone, RING_S)
    return mpi_job(f"{job_name(run_id)}-ring", alone, program, {LAB_LABEL: lab, RUN_LABEL: run_id})

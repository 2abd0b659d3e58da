"""What the jobs run: NCCL's all-reduce, Horovod's ResNet-50 and tf_cnn_benchmarks, as the seeds have them."""

from pydantic import JsonValue

from components.jobs.mpijob import LAB_LABEL, RUN_LABEL, Program, mpi_job
from components.jobs.workers import Workers

PROGRAMS_FOLDER = "/opt/benchmarks"
"""Where the training image keeps the scripts that it fetched at their pinned commits."""


RING_BYTES = 1_073_741_824
"""Smallest message of a node's own ring: small ones tell nothing of its links."""
RING_S = 180
"""For a node's own ring, which a sound node ends within seconds."""


class NcclPlan(Workers):
    """The all-reduce over the workers."""

    smallest_bytes: int
    largest_bytes: int


def job_name(run_id: str) -> str:
    """The name of a run's job; with `-worker-NNNN` behind it still a DNS label."""
    return f"bench-{run_id}".lower()


def all_reduce_job(plan: NcclPlan, lab: str, run_id: str) -> dict[str, JsonValue]:
    """The job of one run of the runner, which finds and deletes it by its labels."""
    return mpi_job(job_name(run_id), plan, all_reduce(plan), {LAB_LABEL: lab, RUN_LABEL: run_id})


def all_reduce(plan: NcclPlan) -> Program:
    """nccl-tests' all-reduce, one GPU a rank (seed A's table up to 2 GiB)."""
    sizes = ("-b", str(plan.smallest_bytes), "-e", str(plan.largest_bytes), "-f", "2")
    # a ring crosses each NIC once, which is what the ceiling assumes
    return Program(words=("all_reduce_perf", *sizes, "-g", "1"), variables={"NCCL_ALGO": "Ring"})


def node_ring_job(plan: NcclPlan, lab: str, run_id: str) -> dict[str, JsonValue]:
    """The same ring within each node alone, without any rail: what its GPUs reach among themselves."""
    alone = plan.model_copy(
        update={"attachments": (), "host": None, "shared_devices": (), "traffic_class": None, "routed": False}
    )
    sizes = ("-b", str(min(RING_BYTES, plan.largest_bytes)), "-e", str(plan.largest_bytes), "-f", "2")
    words = ("all_reduce_perf", *sizes, "-g", "1")
    program = Program(words=words, variables={"NCCL_ALGO": "Ring"}, apart_s=RING_S)
    return mpi_job(f"{job_name(run_id)}-ring", alone, program, {LAB_LABEL: lab, RUN_LABEL: run_id})


def horovod(workers: Workers) -> Program:
    """Horovod's synthetic ResNet-50 (seed A's second test): `Img/sec per GPU` over ten iterations."""
    script = f"{PROGRAMS_FOLDER}/tensorflow2_synthetic_benchmark.py"
    words = ("python3", script, "--model", "ResNet50", "--batch-size", "32", "--num-iters", "10")
    return Program(words=words, variables=_horovod_variables(workers))


def tf_cnn(workers: Workers, batches: int = 10_000) -> Program:
    """tf_cnn_benchmarks with seed B's options; the job's deadline bounds its 10 000 batches."""
    script = f"{PROGRAMS_FOLDER}/tf_cnn_benchmarks/tf_cnn_benchmarks.py"
    options = ("--model=resnet50", "--batch_size=32", "--variable_update=horovod", "--use_fp16", "--xla=True")
    words = ("python3", script, *options, f"--num_batches={batches}")
    # under Horovod each rank prints its own steps and total
    return Program(words=words, variables=_horovod_variables(workers), tagged=True)


def _horovod_variables(workers: Workers) -> dict[str, str]:
    """Seed B: with RDMA Horovod must not use MPI from several threads; over TCP it may."""
    return {"HOROVOD_MPI_THREADS_DISABLE": "0" if workers.transport == "tcp" else "1"}

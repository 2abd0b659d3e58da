"""A lab's benchmark job as a manifest for kubectl."""

from typing import get_args

from pydantic import JsonValue

from components.jobs.mpijob import LAB_LABEL, MpiProgram, mpi_job
from components.jobs.programs import all_reduce, nccl_plan
from components.jobs.workers import JobRequest, Transport, Workers, workers_of
from components.validation.training import training_benchmark
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab
from stacks.transports import Training

JOBS = ("nccl", *get_args(Training))


def job_of(
    lab: Lab, job: str, transport: Transport, *, image: str | None = None, device_resource: str | None = None
) -> dict[str, JsonValue]:
    """The job of a lab for kubectl. It has no run label: the runner would delete it as a leftover.

    Raises:
        LabError: when the lab cannot run it.
    """
    benchmarks = lab.benchmarks or Benchmarks()
    chosen = image or _image(lab, job)
    timeout_s = benchmarks.nccl.timeout_s if benchmarks.nccl else 900
    workers = workers_of(
        lab,
        JobRequest(
            namespace=benchmarks.namespace,
            image=chosen,
            timeout_s=timeout_s,
            transport=transport,
            device_resource=device_resource,
        ),
    )
    name = f"{job.replace('_', '-')}-{transport}"
    return mpi_job(name, workers, _program(job, workers, benchmarks), {LAB_LABEL: lab.name})


def _program(job: str, workers: Workers, benchmarks: Benchmarks) -> MpiProgram:
    if job != "nccl":
        return training_benchmark(job).program(workers, by_hand=True)
    return all_reduce(nccl_plan(workers, benchmarks.nccl))


def _image(lab: Lab, job: str) -> str:
    """The lab's image for a job: NCCL's is in `benchmarks`, the one with a training framework in `images`."""
    if job == "nccl":
        if lab.benchmarks is None or lab.benchmarks.nccl is None:
            raise LabError("benchmarks.nccl.image: missing; name the benchmark image, or use --image")
        return lab.benchmarks.nccl.image
    if lab.images is None or lab.images.training is None:
        raise LabError(
            f"images.training.image: missing, and {job} needs TensorFlow and Horovod; name it or use --image"
        )
    return lab.images.training.image

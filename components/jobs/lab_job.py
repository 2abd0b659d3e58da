"""A job as YAML for kubectl: `python -m components.jobs --job nccl --transport roce | kubectl create -f -`."""

import argparse
import sys
from typing import Literal, get_args

from pydantic import JsonValue

from components.jobs.mpijob import LAB_LABEL, Program, mpi_job
from components.jobs.programs import NcclPlan, all_reduce, horovod, tf_cnn
from components.jobs.text import to_yaml
from components.jobs.workers import Transport, Wanted, Workers, workers_of
from components.stack_cli import add_stack_options, lab_of
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab

Job = Literal["nccl", "horovod", "tf_cnn"]


def main(arguments: list[str] | None = None) -> int:
    """Prints the job; what it is and how to follow it goes to stderr."""
    parser = argparse.ArgumentParser(prog="python -m components.jobs", description=__doc__)
    add_stack_options(parser)
    parser.add_argument("--job", choices=get_args(Job), default="nccl", help="what it runs (default: %(default)s)")
    parser.add_argument(
        "--transport",
        choices=get_args(Transport),
        default="roce",
        help="RDMA over VFs of the rails, TCP without VFs, or the hosts' own network (default: %(default)s)",
    )
    parser.add_argument("--device-resource", help="with host: what hands out /dev/infiniband, such as rdma/hca")
    parser.add_argument("--image", help="another image than the lab's")
    asked = parser.parse_args(arguments)
    try:
        lab = lab_of(asked)
        document = job_of(lab, asked.job, asked.transport, image=asked.image, device_resource=asked.device_resource)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(to_yaml(document))
    name = f"{asked.job.replace('_', '-')}-{asked.transport}"
    namespace = (lab.benchmarks or Benchmarks()).namespace
    launcher = f"training.kubeflow.org/job-name={name},training.kubeflow.org/job-role=launcher"
    sys.stderr.write(f"follow it: kubectl logs -f -n {namespace} -l {launcher}\n")
    return 0


def job_of(
    lab: Lab, job: Job, transport: Transport, *, image: str | None = None, device_resource: str | None = None
) -> dict[str, JsonValue]:
    """The job of a lab for people. It has no run label: the runner would delete it as its own leftover.

    Raises:
        LabError: when the lab cannot run it.
    """
    benchmarks = lab.benchmarks or Benchmarks()
    chosen = image or _image(lab, job)
    timeout_s = benchmarks.nccl.timeout_s if benchmarks.nccl else 900
    workers = workers_of(
        lab,
        Wanted(
            namespace=benchmarks.namespace,
            image=chosen,
            timeout_s=timeout_s,
            transport=transport,
            device_resource=device_resource,
        ),
    )
    name = f"{job.replace('_', '-')}-{transport}"
    return mpi_job(name, workers, _program(job, workers, benchmarks), {LAB_LABEL: lab.name})


def _program(job: Job, workers: Workers, benchmarks: Benchmarks) -> Program:
    if job == "horovod":
        return horovod(workers)
    if job == "tf_cnn":
        return tf_cnn(workers)
    sizes = benchmarks.nccl
    smallest, largest = (sizes.smallest_bytes, sizes.largest_bytes) if sizes else (8, 2**31)
    return all_reduce(NcclPlan(**dict(workers), smallest_bytes=smallest, largest_bytes=largest))


def _image(lab: Lab, job: Job) -> str:
    """The lab's image for a job: NCCL's stands in `benchmarks`, the one with a training framework in `images`."""
    if job == "nccl":
        if lab.benchmarks is None or lab.benchmarks.nccl is None:
            raise LabError("benchmarks.nccl.image: missing; name the benchmark image, or use --image")
        return lab.benchmarks.nccl.image
    if lab.images is None or lab.images.training is None:
        raise LabError(
            f"images.training.image: missing, and {job} needs TensorFlow and Horovod; name it or use --image"
        )
    return lab.images.training.image


if __name__ == "__main__":
    sys.exit(main())

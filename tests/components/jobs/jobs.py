"""Looking into rendered jobs."""

from itertools import pairwise
from typing import Any

from components.validation.benchmarks.jobs.plan import job_of
from stacks.images import Images, TrainingRecipe
from stacks.lab import Lab

JOBS = ("nccl", "horovod", "tf_cnn")
DEVICE_RESOURCE = "rdma/hca_shared"
TRAINING = "registry.example:5000/horovod:24.03"


def rendered(lab: Lab, job: str = "nccl", transport: str = "roce") -> dict[str, Any]:
    images = Images(training=TrainingRecipe(image=TRAINING))
    with_images = lab.model_copy(update={"images": images})
    resource = DEVICE_RESOURCE if transport == "host" else None
    return job_of(with_images, job, transport, device_resource=resource)  # type: ignore[arg-type]  # any of them


def worker(job: dict[str, Any]) -> dict[str, Any]:
    """The workers' pod template."""
    return job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]


def container(job: dict[str, Any], role: str = "Worker") -> dict[str, Any]:
    return job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"][0]


def arguments(job: dict[str, Any]) -> str:
    """What mpirun is given, as one line."""
    return " ".join(container(job, "Launcher")["args"])


def exported(job: dict[str, Any]) -> dict[str, str]:
    """Variables that mpirun carries to the ranks."""
    words = container(job, "Launcher")["args"]
    values = [value for flag, value in pairwise(words) if flag == "-x" and "=" in value]
    return dict(value.split("=", 1) for value in values)

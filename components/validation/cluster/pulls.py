"""Finds images that cannot be pulled, in the registry before a job starts or by its pods, without waiting."""

from collections.abc import Sequence
from dataclasses import dataclass

from components.jobs.registry import look
from components.jobs.workers import Workers
from components.validation import Say
from components.validation.cluster.kube import Pod
from components.validation.planning.jobs import ALL_REDUCE, MPI_ALL_REDUCE
from stacks.base import LabError

REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
FINAL_REASONS = ("InvalidImageName", "ErrImageNeverPull")
FINAL_WORDS = ("not found", "manifest unknown", "unauthorized", "denied", "server gave HTTP response to HTTPS client")
"""A kubelet retries forever; after these it cannot succeed, while a timeout of the registry may pass."""
BUILD_IT = "Build and push it: rocelab image push"
FIELDS = {"benchmark": "benchmarks.nccl.image", "training": "images.training", "mpi": "benchmarks.mpi.image"}
"""The field of the lab file that names each image."""
IMAGE_OF = {ALL_REDUCE: "benchmark", MPI_ALL_REDUCE: "mpi"}
"""The image of each collective; a training has the other one."""


@dataclass(frozen=True, slots=True)
class PullFault:
    """An image that a node does not get."""

    text: str
    final: bool
    """Whether waiting is of no use."""


def pull_fault(pods: Sequence[Pod], image: str) -> PullFault | None:
    """Why a pod does not get its image, final reasons first; None when no kubelet complains."""
    faults = []
    for pod in pods:
        for container in pod.statuses:
            if container.waiting not in REASONS:
                continue
            said = container.message or container.waiting
            final = container.waiting in FINAL_REASONS or any(words in said for words in FINAL_WORDS)
            where = pod.node or pod.name
            text = f"{container.image or image} cannot be pulled on {where}: {said[:160]}. {BUILD_IT}"
            faults.append(PullFault(text, final))
    return max(faults, key=lambda fault: fault.final, default=None)


def not_in_registry(which: str, image: str) -> str:
    """The error for an image of the lab file, with the command that builds it."""
    option = "" if which == "benchmark" else f" --which {which}"
    return f"{FIELDS[which]}: {image} is not in its registry. {BUILD_IT}{option}"


def refuse_missing_image(workers: Workers, say: Say, which: str = "benchmark") -> None:
    """One error before any job, where the registry says that there is no such image.

    The nodes may reach registries that this machine does not, or have a login, without which some registries call a
    private image unknown: then the pods show it.

    Args:
        workers: the job's, with its image.
        say: progress, a line at a time.
        which: of the images that `rocelab image push` builds.

    Raises:
        LabError: naming the image and the command that builds it.
    """
    found = look(workers.image)
    if found.outcome == "missing" and workers.pull_secret:
        say(f"image not checked ahead: its registry requires the login of {workers.pull_secret}")
    elif found.outcome == "missing":
        raise LabError(not_in_registry(which, workers.image))
    if found.outcome == "unknown":
        say(f"image not checked ahead: {found.why}")

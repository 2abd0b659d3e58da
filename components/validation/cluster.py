"""What benchmarks read of a cluster: objects, images that cannot be pulled, and evidence of a
failed job.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from pydantic import AliasPath, BaseModel, ConfigDict, Field, JsonValue

from components.jobs.mpijob import GROUP, PLURAL, RUN_LABEL, VERSION
from components.jobs.registry import look
from components.jobs.workers import Workers
from components.kubernetes.client import KubernetesApi
from components.validation import Say
from components.validation.redact import GONE
from stacks.base import LabError


def _at(*path: str, default: object = "") -> Any:
    """A field that lies deeper in the object."""
    return Field(default, validation_alias=AliasPath(*path))


class _Part(BaseModel):
    """A part of an object; other fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Condition(_Part):
    type: str
    status: str
    message: str = ""


class ContainerStatus(_Part):
    """A container as the kubelet reports it; `waiting`, and why, until it runs."""

    image: str = ""
    waiting: str = _at("state", "waiting", "reason")
    message: str = _at("state", "waiting", "message")


class DeclaredContainer(_Part):
    """A container as its pod declares it."""

    limits: dict[str, str | int] = _at("resources", "limits", default={})


class Node(_Part):
    name: str = Field(validation_alias=AliasPath("metadata", "name"))
    labels: dict[str, str] = _at("metadata", "labels", default={})
    annotations: dict[str, str] = _at("metadata", "annotations", default={})


class Job(_Part):
    name: str = Field(validation_alias=AliasPath("metadata", "name"))
    conditions: tuple[Condition, ...] = _at("status", "conditions", default=())


class Pod(Node):
    namespace: str = _at("metadata", "namespace")
    created: datetime | None = _at("metadata", "creationTimestamp", default=None)
    node: str = _at("spec", "nodeName")
    """Empty until it is scheduled."""
    containers: tuple[DeclaredContainer, ...] = _at("spec", "containers", default=())
    phase: str = _at("status", "phase")
    reason: str = _at("status", "reason")
    message: str = _at("status", "message")
    conditions: tuple[Condition, ...] = _at("status", "conditions", default=())
    statuses: tuple[ContainerStatus, ...] = _at("status", "containerStatuses", default=())

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.conditions)

    def held(self, resources: Collection[str]) -> list[str]:
        """Which of these resources the pod holds; an ended pod holds none."""
        if self.phase in ("Succeeded", "Failed"):
            return []
        return sorted(
            {name for container in self.containers for name in container.limits} & set(resources)
        )


class Event(_Part):
    """A controller's report about an object."""

    about: str = _at("involvedObject", "name")
    reason: str = ""
    message: str = ""


T = TypeVar("T", bound=_Part)


def objects(
    api: KubernetesApi, path: str, kind: type[T], query: Mapping[str, str] | None = None
) -> list[T]:
    """The objects of a collection."""
    return [kind.model_validate(item) for item in api.items(path, query)]


def holders(api: KubernetesApi, resources: Collection[str], nodes: Collection[str]) -> list[str]:
    """Pods on these nodes that hold one of the resources.

    Pods of a run are left out: the next run deletes them.
    """
    lines = []
    for pod in objects(api, "/api/v1/pods", Pod):
        held = pod.held(resources)
        if held and pod.node in nodes and RUN_LABEL not in pod.labels:
            lines.append(f"{pod.node}: pod {pod.full_name} holds {held[0]}")
    return lines


REASONS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
)
FINAL_REASONS = ("InvalidImageName", "ErrImageNeverPull")
FINAL_WORDS = (
    "not found",
    "manifest unknown",
    "unauthorized",
    "denied",
    "server gave HTTP response to HTTPS client",
)
"""A kubelet retries forever; after these it cannot succeed, while a timeout of the registry may
pass."""
BUILD_IT = "Build and push it: rocelab image push"
FIELDS = {
    "benchmark": "benchmarks.nccl.image",
    "training": "images.training",
    "mpi": "benchmarks.mpi.image",
}


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
            why = container.message or container.waiting
            final = container.waiting in FINAL_REASONS or any(words in why for words in FINAL_WORDS)
            where = pod.node or pod.name
            text = (
                f"{container.image or image} cannot be pulled on {where}: {why[:160]}. {BUILD_IT}"
            )
            faults.append(PullFault(text, final))
    return max(faults, key=lambda fault: fault.final, default=None)


def not_in_registry(which: str, image: str) -> str:
    """The error for an image of the lab file, with the command that builds it."""
    option = "" if which == "benchmark" else f" --which {which}"
    return f"{FIELDS[which]}: {image} is not in its registry. {BUILD_IT}{option}"


def refuse_missing_image(workers: Workers, say: Say, which: str = "benchmark") -> None:
    """One error before any job, where the registry says that there is no such image.

    The nodes may reach registries that this machine does not, or have a login, without which some
    registries call a private image unknown: then the pods show it.

    Args:
        workers: the job's, with its image.
        say: progress, a line at a time.
        which: of the images that `rocelab image push` builds.

    Raises:
        LabError: naming the image and the command that builds it.
    """
    answer = look(workers.image)
    if answer.outcome == "missing" and workers.pull_secret:
        say(f"image not checked ahead: its registry requires the login of {workers.pull_secret}")
    elif answer.outcome == "missing":
        raise LabError(not_in_registry(which, workers.image))
    if answer.outcome == "unknown":
        say(f"image not checked ahead: {answer.why}")


LARGEST_LOG_BYTES = 200_000
"""Per pod; the launcher's whole log is kept elsewhere."""
LIMIT = {"limitBytes": str(LARGEST_LOG_BYTES)}
MOST_PODS = 16
"""Whose logs are read: ranks mostly fail for the same reason."""
SHOWN_VARIABLES = ("NCCL_", "OMPI_", "UCX_", "HOROVOD_")
NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
NOISE = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")


def evidence_of(api: KubernetesApi, namespace: str, job: str) -> dict[str, str]:
    """The texts by name. A text that cannot be read says why, so a second fault does not hide the
    first.
    """
    core = f"/api/v1/namespaces/{namespace}"
    selector = {"labelSelector": f"training.kubeflow.org/job-name={job}"}
    texts = {
        "job.json": _asked(
            lambda: _document(api, f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}/{job}")
        ),
        "pods.json": _asked(lambda: _document(api, f"{core}/pods", selector)),
        "events.json": _asked(lambda: _document(api, f"{core}/events")),
        "nodes.json": _asked(lambda: _document(api, "/api/v1/nodes")),
    }
    pods = list(_pods(texts["pods.json"]))
    texts["network-status.json"] = json.dumps(
        {name: status for name, status in pods if status}, indent=1
    )
    for name, _ in pods[:MOST_PODS]:
        texts[f"logs/{name}.log"] = _asked(partial(api.text, f"{core}/pods/{name}/log", LIMIT))
    return {f"evidence/{job}/{name}": text for name, text in texts.items()}


def _asked(read: Callable[[], str]) -> str:
    try:
        return read()
    except LabError as error:
        return f"could not be read: {error}"


def _document(api: KubernetesApi, path: str, query: Mapping[str, str] | None = None) -> str:
    return json.dumps(cleaned(json.loads(api.text(path, query or {}))), indent=1)


def cleaned(value: JsonValue) -> JsonValue:
    """A document without values of environment variables and without what only machines read."""
    if isinstance(value, list):
        return [cleaned(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    kept = {key: cleaned(inner) for key, inner in value.items() if key not in NOISE}
    variables = kept.get("env")
    if isinstance(variables, list):
        kept["env"] = [_variable(inner) for inner in variables]
    return kept


def _variable(value: JsonValue) -> JsonValue:
    if not isinstance(value, dict) or "value" not in value:
        return value
    shown = str(value.get("name", "")).startswith(SHOWN_VARIABLES)
    return value if shown else {**value, "value": GONE}


def _pods(text: str) -> Iterator[tuple[str, JsonValue]]:
    """Name of each pod, and what Multus says of its networks."""
    try:
        content = json.loads(text)
    except ValueError:
        return
    for pod in content.get("items") or ():
        metadata = pod.get("metadata", {})
        yield str(metadata.get("name", "")), metadata.get("annotations", {}).get(NETWORK_STATUS)

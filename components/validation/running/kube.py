"""The few fields of Kubernetes objects that the runner reads."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from components.jobs.mpijob import RUN_LABEL
from components.kubernetes.client import KubernetesApi


class _Part(BaseModel):
    """A part of an object: what is not named here is left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Meta(_Part):
    """What every object has."""

    name: str
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    created: datetime | None = Field(default=None, alias="creationTimestamp")


class Condition(_Part):
    """One line of a status."""

    type: str
    status: str
    message: str = ""


class Waiting(_Part):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerState(_Part):
    """Where a container is."""

    waiting: Waiting | None = None


class Container(_Part):
    """What a pod says about one of its containers."""

    image: str = ""
    state: ContainerState = ContainerState()


class Status(_Part):
    """Conditions of a pod or a job, and a pod's containers. A kubelet that refuses a pod says why."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    containers: tuple[Container, ...] = Field(default=(), alias="containerStatuses")


class Resources(_Part):
    """What a container asks for."""

    limits: dict[str, str | int] = {}


class Wants(_Part):
    """A container as its pod declares it."""

    resources: Resources = Resources()


class PodSpec(_Part):
    """Where a pod lies, empty until it is scheduled, and what it asks for."""

    node: str = Field(default="", alias="nodeName")
    containers: tuple[Wants, ...] = ()


class Pod(_Part):
    """A pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: Status = Status()


class Job(_Part):
    """An MPIJob."""

    metadata: Meta
    status: Status = Status()


class Node(_Part):
    """A node."""

    metadata: Meta


class Reference(_Part):
    """The object that an event is about."""

    name: str = ""


class Event(_Part):
    """What a controller reported about an object."""

    reason: str = ""
    message: str = ""
    about: Reference = Field(default=Reference(), alias="involvedObject")


T = TypeVar("T", bound=_Part)


def objects(api: KubernetesApi, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> list[T]:
    """The objects of a collection."""
    return [kind.model_validate(item) for item in api.items(path, query)]


def holders(api: KubernetesApi, resources: Collection[str], nodes: Collection[str]) -> list[str]:
    """Pods on these nodes that hold one of the resources and are not a run's own, which the run sweeps away."""
    found = []
    for pod in objects(api, "/api/v1/pods", Pod):
        ended = pod.status.phase in ("Succeeded", "Failed")
        if ended or pod.spec.node not in nodes or RUN_LABEL in pod.metadata.labels:
            continue
        held = sorted({name for wants in pod.spec.containers for name in wants.resources.limits} & set(resources))
        if held:
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            found.append(f"{pod.spec.node}: pod {name} holds {held[0]}")
    return found

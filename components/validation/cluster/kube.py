"""The few fields of Kubernetes objects that the runner reads."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from components.jobs.mpijob import RUN_LABEL
from components.kubernetes.client import KubernetesApi


class _Part(BaseModel):
    """A part of an object; other fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Meta(_Part):
    name: str
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    created: datetime | None = Field(default=None, alias="creationTimestamp")


class Condition(_Part):
    type: str
    status: str
    message: str = ""


class Waiting(_Part):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerState(_Part):
    waiting: Waiting | None = None


class Container(_Part):
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
    limits: dict[str, str | int] = {}


class DeclaredContainer(_Part):
    """A container as its pod declares it."""

    resources: Resources = Resources()


class PodSpec(_Part):
    """Where a pod runs, and its containers."""

    node: str = Field(default="", alias="nodeName")
    """Empty until it is scheduled."""
    containers: tuple[DeclaredContainer, ...] = ()


class Pod(_Part):
    metadata: Meta
    spec: PodSpec = PodSpec()
    status: Status = Status()

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def held(self, resources: Collection[str]) -> list[str]:
        """Which of these resources the pod holds; an ended pod holds none."""
        if self.status.phase in ("Succeeded", "Failed"):
            return []
        return sorted({name for one in self.spec.containers for name in one.resources.limits} & set(resources))


class Job(_Part):
    metadata: Meta
    status: Status = Status()


class Node(_Part):
    metadata: Meta


class InvolvedObject(_Part):
    """The object that an event is about."""

    name: str = ""


class Event(_Part):
    """A controller's report about an object."""

    reason: str = ""
    message: str = ""
    about: InvolvedObject = Field(default=InvolvedObject(), alias="involvedObject")


T = TypeVar("T", bound=_Part)


def objects(api: KubernetesApi, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> list[T]:
    """The objects of a collection."""
    return [kind.model_validate(item) for item in api.items(path, query)]


def holders(api: KubernetesApi, resources: Collection[str], nodes: Collection[str]) -> list[str]:
    """Pods on these nodes that hold one of the resources, except pods of a run, which the next run deletes."""
    return [
        f"{pod.spec.node}: pod {pod.full_name} holds {held[0]}"
        for pod in objects(api, "/api/v1/pods", Pod)
        if pod.spec.node in nodes and RUN_LABEL not in pod.metadata.labels and (held := pod.held(resources))
    ]

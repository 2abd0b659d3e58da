"""The few fields of Kubernetes objects that the runner reads."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, TypeVar

from pydantic import AliasPath, BaseModel, ConfigDict, Field

from components.jobs.mpijob import RUN_LABEL
from components.kubernetes.client import KubernetesApi


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
    """Why a kubelet refuses it, with the message."""
    message: str = _at("status", "message")
    conditions: tuple[Condition, ...] = _at("status", "conditions", default=())
    statuses: tuple[ContainerStatus, ...] = _at("status", "containerStatuses", default=())

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    def held(self, resources: Collection[str]) -> list[str]:
        """Which of these resources the pod holds; an ended pod holds none."""
        if self.phase in ("Succeeded", "Failed"):
            return []
        return sorted({name for one in self.containers for name in one.limits} & set(resources))


class Event(_Part):
    """A controller's report about an object."""

    about: str = _at("involvedObject", "name")
    reason: str = ""
    message: str = ""


T = TypeVar("T", bound=_Part)


def objects(api: KubernetesApi, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> list[T]:
    """The objects of a collection."""
    return [kind.model_validate(item) for item in api.items(path, query)]


def holders(api: KubernetesApi, resources: Collection[str], nodes: Collection[str]) -> list[str]:
    """Pods on these nodes that hold one of the resources, except pods of a run, which the next run deletes."""
    return [
        f"{pod.node}: pod {pod.full_name} holds {held[0]}"
        for pod in objects(api, "/api/v1/pods", Pod)
        if pod.node in nodes and RUN_LABEL not in pod.labels and (held := pod.held(resources))
    ]

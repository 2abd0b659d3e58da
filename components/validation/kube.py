"""The few verbs of the Kubernetes API that the runner needs, and the few fields of objects that it reads."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from stacks.base import LabError

CALL_S = 15
"""Bound on each request."""
LOG_S = 60


class _Part(BaseModel):
    """A part of an object: what is not named here is left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Meta(_Part):
    """What every object has."""

    name: str
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
    """Conditions of a pod or a job, and a pod's containers."""

    conditions: tuple[Condition, ...] = ()
    containers: tuple[Container, ...] = Field(default=(), alias="containerStatuses")


class PodSpec(_Part):
    """Where a pod lies; empty until it is scheduled."""

    node: str = Field(default="", alias="nodeName")


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


class Event(_Part):
    """What a controller said about an object."""

    reason: str = ""
    message: str = ""


T = TypeVar("T", bound=_Part)


class ApiError(LabError):
    """The server's refusal, or its silence (status 0)."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(f"{text} (HTTP {status})" if status else text)


class Api:
    """An API server, through the official client: it knows every way of logging in that a kubeconfig can name."""

    def __init__(self, kubeconfig: str) -> None:
        # imported here: it takes a second, and labs without a cluster never need it
        from kubernetes.config import ConfigException, new_client_from_config_dict  # noqa: PLC0415

        try:
            self._client = new_client_from_config_dict(yaml.safe_load(kubeconfig))  # type: ignore[no-untyped-call]  # of the client
        except (yaml.YAMLError, ConfigException, TypeError, AttributeError) as error:
            raise LabError(f"the kubeconfig cannot be used: {str(error).splitlines()[0][:120]}") from None

    def items(self, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> list[T]:
        """The objects of a collection."""
        return [kind.model_validate(item) for item in json.loads(self._call("GET", path, query))["items"]]

    def get(self, path: str, kind: type[T]) -> T:
        """One object."""
        return kind.model_validate_json(self._call("GET", path))

    def text(self, path: str, query: Mapping[str, str]) -> str:
        """What stands at a path that is no object, such as a log."""
        return self._call("GET", path, query, timeout_s=LOG_S).decode(errors="replace")

    def create(self, path: str, body: dict[str, JsonValue]) -> None:
        """Creates an object in a collection."""
        self._call("POST", path, body=body)

    def delete(self, path: str) -> None:
        """Deletes an object and what it owns; fine when it is gone already."""
        try:
            self._call("DELETE", path, {"propagationPolicy": "Background"})
        except ApiError as error:
            if error.status != 404:
                raise

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: dict[str, JsonValue] | None = None,
        timeout_s: int = CALL_S,
    ) -> bytes:
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  # comes with the client

        words = self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json, */*", "Content-Type": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            response = self._client.call_api(*words, _request_timeout=timeout_s)
            data = bytes(response.read() or b"")
        except (HTTPError, OSError) as error:
            raise ApiError(0, f"the API server does not answer: {str(error).splitlines()[0][:160]}") from None
        if response.status >= 300:
            raise ApiError(response.status, _words(data) or str(response.reason))
        return data


def _words(data: bytes) -> str:
    """The message of a Status object."""
    try:
        return str(json.loads(data).get("message", ""))[:200]
    except (ValueError, AttributeError):
        return ""

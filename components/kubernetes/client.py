"""The Kubernetes API as plain objects by path, through the official client: it knows every login of
a kubeconfig.
"""

import hashlib
import json
from collections.abc import Mapping
from types import TracebackType
from typing import Self, cast

import yaml
from pydantic import JsonValue

from stacks.base import LabError
from stacks.safe_yaml import load_kubernetes_yaml

CALL_S = 15
"""Bound on one try of a request."""
LOG_S = 60
"""Bound on reading a log."""
STALE = (
    "the kubeconfig is no longer valid, or was rotated: renew the file or secret that "
    "cluster.kubeconfig names"
)
JSON, MERGE = "application/json", "application/merge-patch+json"
MERGE_LISTS = "application/strategic-merge-patch+json"

Object = dict[str, JsonValue]


class ApiError(LabError):
    """The server's refusal, or its silence (status 0)."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        if status:
            text += f" (HTTP {status})"
        if status == 401:
            text += f"; {STALE}"
        super().__init__(text)


class KubernetesApi:
    """Objects of an API server; it raises an `ApiError` when the server refuses, or does not answer
    in time.
    """

    def __init__(self, kubeconfig: str, *, retries: int = 3) -> None:
        # here: it takes a second, and most previews and labs without a cluster never need it
        from kubernetes.config import ConfigException, new_client_from_config_dict  # noqa: PLC0415
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  # comes with the client

        from kubernetes.client import Configuration  # noqa: PLC0415

        settings = Configuration()
        settings.retries = retries
        unusable = (ConfigException, HTTPError, ImportError, TypeError, AttributeError)
        try:
            self._client = new_client_from_config_dict(  # type: ignore[no-untyped-call]
                load_kubernetes_yaml(kubeconfig), client_configuration=settings
            )
        except (yaml.YAMLError, *unusable) as error:
            reason = str(error).splitlines()[0][:120]
            raise LabError(f"the kubeconfig cannot be used: {reason}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def server(self) -> str:
        return str(self._client.configuration.host)

    @property
    def proxied(self) -> bool:
        """Whether the kubeconfig or the environment sets a proxy to the server."""
        from urllib3 import PoolManager  # noqa: PLC0415

        return type(self._client.rest_client.pool_manager) is not PoolManager

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Object | None:
        """One object; None when there is none, or when its kind is not served."""
        try:
            return cast(Object, json.loads(self._call("GET", path, query)))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def items(self, path: str, query: Mapping[str, str] | None = None) -> list[Object]:
        """The objects of a collection; none when their kind is not served."""
        collection = self.get(path, query)
        if collection:
            return cast(list[Object], collection["items"])
        return []

    def text(self, path: str, query: Mapping[str, str]) -> str:
        """The text at a path that is not an object, such as a log."""
        return self._call("GET", path, query, timeout_s=LOG_S).decode(errors="replace")

    def create(self, path: str, body: Object) -> None:
        self._call("POST", path, body=body)

    def merge(self, path: str, body: Object) -> None:
        """Changes fields of an object (RFC 7386)."""
        self._call("PATCH", path, body=body)

    def merge_lists(self, path: str, body: Object) -> None:
        """Changes fields, and entries of lists by their key, such as a condition by its type."""
        self._call("PATCH", path, body=body, content=MERGE_LISTS)

    def delete(self, path: str) -> None:
        """Deletes an object and, in the background, what it owns; fine when it is gone already."""
        try:
            self._call("DELETE", path, {"propagationPolicy": "Background"})
        except ApiError as error:
            if error.status != 404:
                raise

    def close(self) -> None:
        self._client.close()

    def _call(  # noqa: PLR0913  # one request of HTTP
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Object | None = None,
        content: str = MERGE,
        timeout_s: int = CALL_S,
    ) -> bytes:
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  # comes with the client

        words = self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={
                "Accept": "application/json, */*",
                "Content-Type": content if method == "PATCH" else JSON,
            },
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            response = self._client.call_api(*words, _request_timeout=timeout_s)
            data = bytes(response.read() or b"")
        except (HTTPError, OSError) as error:
            reason = str(error).splitlines()[0][:160]
            raise ApiError(0, f"the API server does not answer: {reason}") from None
        if response.status >= 300:
            raise ApiError(response.status, _message(data) or str(response.reason))
        return data


def identity_of(kubeconfig: str) -> str:
    """Which cluster a kubeconfig opens: its servers, and a digest that changes with their
    certificate authority.
    """
    try:
        document = load_kubernetes_yaml(kubeconfig)
    except yaml.YAMLError:
        return "unreadable"
    clusters = None
    if isinstance(document, Mapping):
        clusters = document.get("clusters")
    servers = []
    for cluster in clusters or []:
        servers.append(str(at(cluster, "cluster", "server")))
    digest = hashlib.sha256(json.dumps(clusters, sort_keys=True, default=str).encode()).hexdigest()
    return " ".join([*servers, digest[:12]])


def at(value: JsonValue, *path: str) -> JsonValue:
    """A value inside an object; None as soon as a step is missing."""
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data).get("message", ""))[:200]
    except (ValueError, AttributeError):
        return ""

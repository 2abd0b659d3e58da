"""The few verbs of the Kubernetes API that claim and gate need, on plain objects."""

import json
from collections.abc import Mapping
from typing import cast

import yaml
from pydantic import JsonValue

from components.cluster.manifests import Manifest
from stacks.base import LabError

CALL_S = 15
"""Bound on each request."""


class ApiError(LabError):
    """The server's refusal, or its silence (status 0)."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(f"{text} (HTTP {status})" if status else text)


class Api:
    """An API server, through the official client: it knows every way of logging in that a kubeconfig can name."""

    def __init__(self, kubeconfig: str) -> None:
        # imported here: it takes a second, and most previews never need it
        from kubernetes.config import ConfigException, new_client_from_config_dict  # noqa: PLC0415

        try:
            self._client = new_client_from_config_dict(yaml.safe_load(kubeconfig))  # type: ignore[no-untyped-call]  # of the client
        except (yaml.YAMLError, ConfigException, TypeError, AttributeError) as error:
            raise LabError(f"the kubeconfig cannot be used: {str(error).splitlines()[0][:120]}") from None

    def get(self, path: str) -> Manifest | None:
        """One object; None when there is none, or when its kind is not served."""
        try:
            return self._call("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def items(self, path: str) -> list[Manifest]:
        """The objects of a collection; none when their kind is not served."""
        found = self.get(path)
        return cast(list[Manifest], found["items"]) if found else []

    def create(self, path: str, body: Manifest) -> None:
        """Creates an object in a collection."""
        self._call("POST", path, body)

    def merge(self, path: str, body: Manifest) -> None:
        """Changes fields of an object (RFC 7386)."""
        self._call("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path: str) -> None:
        """Deletes an object; fine when it is gone already."""
        try:
            self._call("DELETE", path)
        except ApiError as error:
            if error.status != 404:
                raise

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _call(self, method: str, path: str, body: Manifest | None = None, kind: str = "application/json") -> Manifest:
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  # comes with the client

        words = self._client.param_serialize(
            method,
            path,
            header_params={"Accept": "application/json", "Content-Type": kind},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            response = self._client.call_api(*words, _request_timeout=CALL_S)
            data = bytes(response.read() or b"")
        except (HTTPError, OSError) as error:
            raise ApiError(0, f"the API server does not answer: {str(error).splitlines()[0][:160]}") from None
        if response.status >= 300:
            raise ApiError(response.status, _words(data) or str(response.reason))
        return cast(Manifest, json.loads(data or b"{}"))


def at(value: JsonValue, *path: str) -> JsonValue:
    """A value inside an object; None as soon as a step is missing."""
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _words(data: bytes) -> str:
    """The message of a Status object."""
    try:
        return str(json.loads(data).get("message", ""))[:200]
    except (ValueError, AttributeError):
        return ""

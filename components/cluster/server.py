"""One request to an API server at a time, bounded, with its refusal as an error that says what it said."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import yaml
from pydantic import JsonValue

from stacks.base import LabError

CALL_S = 15
"""Bound on a request."""


class ApiError(LabError):
    """The server's refusal, or its silence (status 0)."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(f"{text} (HTTP {status})" if status else text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is asked; `kind` is the body's media type."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: Mapping[str, JsonValue] | None = None
    kind: str = "application/json"
    timeout_s: int = CALL_S


class Server:
    """An API server, through the official client: it knows every way of logging in that a kubeconfig can name."""

    def __init__(self, kubeconfig: str) -> None:
        # imported here: it takes a second, and most previews and labs without a cluster never need it
        from kubernetes.config import ConfigException, new_client_from_config_dict  # noqa: PLC0415

        try:
            self._client = new_client_from_config_dict(yaml.safe_load(kubeconfig))  # type: ignore[no-untyped-call]  # of the client
        except (yaml.YAMLError, ConfigException, TypeError, AttributeError) as error:
            raise LabError(f"the kubeconfig cannot be used: {str(error).splitlines()[0][:120]}") from None

    def call(self, request: Request) -> bytes:
        """Sends a request; the body of the answer.

        Raises:
            ApiError: when the server refuses, or does not answer in time.
        """
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  # comes with the client

        words = self._client.param_serialize(
            request.method,
            request.path,
            query_params=list((request.query or {}).items()),
            header_params={"Accept": "application/json, */*", "Content-Type": request.kind},
            body=request.body,
            auth_settings=["BearerToken"],
        )
        try:
            response = self._client.call_api(*words, _request_timeout=request.timeout_s)
            data = bytes(response.read() or b"")
        except (HTTPError, OSError) as error:
            raise ApiError(0, f"the API server does not answer: {str(error).splitlines()[0][:160]}") from None
        if response.status >= 300:
            raise ApiError(response.status, _words(data) or str(response.reason))
        return data

    def delete(self, path: str, query: Mapping[str, str] | None = None) -> None:
        """Deletes an object; fine when it is gone already."""
        try:
            self.call(Request(method="DELETE", path=path, query=query))
        except ApiError as error:
            if error.status != 404:
                raise

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()


def _words(data: bytes) -> str:
    """The message of a Status object."""
    try:
        return str(json.loads(data).get("message", ""))[:200]
    except (ValueError, AttributeError):
        return ""

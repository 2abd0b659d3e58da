"""The few verbs of the Kubernetes API that the simulator needs, with nothing but the standard library.

The official client takes a second to import, which is half of a warm `sim up`, and would stay in the memory of the MPI
operator's keeper.
"""

import json
import ssl
from collections.abc import Iterator, Mapping
from http.client import HTTPException, HTTPSConnection, RemoteDisconnected
from typing import Any, Self

from simulator.plane.layout import Layout

Object = dict[str, Any]
"""A Kubernetes object as JSON, not validated here."""

FIELD_MANAGER = "rocelab-simulator"

ENDED = (RemoteDisconnected, BrokenPipeError, ConnectionResetError, ssl.SSLEOFError)
"""Errors of a connection that the server has closed."""


class ApiError(Exception):
    """The server's refusal, with HTTP status and message."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(f"{status}: {message}")


class Api:
    """A client of the API server with one of the cluster's identities. Not thread-safe."""

    def __init__(
        self, layout: Layout, client: str = "admin", *, port: int | None = None, timeout_s: float = 15
    ) -> None:
        self._address = (layout.address, port or layout.api_port)
        self._tls = ssl.create_default_context(cafile=layout.pki("ca.crt"))
        self._tls.load_cert_chain(layout.pki(f"{client}.crt"), layout.pki(f"{client}.key"))
        self._timeout_s = timeout_s
        self._connection: HTTPSConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; the next verb opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str) -> Object | None:
        """The object at a path, or None."""
        try:
            return self._json("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def text(self, path: str) -> str:
        """The content of a path that is not an object, such as a log."""
        return self._request("GET", path).decode()

    def items(self, path: str) -> list[Object]:
        """The objects of a collection."""
        found: list[Object] = self._json("GET", path)["items"]
        return found

    def apply(self, path: str, manifest: Object | str, *, dry_run: bool = False) -> Object:
        """Server-side apply. Text is sent unchanged, so that upstream's YAML need not be parsed."""
        body = manifest if isinstance(manifest, str) else json.dumps(manifest)
        query = f"{path}?fieldManager={FIELD_MANAGER}&force=true{'&dryRun=All' if dry_run else ''}"
        return self._json("PATCH", query, body, "application/apply-patch+yaml")

    def merge(self, path: str, patch: Object) -> Object:
        """JSON merge patch: a null takes a key away."""
        return self._json("PATCH", path, json.dumps(patch), "application/merge-patch+json")

    def create(self, path: str, manifest: Object) -> Object:
        """Creates an object in a collection."""
        return self._json("POST", path, json.dumps(manifest), "application/json")

    def delete(self, path: str) -> None:
        """Deletes an object; none there is as well."""
        try:
            self._request("DELETE", path)
        except ApiError as error:
            if error.status != 404:
                raise

    def answers(self, path: str) -> bool:
        """Whether a health endpoint says that all is well."""
        try:
            self._request("GET", path)
        except (ApiError, OSError, HTTPException):
            return False
        return True

    def watch(self, path: str, query: Mapping[str, str], timeout_s: int = 300) -> Iterator[Object]:
        """Events of a collection until the server ends the stream, which it does after `timeout_s`."""
        connection = HTTPSConnection(*self._address, timeout=timeout_s + 30, context=self._tls)
        options = "&".join(f"{key}={value}" for key, value in query.items())
        try:
            connection.request("GET", f"{path}?watch=true&timeoutSeconds={timeout_s}&{options}")
            answer = connection.getresponse()
            if answer.status != 200:
                raise ApiError(answer.status, answer.read().decode(errors="replace")[:500])
            for line in answer:
                yield json.loads(line)
        finally:
            connection.close()

    def _json(self, method: str, path: str, body: str | None = None, content_type: str = "") -> Object:
        found: Object = json.loads(self._request(method, path, body, content_type))
        return found

    def _request(self, method: str, path: str, body: str | None = None, content_type: str = "") -> bytes:
        """Sends a request over the open connection, and again over a new one if the server has closed it."""
        kept = self._connection is not None
        try:
            return self._exchange(method, path, body, content_type)
        except ENDED:
            if not kept or method == "POST":  # the object may have been created before the connection ended
                raise
            return self._exchange(method, path, body, content_type)

    def _exchange(self, method: str, path: str, body: str | None, content_type: str) -> bytes:
        """One request and its answer; any failure drops the connection."""
        if self._connection is None:
            self._connection = HTTPSConnection(*self._address, timeout=self._timeout_s, context=self._tls)
        try:
            headers = {"Content-Type": content_type} if content_type else {}
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException):
            self.close()
            raise
        if answer.status >= 400:
            raise ApiError(answer.status, _message(content))
        return content


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace")[:500]

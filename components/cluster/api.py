"""The few verbs of the Kubernetes API that claim and gate need, on plain objects."""

import json
from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from components.cluster.manifests import Manifest
from components.cluster.server import ApiError, Request, Server

MERGE = "application/merge-patch+json"


class Api:
    """Objects of an API server."""

    def __init__(self, kubeconfig: str) -> None:
        self._server = Server(kubeconfig)

    def get(self, path: str) -> Manifest | None:
        """One object; None when there is none, or when its kind is not served."""
        try:
            found = self._server.call(Request(method="GET", path=path))
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return cast(Manifest, json.loads(found))

    def items(self, path: str) -> list[Manifest]:
        """The objects of a collection; none when their kind is not served."""
        found = self.get(path)
        return cast(list[Manifest], found["items"]) if found else []

    def create(self, path: str, body: Manifest) -> None:
        """Creates an object in a collection."""
        self._server.call(Request(method="POST", path=path, body=body))

    def merge(self, path: str, body: Manifest) -> None:
        """Changes fields of an object (RFC 7386)."""
        self._server.call(Request(method="PATCH", path=path, body=body, kind=MERGE))

    def delete(self, path: str) -> None:
        """Deletes an object; fine when it is gone already."""
        self._server.delete(path)

    def close(self) -> None:
        """Closes the connections."""
        self._server.close()


def at(value: JsonValue, *path: str) -> JsonValue:
    """A value inside an object; None as soon as a step is missing."""
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value

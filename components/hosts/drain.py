"""Taking a node out of the cluster before its reboot, and giving it back."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import yaml

if TYPE_CHECKING:
    from kubernetes.client import V1Pod

DRAIN_S = 300
"""Bound on one drain; a pod that does not go by then stops the roll."""
REQUEST_S = 30


class DrainError(Exception):
    """A node whose pods do not go; the text names them."""


class Drainer(Protocol):
    """What a roll needs of a cluster."""

    def cordon(self, node: str) -> bool:
        """Closes a node for new pods; whether it was open before."""

    def empty(self, node: str) -> None:
        """Evicts its pods and waits until they are gone."""

    def uncordon(self, node: str) -> None:
        """Opens it again."""


class Cluster:
    """The cluster behind a kubeconfig. Its client is imported when first used: most runs never do."""

    def __init__(self, kubeconfig: str, pause: Callable[[float], None] = time.sleep) -> None:
        from kubernetes import client, config  # noqa: PLC0415  # half a second that only a reboot pays

        self._client = client
        self._api = client.CoreV1Api(config.new_client_from_config_dict(yaml.safe_load(kubeconfig)))  # type: ignore[no-untyped-call]  # the client has no types there
        self._pause = pause

    def cordon(self, node: str) -> bool:
        """Closes a node for new pods; whether it was open before.

        Raises:
            DrainError: when the API does not answer, or refuses.
        """
        with self._asked():
            found = self._api.read_node(node, _request_timeout=REQUEST_S)
            self._api.patch_node(node, {"spec": {"unschedulable": True}}, _request_timeout=REQUEST_S)
        return not (found.spec and found.spec.unschedulable)

    def empty(self, node: str) -> None:
        """Evicts its pods and waits until they are gone. Pods of DaemonSets and static pods stay.

        Raises:
            DrainError: when pods are left after the time.
        """
        deadline = time.monotonic() + DRAIN_S
        while pods := self._pods(node):
            if time.monotonic() > deadline:
                names = ", ".join(sorted(f"{namespace}/{name}" for namespace, name in pods))
                raise DrainError(f"{node} still runs {names[:300]} after {DRAIN_S} s")
            for namespace, name in pods:
                self._evict(namespace, name)
            self._pause(1)

    def uncordon(self, node: str) -> None:
        """Opens it again.

        Raises:
            DrainError: when the API does not answer, or refuses.
        """
        with self._asked():
            self._api.patch_node(node, {"spec": {"unschedulable": None}}, _request_timeout=REQUEST_S)

    def knows(self, node: str) -> bool:
        """Whether there is such a node.

        Raises:
            DrainError: when the API does not answer.
        """
        return self._told(lambda: self._api.read_node(node, _request_timeout=REQUEST_S))

    def forget(self, node: str) -> None:
        """Deletes the node object; fine when it is gone.

        Raises:
            DrainError: when the API does not answer, or refuses.
        """
        self._told(lambda: self._api.delete_node(node, _request_timeout=REQUEST_S))

    def _told(self, ask: Callable[[], object]) -> bool:
        """Whether what was asked about is there."""
        with self._asked():
            try:
                ask()
            except self._client.ApiException as error:
                if error.status == 404:
                    return False
                raise
        return True

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Requests whose failure is a reason, not a traceback."""
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  # comes with the client

        try:
            yield
        except self._client.ApiException as error:
            raise DrainError(f"the Kubernetes API says: {error.reason}") from None
        except HTTPError as error:
            raise DrainError(f"the Kubernetes API does not answer: {str(error)[:160]}") from None

    def _pods(self, node: str) -> list[tuple[str, str]]:
        with self._asked():
            listed = self._api.list_pod_for_all_namespaces(
                field_selector=f"spec.nodeName={node}", _request_timeout=REQUEST_S
            )
        metas = [pod.metadata for pod in listed.items if has_to_go(pod)]
        return [(str(meta.namespace), str(meta.name)) for meta in metas if meta]

    def _evict(self, namespace: str, pod: str) -> None:
        body = self._client.V1Eviction(metadata=self._client.V1ObjectMeta(name=pod, namespace=namespace))
        try:
            self._api.create_namespaced_pod_eviction(pod, namespace, body, _request_timeout=REQUEST_S)
        except self._client.ApiException as error:
            if error.status not in (404, 429):  # gone already, or a disruption budget says: later
                raise DrainError(f"{namespace}/{pod} cannot be evicted: {error.reason}") from None


def has_to_go(pod: "V1Pod") -> bool:
    """Whether a drain evicts a pod."""
    owners = (pod.metadata and pod.metadata.owner_references) or []
    annotations = (pod.metadata and pod.metadata.annotations) or {}
    ended = pod.status is not None and pod.status.phase in ("Succeeded", "Failed")
    static = "kubernetes.io/config.mirror" in annotations
    return not (ended or static or any(owner.kind == "DaemonSet" for owner in owners))

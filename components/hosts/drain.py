"""Drains a node before its reboot, and uncordons it afterwards."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from components.kubernetes.client import ApiError, KubernetesApi, Object, at

CORDONED = "rocelab.dev/cordoned"
"""Annotation of a node that rocelab has cordoned: a killed or failed run leaves it for the next."""
DRAIN_S = 300
"""Limit of one drain; a pod that stays longer stops the roll."""


class DrainError(Exception):
    """Pods that cannot be evicted, by name, or an API server that refuses or does not answer."""


class NodeDrainer:
    """Cordons, drains and deletes the nodes of the cluster behind a kubeconfig."""

    def __init__(self, kubeconfig: str, pause: Callable[[float], None] = time.sleep) -> None:
        self._api = KubernetesApi(kubeconfig)
        self._pause = pause

    def cordon(self, node: str) -> bool:
        """Cordons a node; returns whether rocelab may uncordon it: nobody else cordoned it."""
        with _reasons():
            before = self._api.get(_path(node))
            if at(before, "spec", "unschedulable"):
                return at(before, "metadata", "annotations", CORDONED) is not None
            self._set(node, unschedulable=True, mark="true")
        return True

    def empty(self, node: str) -> None:
        """Evicts its pods, but those of DaemonSets and static ones, and waits for their end."""
        deadline = time.monotonic() + DRAIN_S
        while pods := self._pods(node):
            if time.monotonic() > deadline:
                names = ", ".join(sorted(f"{namespace}/{name}" for namespace, name in pods))
                raise DrainError(f"{node} still runs {names[:300]} after {DRAIN_S} s")
            for namespace, name in pods:
                self._evict(namespace, name)
            self._pause(1)

    def uncordon(self, node: str) -> None:
        """Makes the node schedulable again."""
        with _reasons():
            self._set(node, unschedulable=None, mark=None)

    def reopen(self, node: str) -> None:
        """Uncordons the node if rocelab has cordoned it."""
        with _reasons():
            before = self._api.get(_path(node))
        if at(before, "metadata", "annotations", CORDONED) is not None:
            self.uncordon(node)

    def knows(self, node: str) -> bool:
        """Whether there is such a node."""
        with _reasons():
            return self._api.get(_path(node)) is not None

    def forget(self, node: str) -> None:
        """Deletes the node object; fine when it is gone."""
        with _reasons():
            self._api.delete(_path(node))

    def _set(self, node: str, *, unschedulable: bool | None, mark: str | None) -> None:
        """Sets cordon and annotation in one request, so that a kill cannot separate the two; None
        removes them.
        """
        annotations: Object = {CORDONED: mark}
        spec: Object = {"unschedulable": unschedulable}
        self._api.merge(_path(node), {"metadata": {"annotations": annotations}, "spec": spec})

    def _pods(self, node: str) -> list[tuple[str, str]]:
        with _reasons():
            pods = self._api.items("/api/v1/pods", {"fieldSelector": f"spec.nodeName={node}"})
        names = []
        for pod in filter(has_to_go, pods):
            names.append((str(at(pod, "metadata", "namespace")), str(at(pod, "metadata", "name"))))
        return names

    def _evict(self, namespace: str, pod: str) -> None:
        body: Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
        }
        try:
            self._api.create(f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", body)
        except ApiError as error:
            if error.status not in (404, 429):  # already deleted, or a disruption budget delays it
                raise DrainError(f"{namespace}/{pod} cannot be evicted: {error}") from None


def has_to_go(pod: Object) -> bool:
    """Whether a drain evicts a pod."""
    owners = at(pod, "metadata", "ownerReferences")
    of_daemon_set = isinstance(owners, list) and any(
        at(owner, "kind") == "DaemonSet" for owner in owners
    )
    ended = at(pod, "status", "phase") in ("Succeeded", "Failed")
    static = at(pod, "metadata", "annotations", "kubernetes.io/config.mirror") is not None
    return not (ended or static or of_daemon_set)


@contextmanager
def _reasons() -> Iterator[None]:
    """Turns failed requests into a `DrainError`."""
    try:
        yield
    except ApiError as error:
        refusal = "the Kubernetes API refused: " if error.status else ""
        raise DrainError(f"{refusal}{error}") from None


def _path(node: str) -> str:
    return f"/api/v1/nodes/{node}"

"""Finds what happened to nodes and pods while the cluster's processes were suspended or the machine slept. Pure.

If a node's heartbeat is late, the node lifecycle controller marks the node and its pods as not ready. On hardware the
kubelet corrects its pods as soon as it reaches the API server. kwok acts on pods that a `Stage` selects, and none of
upstream's selects a running pod that is not ready, so we add one.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from simulator.plane.api import Object

HEARTBEATS = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LOST_NODES = "/api/v1/namespaces/default/events?fieldSelector=reason%3DNodeNotReady"
RUNNING_PODS = "/api/v1/pods?fieldSelector=status.phase%3DRunning"

READY_AGAIN: Object = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "Stage",
    "metadata": {"name": "pod-ready-again"},
    "spec": {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {
            "matchExpressions": [
                {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
                {"key": ".status.phase", "operator": "In", "values": ["Running"]},
                # the controller changes only `Ready`; a pod whose containers are not ready is rightly not ready
                {
                    "key": '.status.conditions.[] | select( .type == "ContainersReady" ) | .status',
                    "operator": "In",
                    "values": ["True"],
                },
                {
                    "key": '.status.conditions.[] | select( .type == "Ready" ) | .status',
                    "operator": "NotIn",
                    "values": ["True"],
                },
            ]
        },
        "next": {
            "statusTemplate": (
                'conditions:\n- lastTransitionTime: {{ Now | Quote }}\n  status: "True"\n  type: Ready\n'
            )
        },
    },
}
"""Makes kwok do what a kubelet does: set pods with ready containers to ready again."""


def lost_nodes(events: Iterable[Object], since: datetime) -> dict[str, datetime]:
    """When each node was last marked as not ready, if after `since`."""
    times = {
        event["involvedObject"]["name"]: _time(event["lastTimestamp"]) for event in events if event.get("lastTimestamp")
    }
    return {name: time for name, time in sorted(times.items()) if time > since}


def unready_pods(pods: Iterable[Object]) -> Iterator[str]:
    """Pods that are not ready, although their containers are."""
    for pod in pods:
        metadata = pod["metadata"]
        conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions") or []}
        ready = conditions.get("Ready") == "True" or conditions.get("ContainersReady") != "True"
        if not ready and "deletionTimestamp" not in metadata:
            yield f"{metadata['namespace']}/{metadata['name']}"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)

"""The gate where schedulers read it: one file per node, and conditions and taints of Kubernetes."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

from components.gate.decision import GatedNode, LabGate
from components.kubernetes.client import ApiError, KubernetesApi, Object, at
from stacks.base import LabError
from stacks.files import write_file

CONDITION = "RocelabGate"
TAINT = "rocelab.dev/gate"
STATUS = {"open": "True", "closed": "False", "unknown": "Unknown"}
REASON = {"open": "Open", "closed": "Closed", "unknown": "NotRead"}
LONGEST_MESSAGE = 1024
CONFLICT, TRIES = 409, 5
"""Kubelets write to nodes too."""


def write_results(gate: LabGate, folder: Path) -> None:
    """One line per node, in a file of its name: state, time, reasons."""
    folder.mkdir(parents=True, exist_ok=True)
    for node in gate.nodes:
        line = f"{node.state} {gate.read_at:%Y-%m-%dT%H:%M:%SZ} {node.line or gate.verdict}\n"
        write_file(folder / node.name, line)


def publish(
    api: KubernetesApi, gate: LabGate, kube_names: Mapping[str, str], *, taint: bool
) -> None:
    """Sets the condition of each node, and its taint if asked.

    No pod is evicted: the taint keeps new ones away. An unknown gate leaves the taint as it is.

    Raises:
        LabError: when the cluster has no such node, or refuses.
    """
    for node in gate.nodes:
        path = f"/api/v1/nodes/{kube_names.get(node.name, node.name)}"
        for tries_left in reversed(range(TRIES)):
            try:
                kube_node = _with_taints(api, path, node, taint=taint)
                break
            except ApiError as error:
                if error.status != CONFLICT or not tries_left:
                    raise
        news = condition(node, kube_node, gate.read_at, gate.verdict)
        api.merge_lists(f"{path}/status", {"status": {"conditions": [news]}})


def _with_taints(api: KubernetesApi, path: str, node: GatedNode, *, taint: bool) -> Object:
    kube_node = api.get(path)
    if kube_node is None:
        raise LabError(f"{node.name}: the cluster has no such node, so its gate is not published")
    taints = tainted(node, kube_node, taint=taint)
    if taints is not None:
        # the server refuses the list if another client has changed the node meanwhile
        version = at(kube_node, "metadata", "resourceVersion")
        api.merge(path, {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}})
    return kube_node


def condition(
    node: GatedNode, kube_node: JsonValue, read_at: datetime, verdict: str
) -> dict[str, JsonValue]:
    """The condition; its transition is the time when its status changed last."""
    status, now = STATUS[node.state], f"{read_at:%Y-%m-%dT%H:%M:%SZ}"
    since: JsonValue = now
    conditions = at(kube_node, "status", "conditions")
    for known in conditions if isinstance(conditions, list) else ():
        if at(known, "type") == CONDITION and at(known, "status") == status:
            since = at(known, "lastTransitionTime")
    return {
        "type": CONDITION,
        "status": status,
        "reason": REASON[node.state],
        "message": (node.line or verdict)[:LONGEST_MESSAGE],
        "lastHeartbeatTime": now,
        "lastTransitionTime": since,
    }


def tainted(node: GatedNode, kube_node: JsonValue, *, taint: bool) -> list[JsonValue] | None:
    """The node's taints as they should be; None if they are."""
    if taint and node.state == "unknown":
        return None
    present = at(kube_node, "spec", "taints")
    before = present if isinstance(present, list) else []
    after = [known for known in before if at(known, "key") != TAINT]
    if taint and node.state == "closed":
        after.append({"key": TAINT, "value": "closed", "effect": "NoSchedule"})
    return after if after != before else None

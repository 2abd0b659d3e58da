"""What the simulator creates in its cluster: fake kubelets, their rules, the lab's nodes, the replayed logs."""

from collections.abc import Callable
from datetime import datetime
from http.client import HTTPException
from pathlib import Path

import yaml

from simulator.part import Report, SimulatorError, Wait
from simulator.plane import health, nodes, recordings
from simulator.plane.api import Api, ApiError, Object
from simulator.plane.layout import Layout
from simulator.plane.upstream import files_of
from stacks.lab import Lab

KWOK = "sigs.k8s.io/kwok"
RBAC = "rbac.authorization.k8s.io"
KWOK_USER, DNS_USER = "rocelab:kwok", "rocelab:dns"
CRDS = ("stages", "logs", "clusterlogs")
STAGES = (
    "node/fast/node-initialize",
    "node/heartbeat/node-heartbeat",
    "pod/fast/pod-ready",
    "pod/fast/pod-delete",
    "pod/general/pod-complete",
    # a pod with the label pod-container-running-failed.stage.kwok.x-k8s.io=true fails: for fault tests
    "pod/chaos/pod-container-running-failed",
)
STAGE_PATH = "/apis/kwok.x-k8s.io/v1alpha1/stages"
ROLE = "kustomize/rbac/role.yaml"
JOB_TAKES_MS = 1500
"""Run time of a Job's pod: long enough for the MPI operator to see launcher and workers run together."""
POLL_S = 0.1


def upstream_files(build: Path) -> dict[str, Path]:
    """Manifests of kwok itself, from the release that its binary is built from."""
    crds = [f"kustomize/crd/bases/kwok.x-k8s.io_{name}.yaml" for name in CRDS]
    return files_of(KWOK, build, [*crds, *(f"kustomize/stage/{name}.yaml" for name in STAGES), ROLE])


def install_kwok(api: Api, upstream: dict[str, Path], report: Report) -> None:
    """Applies kwok's resource types, rights and rules."""
    for name in CRDS:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}.kwok.x-k8s.io"
        api.apply(path, upstream[f"kustomize/crd/bases/kwok.x-k8s.io_{name}.yaml"].read_text())
    api.apply(f"/apis/{RBAC}/v1/clusterroles/kwok-controller", upstream[ROLE].read_text())
    api.apply(f"/apis/{RBAC}/v1/clusterrolebindings/{KWOK_USER}", _binding(KWOK_USER, "kwok-controller"))
    wait_until(lambda: all(established(api, name) for name in CRDS), 30, "kwok's resource types", report)
    for stage in STAGES:
        text = upstream[f"kustomize/stage/{stage}.yaml"].read_text()
        name = stage.rpartition("/")[2]
        manifest = steady_completion(text) if name == "pod-complete" else text
        api.apply(f"{STAGE_PATH}/{name}", manifest)
    api.apply(f"{STAGE_PATH}/{health.READY_AGAIN['metadata']['name']}", health.READY_AGAIN)


def steady_completion(text: str) -> Object:
    """Upstream's rule for pods of Jobs, with a fixed instead of a random time to completion."""
    stage: Object = yaml.safe_load(text)
    delay = stage["spec"]["delay"]
    delay["durationMilliseconds"] = JOB_TAKES_MS
    delay.pop("jitterDurationMilliseconds", None)
    delay.pop("jitterDurationFrom", None)
    return stage


def show_recording(api: Api, lab: Lab, folder: Path, recording: str) -> None:
    """Makes launchers of the benchmark namespace show one of the recordings."""
    if recording not in recordings.names():
        raise SimulatorError(f"no recording {recording}; existing recordings: {', '.join(recordings.names())}")
    path = f"/apis/kwok.x-k8s.io/v1alpha1/clusterlogs/{recordings.CLUSTER_LOGS}"
    api.apply(path, recordings.cluster_logs(lab, folder, recording))


def place_nodes(api: Api, lab: Lab, layout: Layout, report: Report) -> None:
    """Adds, changes and removes nodes so that the cluster has those of the lab file, and reports each change."""
    active = {node.name: node for node in lab.active_nodes}
    present = {node["metadata"]["name"]: node for node in api.items(f"/api/v1/nodes?labelSelector={nodes.SIMULATED}")}
    for name in sorted(present.keys() - active.keys()):
        api.delete(f"/api/v1/nodes/{name}")
        report(f"removed node {name}, which is no longer active in the lab file")
    # kwok cannot take over what a kubelet reported, such as a machine ID of digits alone
    other = "kwok" if lab.has_real_pods else "kubelet"
    for name in sorted(name for name in active.keys() & present.keys() if nodes.reporter(present[name]) == other):
        api.delete(f"/api/v1/nodes/{name}")
        del present[name]
        report(f"made node {name} again, whose status came from {other}")
    for name, node in active.items():
        current = api.apply(f"/api/v1/nodes/{name}", nodes.node_object(lab, node))
        if patch := nodes.node_status(lab, node, layout, current.get("status", {})):
            api.merge(f"/api/v1/nodes/{name}/status", patch)
            if name in present and not lab.has_real_pods:
                report(f"node {name} now offers {_named(nodes.resources(lab, node))}")


def look_back(api: Api, since: datetime, report: Report) -> None:
    """Reports what happened to nodes and pods since a time and will be repaired."""
    for name, time in health.lost_nodes(api.items(health.LOST_NODES), since).items():
        report(f"node {name} counted as lost at {time.astimezone():%H:%M:%S}: the cluster was suspended or asleep")
    if pods := list(health.unready_pods(api.items(health.RUNNING_PODS))):
        report(f"not ready since then: {', '.join(pods)}")


def free_nodes(api: Api, lab: Lab) -> None:
    """Deletes the heartbeats of an earlier kwok, which a new one would only take over after 40 s."""
    for node in lab.active_nodes:
        api.delete(f"{health.HEARTBEATS}/{node.name}")


def wait_for_pods(api: Api, timeout_s: float, report: Report) -> None:
    """Waits until every pod with ready containers is ready."""
    wait_until(
        lambda: not any(health.unready_pods(api.items(health.RUNNING_PODS))), timeout_s, "readiness of the pods", report
    )


def nodes_are_ready(api: Api, lab: Lab, layout: Layout) -> bool:
    """Whether every node of the lab is ready, untainted, and has the resources of the lab file."""
    found = {node["metadata"]["name"]: node for node in api.items("/api/v1/nodes")}
    for node in lab.active_nodes:
        if node.name not in found or not nodes.is_usable(found[node.name]):
            return False
        # kwok sets its own status if it sees a node before our first patch, so patch it again
        if patch := nodes.node_status(lab, node, layout, found[node.name].get("status", {})):
            api.merge(f"/api/v1/nodes/{node.name}/status", patch)
            return False
    return True


def controllers_work(api: Api) -> bool:
    """Whether the controller manager works: pods need the service account that it creates."""
    return api.get("/api/v1/namespaces/default/serviceaccounts/default") is not None


def wait_until(settled: Callable[[], bool], timeout_s: float, what: str, report: Report) -> None:
    """Waits for a state of the cluster.

    Raises:
        SimulatorError: when time is up.
    """
    wait = Wait(what, timeout_s, report, POLL_S)
    while True:
        try:
            if settled():
                return
        except (ApiError, OSError, HTTPException) as error:
            last = f" (last answer: {error})"
        else:
            last = ""
        if not wait.continues(last):
            raise SimulatorError(f"no {what} after {timeout_s:.0f} s{last}; see sim status and sim logs")


def established(api: Api, name: str) -> bool:
    """Whether one of kwok's resource types is served."""
    found = api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}.kwok.x-k8s.io") or {}
    conditions = found.get("status", {}).get("conditions") or []  # null for a moment after it was created
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def let_names_be_looked_up(api: Api) -> None:
    """Gives the DNS of real pods its rights."""
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": DNS_USER},
        "rules": [
            {"apiGroups": [""], "resources": ["services"], "verbs": ["get"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]},
        ],
    }
    api.apply(f"/apis/{RBAC}/v1/clusterroles/{DNS_USER}", role)
    api.apply(f"/apis/{RBAC}/v1/clusterrolebindings/{DNS_USER}", _binding(DNS_USER, DNS_USER))


def _binding(user: str, role: str) -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }


def _named(offered: dict[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in offered.items() if "/" in name)

"""What a roll-out that takes long says."""

import socketserver
import threading
from typing import Any

import pytest
import yaml

from components.cluster import roll_out
from components.cluster.manifests import path_of
from components.cluster.profiles import programs
from components.cluster.roll_out import report, shortfall
from components.kubernetes.client import ApiError, KubernetesApi
from stacks.cluster import Cluster
from stacks.lab import Lab

MULTUS = "/apis/apps/v1/namespaces/kube-system/daemonsets/multus"


def daemon_set(**status: int) -> dict[str, Any]:
    full = {"observedGeneration": 2, "desiredNumberScheduled": 2, "numberAvailable": 2, "updatedNumberScheduled": 2}
    metadata = {"namespace": "kube-system", "name": "multus", "generation": 2}
    return {"kind": "DaemonSet", "metadata": metadata, "status": {**full, **status}}


def deployment(**status: int) -> dict[str, Any]:
    full = {"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1}
    return {"kind": "Deployment", "metadata": {"generation": 1}, "spec": {"replicas": 1}, "status": {**full, **status}}


@pytest.mark.parametrize(
    ("found", "lack"),
    [
        (daemon_set(), ""),
        (daemon_set(numberAvailable=1), "1 of 2 ready"),
        (daemon_set(updatedNumberScheduled=0), "0 of 2 ready"),
        (daemon_set(desiredNumberScheduled=0), ""),
        (daemon_set(observedGeneration=1), "the controller manager has not seen it yet"),
        (deployment(), ""),
        (deployment(availableReplicas=0), "0 of 1 ready"),
        (deployment(updatedReplicas=0), "0 of 1 ready"),
        ({"kind": "Deployment", "metadata": {"generation": 1}}, "the controller manager has not seen it yet"),
    ],
)
def test_a_roll_out_is_complete_when_every_pod_is_current_and_available(found: Any, lack: str) -> None:
    assert shortfall(found) == lack


class Api:
    """Answers each look with the next object; the last look ends the roll-out."""

    def __init__(self, pending: set[str], *answers: Any) -> None:
        self.pending, self.answers = pending, list(answers)

    def __call__(self, _kubeconfig: str, *, retries: int) -> "Api":
        assert retries == 0
        return self

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def get(self, path: str) -> Any:
        assert path == MULTUS
        answer = self.answers.pop(0)
        if not self.answers:
            self.pending.clear()
        if isinstance(answer, Exception):
            raise answer
        return answer


def said(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> list[str]:
    pending, lines = {MULTUS}, []
    monkeypatch.setattr(roll_out, "ANNOUNCE_S", 0.001)
    monkeypatch.setattr(roll_out, "KubernetesApi", Api(pending, *answers))
    report("", pending, lines.append)
    return [line.partition(": ")[2] for line in lines]


def test_a_wait_names_the_pods_that_are_missing_until_the_engine_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = said(monkeypatch, None, daemon_set(numberAvailable=0), daemon_set(numberAvailable=1), daemon_set())

    assert lines == [f"DaemonSet kube-system/multus: {ready} of 2 ready" for ready in (0, 1)]


def test_a_wait_for_a_silent_api_server_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = ApiError(0, "the API server does not answer")
    assert said(monkeypatch, silent) == [str(silent)]


class HangingUp(socketserver.BaseRequestHandler):
    """Closes each connection without an answer."""

    calls = 0

    def handle(self) -> None:
        HangingUp.calls += 1


def test_a_look_at_an_api_server_that_does_not_answer_is_tried_once() -> None:
    """With the client's usual retries, a server that hangs would make the log silent for a minute and a half."""
    with socketserver.TCPServer(("127.0.0.1", 0), HangingUp) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        config = {
            "current-context": "lab",
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
            "clusters": [{"name": "lab", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}],
            "users": [{"name": "lab", "user": {}}],
        }
        try:
            with KubernetesApi(yaml.safe_dump(config), retries=0) as api, pytest.raises(ApiError, match="not answer"):
                api.get(MULTUS)
        finally:
            server.shutdown()
            thread.join()

    assert HangingUp.calls == 1


def test_the_objects_are_looked_for_where_they_are_placed(lab: Lab, cluster: Cluster) -> None:
    placed = programs(lab, cluster)
    manifests = [*placed["multus"].runs.values(), *placed["mpi-operator"].runs.values()]

    assert [path_of(manifest) for manifest in manifests] == [
        "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-multus-ds",
        "/apis/apps/v1/namespaces/mpi-operator/deployments/mpi-operator",
    ]

"""A control plane that really runs, on an address of its own, and what the tests ask of it."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from simulator.plane.api import Api, ApiError, Object
from simulator.plane.layout import Layout
from simulator.plane.part import ControlPlane
from simulator.plane.upstream import ENGINE, files_of
from simulator.process import Daemon
from stacks.lab import Lab

ROOT = Path(__file__).parents[3]
BINARIES = ROOT / ".engine" / "bin"
# of this run alone, so that tests of two checkouts do not meet
ADDRESS = f"127.77.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
BENCH = "rocelab-bench"
OPERATOR_PORT = 10290
MPIJOBS = f"/apis/kubeflow.org/v2beta1/namespaces/{BENCH}/mpijobs"
MANIFEST = "deploy/v2beta1/mpi-operator.yaml"
PLURALS = {
    "Namespace": "/api/v1/namespaces",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ServiceAccount": "/api/v1/namespaces/mpi-operator/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Deployment": "/apis/apps/v1/namespaces/mpi-operator/deployments",
}

NEEDS_PROGRAMS = pytest.mark.skipif(
    not all((BINARIES / name).exists() for name in ("plane", "kwok", "mpi-operator")),
    reason="the cluster's programs are not built: make setup",
)


class Plane:
    """One control plane with what the tests ask of it."""

    def __init__(self, lab: Lab, state: Path) -> None:
        self.state = state
        self.said: list[str] = []
        self.layout = Layout(state, BINARIES, ADDRESS)
        self.use(lab)
        self.up()
        self.api = Api(self.layout)

    def use(self, lab: Lab) -> None:
        self.part = ControlPlane(lab, self.state, BINARIES, address=ADDRESS)

    def up(self) -> str:
        """Also drops the connection, which the server may have ended meanwhile."""
        if hasattr(self, "api"):
            self.api.close()
        self.said.clear()
        self.part.up(self.said.append)
        return "\n".join(self.said)

    def states(self) -> dict[str, str]:
        return {status.name: status.state for status in self.part.status()}

    def pid(self, name: str) -> int | None:
        return Daemon(name, self.layout.folder).pid()

    def kill(self, name: str) -> None:
        self.send(name, signal.SIGKILL)

    def send(self, name: str, sign: signal.Signals) -> None:
        pid = self.pid(name)
        assert pid is not None, f"{name} does not run"
        os.kill(pid, sign)

    def add_namespace(self, name: str) -> str:
        path = f"/api/v1/namespaces/{name}"
        self.api.apply(path, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return path

    def deploy_operator(self) -> None:
        """Applies the upstream manifest in its own order, as the program does."""
        path = files_of("github.com/kubeflow/mpi-operator", ENGINE / "go", [MANIFEST])[MANIFEST]
        for manifest in yaml.load_all(path.read_text(), yaml.CSafeLoader):
            self.api.apply(f"{PLURALS[manifest['kind']]}/{manifest['metadata']['name']}", manifest)
        eventually(lambda: self.api.get("/apis/kubeflow.org/v2beta1/mpijobs"), "MPIJobs in the API")
        eventually(lambda: answers(OPERATOR_PORT), "answer of the operator")

    def run_job(self, name: str, launcher_labels: dict[str, str] | None = None) -> list[str]:
        """Creates an MPIJob and waits for its end; gives the conditions it went through, in order."""
        self.add_namespace(BENCH)
        eventually(lambda: self.api.get(f"/api/v1/namespaces/{BENCH}/serviceaccounts/default"), "a service account")
        self.api.create(MPIJOBS, mpi_job(name, launcher_labels or {}))
        seen: list[str] = []

        def ended() -> bool:
            job = self.api.get(f"{MPIJOBS}/{name}") or {}
            for condition in job.get("status", {}).get("conditions", []):
                if condition["status"] == "True" and condition["type"] not in seen:
                    seen.append(condition["type"])
            return bool({"Succeeded", "Failed"} & set(seen))

        eventually(ended, f"an end of {name}")
        return seen

    def pods(self, job: str, role: str) -> list[Object]:
        labels = f"training.kubeflow.org/job-name={job},training.kubeflow.org/job-role={role}"
        return self.api.items(f"/api/v1/namespaces/{BENCH}/pods?labelSelector={labels}")


def mpi_job(name: str, launcher_labels: dict[str, str]) -> Object:
    rails = {"intel.com/sriov_111": "1", "intel.com/sriov_112": "1", "nvidia.com/gpu": "8"}

    def replica(count: int, container: str, limits: dict[str, str], labels: dict[str, str]) -> Object:
        spec = {"containers": [{"name": container, "image": "nccl:1", "resources": {"limits": limits}}]}
        return {"replicas": count, "template": {"metadata": {"labels": labels}, "spec": spec}}

    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name, "namespace": BENCH},
        "spec": {
            "slotsPerWorker": 8,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0},
            "mpiReplicaSpecs": {
                "Launcher": replica(1, "launcher", {}, launcher_labels),
                "Worker": replica(2, "worker", rails, {}),
            },
        },
    }


@contextmanager
def running(lab: Lab, state: Path) -> Iterator[Plane]:
    """A control plane while the block runs; it is ended also when it did not come up."""
    try:
        plane = Plane(lab, state)
        yield plane
        plane.api.close()
    finally:
        ControlPlane(lab, state, BINARIES, address=ADDRESS).down(print)


def eventually(holds: Callable[[], object], what: str, timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while not _now(holds):
        assert time.monotonic() < deadline, f"no {what} after {timeout_s:.0f} s"
        time.sleep(0.1)


def _now(holds: Callable[[], object]) -> object:
    try:
        return holds()
    except ApiError as error:
        if error.status == 429:  # a resource type that is only just being installed
            return False
        raise


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ADDRESS, port)) == 0

"""A real cluster: started, used by the real MPI operator, hurt, changed, reset and ended.

It runs on an address of its own, beside whatever simulator runs on this machine.
"""

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simulator.part import SimulatorError
from simulator.plane import keeper
from simulator.plane.api import Api, ApiError
from stacks.lab import Lab
from tests.messages import lines_naming, stating
from tests.simulator.plane.running import (
    ADDRESS,
    BENCH,
    NEEDS_PROGRAMS,
    OPERATOR_PORT,
    PLURALS,
    ROOT,
    Plane,
    answers,
    eventually,
    running,
)

pytestmark = [pytest.mark.sim, pytest.mark.whole, NEEDS_PROGRAMS]


@pytest.fixture(scope="module")
def plane(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with running(lab, tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture
def reference(plane: Plane, lab: Lab) -> Plane:
    """The running cluster with the reference lab, whatever the last test did to it."""
    plane.use(lab)
    plane.up()
    return plane


def test_everything_runs_except_the_operator_that_is_not_deployed(reference: Plane) -> None:
    states = reference.states()

    assert states.pop("mpi-operator") == "idle"
    assert set(states.values()) == {"running"}


def test_nodes_offer_what_the_lab_file_says(reference: Plane) -> None:
    offered = {n["metadata"]["name"]: n["status"]["allocatable"] for n in reference.api.items("/api/v1/nodes")}

    assert sorted(offered) == ["gpu01", "gpu02"]
    assert {offered["gpu01"][key] for key in ("intel.com/sriov_111", "intel.com/sriov_112")} == {"4"}
    assert offered["gpu02"]["nvidia.com/gpu"] == "8"


def test_a_second_up_starts_nothing(reference: Plane) -> None:
    before = [status.pid for status in reference.part.status()]

    said = reference.up()

    assert "was ready" in said
    assert [status.pid for status in reference.part.status()] == before


def test_a_field_that_no_schema_knows_is_refused_or_pruned_as_everywhere(reference: Plane) -> None:
    logs = "/apis/kwok.x-k8s.io/v1alpha1/namespaces/default/logs"
    manifest = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Logs",
        "metadata": {"name": "mistyped"},
        "spec": {"logs": [{"logsFile": "/x", "colour": "red"}]},
    }

    with pytest.raises(ApiError, match=r"colour: field not declared in schema"):
        reference.api.apply(f"{logs}/mistyped", manifest)
    created = reference.api.create(logs, manifest)

    assert created["spec"]["logs"] == [{"logsFile": "/x"}], "a simulator that keeps it would hide a mistyped field"


def test_an_mpijob_runs_to_its_end_under_the_real_operator(reference: Plane) -> None:
    reference.deploy_operator()

    assert reference.run_job("sound") == ["Created", "Running", "Succeeded"]
    eventually(lambda: not reference.pods("sound", "worker"), "end of the workers (cleanPodPolicy Running)")
    launcher = reference.pods("sound", "launcher")[0]["metadata"]["name"]
    log = reference.api.text(f"/api/v1/namespaces/{BENCH}/pods/{launcher}/log")
    assert log == (ROOT / "simulator/recordings/nccl_all_reduce_deepops.log").read_text()


def test_another_recording_can_be_chosen(reference: Plane) -> None:
    reference.deploy_operator()
    reference.run_job("replayed")
    reference.part.replay("nccl_all_reduce_sockets")
    launcher = reference.pods("replayed", "launcher")[0]["metadata"]["name"]
    path = f"/api/v1/namespaces/{BENCH}/pods/{launcher}/log"

    eventually(lambda: "NET/Socket" in reference.api.text(path), "another recording")

    with pytest.raises(SimulatorError, check=stating("of_nobody", "nccl_all_reduce_nvlink")):
        reference.part.replay("of_nobody")


def test_a_launcher_that_fails_fails_its_mpijob(reference: Plane) -> None:
    reference.deploy_operator()

    seen = reference.run_job("failing", {"pod-container-running-failed.stage.kwok.x-k8s.io": "true"})

    assert seen[-1] == "Failed"


def test_the_operator_goes_and_comes_with_its_deployment(reference: Plane) -> None:
    reference.deploy_operator()

    reference.api.delete(f"{PLURALS['Deployment']}/mpi-operator")
    definition = f"{PLURALS['CustomResourceDefinition']}/mpijobs.kubeflow.org"
    reference.api.delete(definition)
    eventually(lambda: reference.api.get(definition) is None, "end of the resource type")
    eventually(lambda: reference.pid(keeper.OPERATOR) is None, "end of the operator")
    eventually(lambda: reference.states()["mpi-operator"] == "idle", "rest")

    reference.deploy_operator()
    assert reference.run_job("again")[-1] == "Succeeded"


def test_everything_listens_on_the_loopback_only(reference: Plane) -> None:
    reference.deploy_operator()
    pids = {status.pid for status in reference.part.status()}

    found = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout

    ours = [line.split()[3] for line in found.splitlines() if any(f"pid={pid}," in line for pid in pids)]
    assert len(ours) >= 5, "etcd with its peers' port, API server, fake kubelet, operator"
    assert [address for address in ours if not address.startswith("127.")] == []


def test_an_operator_without_its_rights_does_nothing(reference: Plane) -> None:
    reference.deploy_operator()
    binding = f"{PLURALS['ClusterRoleBinding']}/mpi-operator"
    reference.api.delete(binding)
    reference.kill(keeper.OPERATOR)

    log = reference.layout.folder / "mpi-operator.log"
    eventually(lambda: "forbidden" in log.read_text(), "refusal")
    reference.deploy_operator()
    assert reference.run_job("allowed-again")[-1] == "Succeeded"


@pytest.mark.parametrize("name", ["kube-apiserver", "etcd", "kwok", keeper.NAME])
def test_a_killed_process_is_seen_and_healed_and_nothing_is_lost(reference: Plane, name: str) -> None:
    kept = reference.add_namespace(f"kept-{name}")
    reference.kill(name)
    eventually(lambda: reference.states()[name] == "died", "death")

    said = reference.up()

    assert f"{name} had died" in said
    eventually(lambda: set(reference.states().values()) <= {"running", "idle"}, "health of all")
    assert reference.api.get(kept) is not None


def test_a_changed_lab_changes_the_nodes_alone(reference: Plane, lab: Lab, vary: Callable[..., Lab]) -> None:
    before = {name: reference.pid(name) for name in ("etcd", "kube-apiserver", "kwok")}

    reference.use(vary(gpu01={"vfs": 7}, gpu02={"state": "absent"}))
    said = reference.up()

    found = {n["metadata"]["name"]: n["status"] for n in reference.api.items("/api/v1/nodes")}
    assert list(found) == ["gpu01"]
    assert found["gpu01"]["allocatable"]["intel.com/sriov_111"] == "7"
    assert found["gpu01"]["capacity"]["intel.com/sriov_111"] == "7"
    assert "removed node gpu02" in said
    assert {name: reference.pid(name) for name in before} == before


def test_a_node_that_belonged_to_a_kubelet_is_made_again_and_becomes_ready(reference: Plane) -> None:
    node = "/api/v1/nodes/gpu01"
    before = (reference.api.get(node) or {})["metadata"]["uid"]
    # kwok reads the ID of the simulator's first machine as a number
    reported = {"kubeletVersion": "v1.36.3", "machineID": f"{1:032x}"}
    reference.api.merge(f"{node}/status", {"status": {"nodeInfo": reported}})

    said = reference.up()

    assert lines_naming(said, "node gpu01", "again", "kubelet")
    assert (reference.api.get(node) or {})["metadata"]["uid"] != before
    assert "again" not in reference.up()


def test_a_cordon_survives_an_up(reference: Plane) -> None:
    reference.api.merge("/api/v1/nodes/gpu01", {"spec": {"unschedulable": True}})
    try:
        reference.up()
        found = reference.api.get("/api/v1/nodes/gpu01") or {}
        assert found["spec"]["unschedulable"] is True, "nothing but its owner may uncordon it"
    finally:
        reference.api.merge("/api/v1/nodes/gpu01", {"spec": {"unschedulable": None}})


def test_strangers_are_refused(reference: Plane) -> None:
    with Api(reference.layout, "scheduler") as api:
        assert not api.answers("/api/v1/namespaces/kube-system/secrets"), "RBAC holds for the cluster's own parts"


def test_a_reset_leaves_an_empty_cluster_and_the_same_kubeconfig(reference: Plane) -> None:
    before = reference.layout.kubeconfig.read_text()
    forgotten = reference.add_namespace("forgotten")

    reference.part.reset(lambda _: None)
    reference.api.close()

    assert reference.api.get(forgotten) is None
    assert reference.layout.kubeconfig.read_text() == before
    assert len(reference.api.items("/api/v1/nodes")) == 2


def test_a_taken_port_is_named(reference: Plane) -> None:
    reference.part.down(lambda _: None)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((ADDRESS, 6443))
        other.listen()
        with pytest.raises(SimulatorError, check=stating("kube-apiserver:", "another process", f"{ADDRESS}:6443")):
            reference.up()
    reference.up()


def test_a_down_leaves_no_process_and_no_port(reference: Plane) -> None:
    reference.deploy_operator()
    pids = [status.pid for status in reference.part.status()]
    assert all(pids)

    reference.part.down(lambda _: None)

    assert [pid for pid in pids if pid and Path(f"/proc/{pid}/exe").exists()] == []
    assert [port for port in (2379, 6443, 10247, OPERATOR_PORT) if answers(port)] == []
    assert set(reference.states().values()) == {"stopped"}

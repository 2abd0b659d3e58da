"""A cluster that stood still for a while: what the fake kubelet puts right, as a real one does, and what is said."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from simulator.plane import health
from simulator.plane.api import Object
from stacks.lab import Lab
from tests.messages import lines_naming
from tests.simulator.plane.running import BENCH, NEEDS_PROGRAMS, Plane, eventually, running

pytestmark = [pytest.mark.sim, NEEDS_PROGRAMS]

PODS = f"/api/v1/namespaces/{BENCH}/pods"
AGENTS = f"/apis/apps/v1/namespaces/{BENCH}/daemonsets/agent"
EVERYTHING = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "mpi-operator-keeper")
STOOD_STILL_S = 70
"""Longer than the cluster's heartbeats and leases hold, which is 50 s at most."""


@pytest.fixture(scope="module")
def plane(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A cluster with one agent on each node."""
    with running(lab, tmp_path_factory.mktemp("plane")) as plane:
        plane.add_namespace(BENCH)
        plane.api.apply(AGENTS, agents())
        eventually(lambda: ready_agents(plane) == 2, "agents")
        yield plane


def agents() -> Object:
    labels = {"app": "agent"}
    pod = {"containers": [{"name": "agent", "image": "agent:1"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": BENCH},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def ready_agents(plane: Plane) -> int:
    found = plane.api.get(AGENTS) or {}
    return int(found.get("status", {}).get("numberReady", 0))


def suspend(plane: Plane, *names: str) -> None:
    for name in names:
        plane.send(name, signal.SIGSTOP)


def test_a_pod_that_is_marked_as_not_ready_is_ready_again_at_once(plane: Plane) -> None:
    pod = plane.api.items(PODS)[0]
    path = f"{PODS}/{pod['metadata']['name']}/status"
    others = [c for c in pod["status"]["conditions"] if c["type"] != "Ready"]

    # as the node lifecycle controller does it
    plane.api.merge(path, {"status": {"conditions": [*others, {"type": "Ready", "status": "False"}]}})

    eventually(lambda: not list(health.unready_pods(plane.api.items(PODS))), "readiness", 20)
    eventually(lambda: ready_agents(plane) == 2, "roll-out", 20)


def test_a_pod_whose_container_is_not_ready_stays_as_it_is(plane: Plane) -> None:
    pod = plane.api.items(PODS)[0]
    path = f"{PODS}/{pod['metadata']['name']}/status"
    before = pod["status"]["conditions"]
    unready = [{**c, "status": "False"} if c["type"] in ("Ready", "ContainersReady") else c for c in before]

    plane.api.merge(path, {"status": {"conditions": unready}})
    time.sleep(3)

    found = {c["type"]: c["status"] for c in (plane.api.get(path) or {})["status"]["conditions"]}
    plane.api.merge(path, {"status": {"conditions": before}})
    assert found["Ready"] == "False", "a container that fails its probe must not look healthy"


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_suspended_process_continues_and_is_named(plane: Plane, name: str) -> None:
    suspend(plane, name)
    eventually(lambda: plane.states()[name] == "not answering", "state of a suspended process", 20)

    said = plane.up()

    assert lines_naming(said, "suspended", name)
    eventually(lambda: set(plane.states().values()) <= {"running", "idle"}, "health of all")


def test_a_new_fake_kubelet_takes_the_nodes_over_at_once(plane: Plane) -> None:
    plane.kill("kwok")
    eventually(lambda: plane.states()["kwok"] == "died", "death")
    plane.up()

    begun_s = time.monotonic()
    plane.api.delete(f"{PODS}/{plane.api.items(PODS)[0]['metadata']['name']}")
    eventually(lambda: ready_agents(plane) == 2 and len(plane.api.items(PODS)) == 2, "a new agent", 60)

    assert time.monotonic() - begun_s < 20, "the heartbeat of the dead one holds for 40 s"


@pytest.mark.kills
def test_nodes_that_were_lost_and_their_pods_come_back_and_are_named(plane: Plane) -> None:
    plane.up()
    suspend(plane, "kwok")
    eventually(lambda: ready_agents(plane) == 0, "loss of the nodes", 120)

    said = plane.up()

    assert lines_naming(said, "suspended", "kwok")
    for node in ("gpu01", "gpu02"):
        assert lines_naming(said, f"node {node}", "lost")
    eventually(lambda: ready_agents(plane) == 2, "roll-out", 20)


@pytest.mark.kills
def test_a_cluster_that_stood_still_and_continues_by_itself_converges(plane: Plane) -> None:
    """As after a laptop's sleep. tests/integration/standing/test_killed_parts.py has one that is still suspended."""
    plane.up()
    pids = [pid for name in EVERYTHING if (pid := plane.pid(name))]
    suspend(plane, *EVERYTHING)
    time.sleep(STOOD_STILL_S)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)

    begun_s = time.monotonic()
    plane.up()

    assert time.monotonic() - begun_s < 60
    eventually(lambda: ready_agents(plane) == 2, "roll-out", 60)
    assert not list(health.unready_pods(plane.api.items(PODS)))

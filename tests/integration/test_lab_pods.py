"""Nodes with real kubelets: pods that the scheduler places really run, and are reached as on hardware."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator.nodes.pod_images import SHELL_IMAGE
from simulator.plane.api import Api
from simulator.plane.layout import Layout
from tests.integration.conftest import ENGINE, sim
from tests.integration.stack import environment, on_node

pytestmark = [pytest.mark.sim, pytest.mark.whole]

NAME = "lab-pods"
PODS = "/api/v1/namespaces/default/pods"
NODES = ("gpu01", "gpu02")
START_S = 600
"""Bound on a pod's start; under emulation it takes 16 s on idle cores."""


@pytest.fixture(scope="module")
def cluster(simulator: Path) -> Iterator[Api]:
    """The API of a simulator of this lab; afterwards the reference lab's is there again, clean."""
    for verb in ("up", "reset"):
        done = sim(environment(NAME), verb, "--stack", NAME)
        assert done.returncode == 0, done.stdout
    with Api(Layout(simulator.absolute(), ENGINE), timeout_s=60) as api:
        yield api
    done = sim(environment("lab"), "up")
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def pods(cluster: Api) -> dict[str, dict[str, Any]]:
    """A pod on each node, spread by the scheduler; each says where it is, and stays."""
    wait(lambda: cluster.get("/api/v1/namespaces/default/serviceaccounts/default"), "a service account")
    for name in ("one", "two"):
        cluster.apply(f"{PODS}/{name}", pod(name))
    return {found["spec"]["nodeName"]: found for found in (running(cluster, name) for name in ("one", "two"))}


def pod(name: str) -> dict[str, Any]:
    """A shell that no node runs twice."""
    apart = {"labelSelector": {"matchLabels": {"app": "shell"}}, "topologyKey": "kubernetes.io/hostname"}
    script = "echo here is $HOSTNAME; while :; do /bin/busybox sleep 3600; done"
    shell = {"name": "shell", "image": SHELL_IMAGE, "args": ["-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "shell"}},
        "spec": {
            "containers": [shell],
            "terminationGracePeriodSeconds": 0,
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        },
    }


def running(api: Api, name: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        seen = api.get(f"{PODS}/{name}") or {}
        return seen if seen.get("status", {}).get("phase") == "Running" else None

    return wait(found, f"pod {name}")


def wait(look: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + START_S
    while not (found := look()):
        assert time.monotonic() < end, f"no {what} after {START_S} s"
        time.sleep(1)
    return found


def in_pod(node: str, command: str) -> str:
    """Runs a program of the node in the network of the pod there."""
    return on_node(node, f"sudo nsenter --net -t $(pgrep -o -f '^/bin/busybox sh -c echo here') {command}", START_S)


def test_every_node_is_ready_by_the_word_of_its_own_kubelet(cluster: Api) -> None:
    for name in NODES:
        node = cluster.get(f"/api/v1/nodes/{name}") or {}
        assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")
        assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")
        ready = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("True", "KubeletReady")


def test_a_pod_runs_on_each_node_and_its_log_is_read_through_the_api(cluster: Api, pods: dict[str, Any]) -> None:
    assert sorted(pods) == sorted(NODES)
    for found in pods.values():
        name = found["metadata"]["name"]
        assert wait(lambda name=name: cluster.text(f"{PODS}/{name}/log"), "log") == f"here is {name}\n"


def test_pods_of_two_nodes_reach_each_other(pods: dict[str, Any]) -> None:
    assert " 0% packet loss" in in_pod("gpu01", f"ping -c 3 -W 10 {pods['gpu02']['status']['podIP']}")


def test_a_pod_reaches_the_api_at_its_services_address(pods: dict[str, Any]) -> None:
    assert sorted(pods) == sorted(NODES)
    context = "ssl.create_default_context(cafile='/etc/kubernetes/pki/ca.crt')"
    connect = "socket.create_connection(('10.96.0.1', 443), 60)"
    for name in NODES:
        in_pod(
            name, f"python3 -c \"import socket, ssl; {context}.wrap_socket({connect}, server_hostname='10.96.0.1')\""
        )


def test_a_node_has_the_memory_that_the_lab_promises(cluster: Api) -> None:
    for name in NODES:
        offered = (cluster.get(f"/api/v1/nodes/{name}") or {})["status"]["capacity"]
        assert offered["cpu"] == "2"
        assert 1_900_000 < int(offered["memory"].removesuffix("Ki")) <= 2 << 20


def test_a_kubelet_that_is_killed_is_back_and_its_pods_never_left(cluster: Api, pods: dict[str, Any]) -> None:
    before = on_node("gpu01", "pgrep -x kubelet").strip()
    on_node("gpu01", "sudo kill -9 $(pgrep -x kubelet)")

    wait(lambda: on_node("gpu01", "pgrep -x kubelet || true").strip() not in ("", before), "kubelet")
    name = pods["gpu01"]["metadata"]["name"]
    status = running(cluster, name)["status"]["containerStatuses"]
    assert [one["restartCount"] for one in status] == [0], json.dumps(status)

"""A lab with real kubelets: from nothing to a verdict of pods that ran, what they feel of faults, and killed parts.

All tests share one up, and run in this order.
"""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.validation.benchmarks.plan import plan_of
from components.validation.benchmarks.pods import run as pod_rails
from components.validation.records import PodRails
from simulator.nodes.pod_images import MPI_IMAGE, SHELL_IMAGE
from simulator.plane.api import Api
from simulator.plane.layout import Layout
from simulator.process import Daemon
from stacks.read import read_stack_file
from tests.components.validation.fake_api import cluster_run
from tests.conftest import ROOT
from tests.integration.conftest import ENGINE, sim, start_clean
from tests.integration.stack import KEY, Stack, environment, on_node
from tests.integration.watched import SCRAPE_S, Scrapes, make_textfile_folders

pytestmark = [pytest.mark.sim, pytest.mark.whole]

NAME = "lab-pods"
STATE = ROOT / ".sim"
PODS = "/api/v1/namespaces/default/pods"
SYSTEM = "/apis/apps/v1/namespaces/kube-system/daemonsets"
NETWORKS = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions"
NODES = ("gpu01", "gpu02")
RESOURCES = ("intel.com/sriov_111", "intel.com/sriov_112")
START_S = 600
"""Bound on a pod's start; under emulation it takes 10 s on idle cores."""
UP_S = 2400
"""Bound on an up, which takes 6 to 17 minutes."""
SOAK_S = float(os.environ.get("ROCELAB_SOAK_S", "60"))
"""How long pods come and go while the watch is read. An hour is for a release."""


@pytest.fixture(scope="module")
def stack(simulator: Path) -> Iterator[Stack]:
    """The stack on a simulator of its lab; afterwards the reference lab's is there again, clean."""
    setup = [ROOT / "engine/setup", "--dev", "--stack", NAME]  # minutes where nothing is built yet
    subprocess.run(setup, cwd=ROOT, check=True)
    start_clean(NAME)
    made = Stack.make(simulator / "tests-pods", NAME)
    made.longest_run_s = UP_S
    content = yaml.safe_load(made.file.read_text())
    content["config"][KEY]["system"] = {"watch": {}}
    made.file.write_text(yaml.safe_dump(content, sort_keys=False))
    make_textfile_folders(NODES)
    yield made
    start_clean("lab")


@pytest.fixture(scope="module")
def cluster(stack: Stack) -> Iterator[Api]:
    """The API of the lab after its first up."""
    stack.up().succeeded()
    with Api(Layout(STATE.absolute(), ENGINE), timeout_s=60) as api:
        yield api


@pytest.fixture
def check(cluster: Api, monkeypatch: pytest.MonkeyPatch) -> Callable[[], PodRails]:
    """The program's own check of the rails from inside pods, which a run of the benchmarks makes as well."""
    # a VF that comes back from a pod a little late is refused once, and then given: that is no fault
    monkeypatch.setattr(pod_rails, "LASTING_S", {True: 60, False: 60})
    plan = plan_of(read_stack_file(ROOT / f"Pulumi.{NAME}.yaml"))
    assert plan

    def checked() -> PodRails:
        kubeconfig = (STATE / "kubeconfig").read_text()
        return pod_rails.run_pods(plan, cluster_run(plan, kubeconfig, run_id=f"t{time.time():.0f}"))

    return checked


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


def on_rails(name: str, node: str | None = None) -> dict[str, Any]:
    """A pod with a VF on each rail, on this node if one is named."""
    manifest = pod(name)
    manifest["metadata"]["annotations"] = {"k8s.v1.cni.cncf.io/networks": "sriov111,sriov112"}
    # other tests' pods may be on both nodes, and keep pods of their label away
    manifest["metadata"]["labels"] = {"app": "rails"}
    del manifest["spec"]["affinity"]
    container = {"name": "rails", "image": MPI_IMAGE, "command": ["sleep", "3600"]}
    manifest["spec"]["containers"] = [{**container, "resources": {"limits": dict.fromkeys(RESOURCES, "1")}}]
    if node:
        manifest["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return manifest


def running(api: Api, name: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        seen = api.get(f"{PODS}/{name}") or {}
        return seen if seen.get("status", {}).get("phase") == "Running" else None

    return wait(found, f"pod {name}")


def accepted(api: Api, name: str, manifest: dict[str, Any]) -> dict[str, Any]:
    """A pod that runs; made again if a kubelet refuses it that has restarted and waits for its device plugins."""

    def found() -> dict[str, Any] | None:
        seen = api.get(f"{PODS}/{name}")
        if seen is None:
            api.apply(f"{PODS}/{name}", manifest)
            return None
        if seen["status"].get("reason") == "UnexpectedAdmissionError":
            api.delete(f"{PODS}/{name}")
        return seen if seen["status"].get("phase") == "Running" else None

    return wait(found, f"pod {name}")


def ended(api: Api, name: str) -> None:
    wait(lambda: api.get(f"{PODS}/{name}") is None, f"end of pod {name}")


NEED_GPUS = {"gpu_memory", "nccl_all_reduce"}


def verdict(stack: Stack) -> dict[tuple[str, str, str], str]:
    """How each test of the last run ended, by test, rail, and shape or transport."""
    tests = stack.outputs()["validation"]["tests"]
    return {(one["test"], one.get("rail", ""), one.get("shape", "")): one["function"] for one in tests}


def assert_all_pass_without_gpus(ended: dict[tuple[str, str, str], str]) -> None:
    assert {test for (test, _, _), function in ended.items() if function == "not run"} == NEED_GPUS
    assert {function for (test, _, _), function in ended.items() if test not in NEED_GPUS} == {"pass"}, ended


def allocatable(api: Api, node: str) -> list[str]:
    offered = (api.get(f"/api/v1/nodes/{node}") or {})["status"]["allocatable"]
    return [offered.get(resource, "0") for resource in RESOURCES]


def faults(result: PodRails) -> set[tuple[str, str]]:
    return {(fault.code, fault.rail) for fault in result.faults}


@contextmanager
def nowhere(api: Api, daemon_set: str) -> Iterator[None]:
    """A DaemonSet without nodes, as if somebody had stopped it."""
    label = "rocelab.dev/nowhere"

    def pods() -> int:
        return int((api.get(f"{SYSTEM}/{daemon_set}") or {})["status"]["numberReady"])

    def choose(value: str | None) -> None:
        api.merge(f"{SYSTEM}/{daemon_set}", {"spec": {"template": {"spec": {"nodeSelector": {label: value}}}}})

    choose("true")
    try:
        wait(lambda: pods() == 0, f"end of {daemon_set}")
        yield
    finally:
        choose(None)
        wait(lambda: pods() == len(NODES), daemon_set)


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
        assert offered["cpu"] == "1"
        assert 1_900_000 < int(offered["memory"].removesuffix("Ki")) <= 2 << 20


def test_a_kubelet_that_is_killed_is_back_and_its_pods_never_left(cluster: Api, pods: dict[str, Any]) -> None:
    before = on_node("gpu01", "pgrep -x kubelet").strip()
    on_node("gpu01", "sudo kill -9 $(pgrep -x kubelet)")

    wait(lambda: on_node("gpu01", "pgrep -x kubelet || true").strip() not in ("", before), "kubelet")
    name = pods["gpu01"]["metadata"]["name"]
    status = running(cluster, name)["status"]["containerStatuses"]
    assert [one["restartCount"] for one in status] == [0], json.dumps(status)


@pytest.mark.row("A 33-37", "A 212-215", "A 274-276", "A 349b")
def test_one_up_ends_in_a_verdict_from_pods_that_ran(stack: Stack, cluster: Api) -> None:
    ended = verdict(stack)

    assert {("pod_rails", "rail-a", ""), ("pod_rails", "rail-b", "")} <= ended.keys()
    assert {("mpi_all_reduce", "", "tcp"), ("mpi_all_reduce", "", "roce")} <= ended.keys()
    assert_all_pass_without_gpus(ended)
    assert [allocatable(cluster, node) for node in NODES] == [["4", "4"], ["4", "4"]]
    shown = stack.run("rocelab", "report", "--stack", NAME, "--html", str(stack.folder / "report.html")).succeeded()
    page = re.sub(r"<style>.*?</style>", "", (stack.folder / "report.html").read_text(), flags=re.DOTALL)
    assert "mpi_all_reduce" in shown.text
    assert "mpi_all_reduce" in page
    assert "replayed" not in shown.text + page


@pytest.mark.row("A 22", "A 219-234")
def test_a_pod_has_its_vf_with_vlan_mtu_address_and_rdma_device_on_each_rail(cluster: Api) -> None:
    wanted = on_rails("rails")
    found = accepted(cluster, "rails", wanted)
    node = found["spec"]["nodeName"]

    shown = json.loads(found["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"])
    networks = {one["interface"]: one for one in shown}
    inside = "sudo nsenter -a -t $(pgrep -f '^sleep 3600') "
    for interface, vlan, pf in (("net1", 111, "enp5s0"), ("net2", 112, "enp132s0")):
        status = networks[interface]
        assert status["name"] == f"default/sriov{vlan}"
        [address] = status["ips"]
        assert address.startswith(f"10.20.{vlan}.")
        device = f"/sys/class/net/{interface}/device/infiniband"
        assert on_node(node, f"{inside} cat /sys/class/net/{interface}/mtu", START_S) == "9000"
        assert on_node(node, f"{inside} ls {device}", START_S).startswith("rxe_")
        assert f"{status['mac']}" in on_node(node, f"ip link show {pf} | grep 'vlan {vlan}'")
    assert on_node(node, f"{inside} ls /dev/infiniband", START_S).count("uverbs") == 2
    cluster.delete(f"{PODS}/rails")
    ended(cluster, "rails")


def test_pods_that_come_and_go_raise_no_alert(
    stack: Stack, cluster: Api, scrapes: Scrapes, prometheus: Path, tmp_path: Path
) -> None:
    scrapes.until(set(), START_S)
    begun_s = scrapes.now_s()
    rounds = 0
    with scrapes.during():
        while scrapes.now_s() < begun_s + SOAK_S:
            for node in NODES:
                accepted(cluster, f"rails-{node}", on_rails(f"rails-{node}", node))
            for node in NODES:
                cluster.delete(f"{PODS}/rails-{node}")
            for node in NODES:
                ended(cluster, f"rails-{node}")
            rounds += 1
    scrapes.until(set(), START_S)

    print(f"{rounds} rounds, {len(scrapes.taken)} times read")
    # before, the nodes end the pods of the up, and answer nobody in time
    hour = range(int(begun_s), int(scrapes.now_s()), 3 * SCRAPE_S)
    evaluations: dict[int, set[str]] = {second: set() for second in hour}
    scrapes.assert_alerts(stack.file, prometheus, tmp_path, evaluations)


def test_a_vlan_that_the_switch_does_not_carry_is_felt_by_pods_of_that_rail(check: Callable[[], PodRails]) -> None:
    env = environment(NAME)
    sim(env, "switch", "--stack", NAME, "set", "gpu02", "enp5s0", "--vlans", "")
    try:
        assert faults(check()) == {("POD_CUT_OFF", "rail-a")}
    finally:
        sim(env, "switch", "--stack", NAME, "set", "gpu02", "enp5s0", "--vlans", "111")


def test_a_pool_without_a_free_address_is_named(cluster: Api, check: Callable[[], PodRails]) -> None:
    network = f"{NETWORKS}/sriov111"
    config = (cluster.get(network) or {})["spec"]["config"]
    one_address = config.replace("10.20.111.99", "10.20.111.10")
    assert one_address != config
    cluster.merge(network, {"spec": {"config": one_address}})
    try:
        assert faults(check()) == {("POOL_FULL", "rail-a")}
    finally:
        cluster.merge(network, {"spec": {"config": config}})


def test_a_network_that_names_another_resource_is_named(cluster: Api, check: Callable[[], PodRails]) -> None:
    def name(resource: str) -> None:
        annotation = {"k8s.v1.cni.cncf.io/resourceName": resource}
        cluster.merge(f"{NETWORKS}/sriov112", {"metadata": {"annotations": annotation}})

    name("intel.com/another")
    try:
        assert faults(check()) == {("RESOURCE_NAME", "rail-b")}
    finally:
        name(RESOURCES[1])


def test_a_stopped_multus_is_named(cluster: Api, check: Callable[[], PodRails]) -> None:
    with nowhere(cluster, "kube-multus-ds"):
        found = faults(check())
    # a daemon that ends in peace takes its configuration away, and pods then start with the node's own network only
    assert found in ({("MULTUS_DOWN", "")}, {("MULTUS_SKIPPED", "rail-a"), ("MULTUS_SKIPPED", "rail-b")})


def test_a_dead_device_plugin_is_named(cluster: Api, check: Callable[[], PodRails]) -> None:
    with nowhere(cluster, "kube-sriov-device-plugin"):
        wait(lambda: all(allocatable(cluster, node) == ["0", "0"] for node in NODES), "end of the VFs")
        assert faults(check()) == {("DEVICE_PLUGIN_DEAD", "rail-a"), ("DEVICE_PLUGIN_DEAD", "rail-b")}
    wait(lambda: all(allocatable(cluster, node) == ["4", "4"] for node in NODES), "VFs")


def test_vfs_that_are_gone_are_named(cluster: Api, check: Callable[[], PodRails]) -> None:
    on_node("gpu02", "echo 0 | sudo tee /sys/class/net/enp5s0/device/sriov_numvfs", START_S)
    wait(lambda: allocatable(cluster, "gpu02") == ["0", "4"], "end of the VFs")

    found = {(fault.code, fault.node, fault.rail) for fault in check().faults}
    assert found == {("NO_VFS", "gpu02", "rail-a")}


@pytest.mark.kills
def test_after_parts_were_killed_and_a_machine_suspended_the_next_up_ends_in_the_same_verdict(
    stack: Stack, cluster: Api
) -> None:
    on_node("gpu01", "sudo pkill -9 -x containerd; sudo pkill -9 -x kubelet")
    for daemon in (Daemon("kube-apiserver", STATE / "plane"), Daemon("qemu", STATE / "nodes" / "gpu01")):
        pid = daemon.pid()
        assert pid
        os.kill(pid, signal.SIGKILL)
    suspended = Daemon("qemu", STATE / "nodes" / "gpu02").pid()
    assert suspended
    os.kill(suspended, signal.SIGSTOP)
    cluster.close()

    assert sim(environment(NAME), "status", "--stack", NAME).returncode == 1
    done = sim(environment(NAME), "up", "--stack", NAME)
    assert done.returncode == 0, done.stdout
    make_textfile_folders(NODES)
    stack.repair().succeeded()

    assert_all_pass_without_gpus(verdict(stack))
    assert [allocatable(cluster, node) for node in NODES] == [["4", "4"], ["4", "4"]]

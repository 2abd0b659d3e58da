"""Processes of the simulator killed, in the middle of an `up` and at rest, and all of them suspended at once.

The next `make up` has to say what it found, and to converge. Those of the control plane are killed one at a time in a
cluster without nodes, by tests/components/cluster/test_stalled_sim.py.
"""

import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from simulator.process import Daemon
from tests.conftest import ROOT
from tests.disturbed import Run, disturbed
from tests.integration.conftest import sim
from tests.integration.stack import Stack, environment, on_node
from tests.messages import lines_naming

pytestmark = [pytest.mark.sim, pytest.mark.kills]

STATE = ROOT / ".sim"
AT_WORK = re.compile(r"DaemonSet cluster-\S+ creating")


@dataclass(frozen=True)
class Process:
    """A process of the simulator, and what `sim up` says of its death: nothing where the keeper was faster."""

    folder: str
    name: str
    died: str

    @property
    def pid(self) -> int | None:
        return Daemon(self.name, STATE / self.folder).pid()

    def send(self, sign: signal.Signals) -> None:
        assert self.pid is not None, f"{self.name} does not run"
        os.kill(self.pid, sign)


PROCESSES = {
    "etcd": Process("plane", "etcd", "etcd had died"),
    "kube-apiserver": Process("plane", "kube-apiserver", "kube-apiserver had died"),
    "kube-controller-manager": Process("plane", "kube-controller-manager", "kube-controller-manager had died"),
    "kube-scheduler": Process("plane", "kube-scheduler", "kube-scheduler had died"),
    "kwok": Process("plane", "kwok", "kwok had died"),
    "keeper": Process("plane", "mpi-operator-keeper", "mpi-operator-keeper had died"),
    "operator": Process("plane", "mpi-operator", ""),
    "switch": Process("switch", "switch", r"switch +\S+ s +had died"),
    "switch ssh": Process("switch", "front", "its SSH server had died"),
    "packages": Process("packages", "packages", "the server had died"),
    "node": Process("nodes/gpu02", "qemu", "gpu02: had died"),
}

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "keeper")
VFS = "cat /sys/class/net/enp5s0/device/sriov_numvfs"


def started(stack: Stack) -> str:
    """What `make up` does first on a stack of its own; what `sim up` and the recovery have said."""
    begun_s = time.monotonic()
    said = sim(environment("lab"), "up")
    assert said.returncode == 0, said.stdout
    state = str(stack.folder / "state")
    text = said.stdout + stack.run("python", "-m", "engine.recover", stack.name, state).succeeded().text
    print(f"sim up after {time.monotonic() - begun_s:.0f} s:\n{text}")  # pytest -rP shows what was said
    return text


def converges(stack: Stack) -> None:
    """All that the lab asks for is there after the `up` of a `make up`."""
    stack.repair().succeeded()
    assert sim(environment("lab"), "status").returncode == 0
    for node in ("gpu01", "gpu02"):
        assert on_node(node, f"{VFS} /sys/class/net/enp132s0/mtu").split() == ["4", "9000"]
    for found in core().list_daemon_set_for_all_namespaces().items:
        assert found.status.number_ready == 2, found.metadata.name


def core() -> Any:
    from kubernetes import client, config  # noqa: PLC0415  # 200 modules, for simulator tests only

    return client.AppsV1Api(config.new_client_from_config(str(STATE / "kubeconfig")))


def damage() -> None:
    """Leaves the next `up` something to do on both hosts and in the cluster."""
    for node in ("gpu01", "gpu02"):
        on_node(node, "sudo ip link set enp132s0 mtu 1500")
    api = core()
    for found in api.list_daemon_set_for_all_namespaces().items:
        api.delete_namespaced_daemon_set(found.metadata.name, found.metadata.namespace)


def disturbed_up(stack: Stack, disturb: Callable[[], None]) -> Run:
    """An `up` in the middle of which something happens."""
    always = ["--stack", stack.name, "--config-file", str(stack.file), "--non-interactive", "--color", "never"]
    command = ["pulumi", "up", *always, "--yes", "--skip-preview", "--refresh"]
    return disturbed(command, ROOT, stack.env, AT_WORK, disturb)


def test_all_that_was_killed_at_rest_is_named_and_comes_back(lab_stack: Stack) -> None:
    for process in PROCESSES.values():
        process.send(signal.SIGKILL)

    said = started(lab_stack)

    missing = [name for name, process in PROCESSES.items() if not re.search(process.died, said)]
    assert missing == [], said
    converges(lab_stack)
    lab_stack.unchanged()


@pytest.mark.parametrize("name", [name for name in PROCESSES if name not in CONTROL_PLANE])
def test_a_process_killed_during_an_up_and_then_at_rest_is_named_and_the_next_up_converges(
    lab_stack: Stack, name: str
) -> None:
    process = PROCESSES[name]
    damage()

    run = disturbed_up(lab_stack, lambda: process.send(signal.SIGKILL))

    print(run.shown(name))
    said = started(lab_stack)
    assert re.search(process.died, said), said
    converges(lab_stack)

    process.send(signal.SIGKILL)
    said = started(lab_stack)
    assert re.search(process.died, said), said
    if name == "node":
        assert on_node("gpu02", VFS) == "0", "it comes back as its clean snapshot, of which the state knows nothing"
    converges(lab_stack)
    lab_stack.unchanged()


@pytest.mark.parametrize(
    ("at_work", "woken", "for_s"),
    [(False, False, 70), (True, True, 120)],
    ids=["at rest, still suspended", "in the middle of an up, woken"],
)
def test_a_lab_that_stood_still_converges(lab_stack: Stack, at_work: bool, woken: bool, for_s: int) -> None:
    """For longer than the cluster's heartbeats and leases hold, which is 50 s at most."""
    stopped = [process for process in PROCESSES.values() if process.pid]

    def stand_still() -> None:
        for process in stopped:
            process.send(signal.SIGSTOP)
        time.sleep(for_s)
        for process in stopped if woken else ():
            process.send(signal.SIGCONT)

    if at_work:
        damage()
        run = disturbed_up(lab_stack, stand_still)
        print(run.shown("all"))
    else:
        stand_still()
    said = started(lab_stack)

    for name in () if woken else (*(PROCESSES[one].name for one in CONTROL_PLANE), "switch", "gpu02"):
        assert lines_naming(said, "suspended", name), said
    converges(lab_stack)
    lab_stack.unchanged()

"""A control plane that loses a process, in a real `up` and at rest: the next one says what it found, and converges."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from stacks.lab import Lab
from tests.components.cluster.lone import Lone, project
from tests.disturbed import disturbed
from tests.messages import lines_naming
from tests.simulator.plane.running import NEEDS_PROGRAMS, Plane, eventually, running

pytestmark = [pytest.mark.sim, NEEDS_PROGRAMS]

AT_WORK = re.compile(r"DaemonSet cluster-\S+ creating")
LONGEST_SILENCE_S = 60
"""Longer waits say what they wait for."""
ROLL_OUT = "75s"
"""How long a disturbed `up` waits for pods: longer than it may be silent, and not the 3 minutes of an `up`."""
PROCESSES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "mpi-operator-keeper")


@pytest.fixture(scope="module")
def plane(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with running(lab, tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture(scope="module")
def lone(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Lone:
    return project("rocelab", plane.layout, tmp_path_factory.mktemp("lone"))


def recover(lone: Lone) -> None:
    command = [sys.executable, "-m", "engine.recover", "lone", str(lone.folder / "state")]
    subprocess.run(command, cwd=lone.folder, env=lone.env, check=True)


def disturbed_up(lone: Lone, disturb: Callable[[], None]) -> None:
    """An `up` from nothing in the middle of which something happens."""
    env = {**lone.env, "LONE_ROLL_OUT": ROLL_OUT}
    run = disturbed(lone.command("up", "--yes", "--skip-preview"), lone.folder, env, AT_WORK, disturb)
    print(run.shown("disturbed"))  # pytest -rP shows it
    assert run.silence_s < LONGEST_SILENCE_S, run.before_silence


def converges(plane: Plane, lone: Lone) -> str:
    """Does what `make up` does; what `sim up` said."""
    begun_s = time.monotonic()
    said = plane.up()
    print(f"sim up, {time.monotonic() - begun_s:.0f} s:\n{said}")
    recover(lone)
    lone.up("--refresh")
    assert lone.output("faults") == {}
    return said


@pytest.mark.parametrize("name", [*(pytest.param(p, marks=pytest.mark.kills) for p in PROCESSES[:-1]), PROCESSES[-1]])
def test_a_process_killed_in_the_middle_of_an_up_and_then_at_rest_is_named_and_the_next_up_converges(
    plane: Plane, lone: Lone, name: str
) -> None:
    plane.up()
    recover(lone)
    lone.destroy()

    disturbed_up(lone, lambda: plane.kill(name))
    assert f"{name} had died" in converges(plane, lone)

    plane.kill(name)
    eventually(lambda: plane.states()[name] == "died", "death")
    assert f"{name} had died" in converges(plane, lone)
    lone.up("--expect-no-changes")


@pytest.mark.kills
def test_a_cluster_that_stalls_during_an_up_is_named_and_the_next_up_converges(plane: Plane, lone: Lone) -> None:
    plane.up()
    recover(lone)
    lone.destroy()

    def stand_still() -> None:
        for name in PROCESSES:
            plane.send(name, signal.SIGSTOP)

    disturbed_up(lone, stand_still)
    assert lines_naming(converges(plane, lone), "suspended", *PROCESSES)
    lone.up("--expect-no-changes")

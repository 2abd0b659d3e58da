"""Runs the real MPI operator while the cluster has a Deployment of it.

The fake kubelets start no programs. This process replaces the one pod that has to run: it watches the Deployments and
runs the operator's binary with the Deployment's arguments and the rights of its service account. So a program that
forgets the operator, its rights, its namespace or its resource type fails here as on hardware. If the operator ends by
itself, it is started again after growing pauses, as by a kubelet.
"""

import argparse
import contextlib
import queue
import signal
import sys
import threading
import time
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import NoReturn

from simulator.part import SimulatorError
from simulator.plane import kubeconfig
from simulator.plane.api import Api, ApiError, Object
from simulator.plane.components import environment
from simulator.plane.layout import Layout
from simulator.process import Daemon

NAME = "mpi-operator-keeper"
OPERATOR = "mpi-operator"
DEPLOYMENTS = "/apis/apps/v1/deployments"
HEALTH_ADDRESS = "MPI_OPERATOR_HEALTH_ADDRESS"
"""Read by the engine's build of the operator; upstream's listens on port 8080 of every interface."""
CHECK_S = 0.5
PAUSES_S = (0.5, 1, 2, 4, 8)
HEALTHY_S = 30
"""After an operator ran this long, pauses start over with the shortest."""


@dataclass(frozen=True)
class OperatorSpec:
    """The operator as its Deployment describes it."""

    namespace: str
    account: str
    arguments: tuple[str, ...]


def operator_spec(deployments: list[Object]) -> OperatorSpec | None:
    """From the first Deployment with replicas whose image is named mpi-operator, in any registry and with any tag."""
    for deployment in sorted(deployments, key=lambda found: str(found["metadata"]["namespace"])):
        pod = deployment["spec"]["template"]["spec"]
        for container in pod["containers"]:
            image = str(container["image"]).partition("@")[0].rpartition("/")[2].partition(":")[0]
            if image == OPERATOR and deployment["spec"].get("replicas", 1) > 0:
                namespace = deployment["metadata"]["namespace"]
                account = pod.get("serviceAccountName", "default")
                return OperatorSpec(namespace, account, tuple(container.get("args", ())))
    return None


class Keeper:
    """Keeps the operator's process as the Deployments specify."""

    def __init__(self, layout: Layout, program: Path) -> None:
        self._layout = layout
        self._program = program
        self._daemon = Daemon(OPERATOR, layout.folder)
        self._news: queue.Queue[OperatorSpec | None] = queue.Queue()
        self._running: OperatorSpec | None = None
        self._started_s = 0.0
        self._failures = 0

    def run(self) -> NoReturn:
        """Runs until the process is ended, then ends the operator."""
        # a killed keeper may have left one
        self._daemon.stop()
        threading.Thread(target=self._watch, daemon=True).start()
        target: OperatorSpec | None = None
        try:
            while True:
                with contextlib.suppress(queue.Empty):
                    target = self._news.get(timeout=CHECK_S)
                self._bring_to(target)
        finally:
            self._daemon.stop()

    def _bring_to(self, target: OperatorSpec | None) -> None:
        """Stops or starts the operator if necessary."""
        if target != self._running:
            self._daemon.stop()
            self._running = target
            self._failures = 0
            say(f"operator to run: {target}" if target else "no Deployment has the operator")
            if target:
                self._start(target)
        elif target and self._daemon.pid() is None and self._pause_is_over():
            self._start(target)

    def _start(self, target: OperatorSpec) -> None:
        """Starts the operator. Deletes the lease of its dead predecessor, which would expire after 15 s."""
        config = self._layout.folder / "mpi-operator.kubeconfig"
        kubeconfig.write(config, kubeconfig.render(self._layout, "admin", (target.namespace, target.account)))
        try:
            with Api(self._layout) as api:
                api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{target.namespace}/leases/{OPERATOR}")
        except (ApiError, OSError, HTTPException) as error:
            say(f"cannot delete the lease of the last operator: {error}")
        health = f"{self._layout.address}:{self._layout.operator_port}"
        env = {**environment(self._layout), HEALTH_ADDRESS: health, "KUBECONFIG": str(config)}
        self._daemon.start([str(self._program), *target.arguments], env)
        self._started_s = time.monotonic()

    def _pause_is_over(self) -> bool:
        """Whether the next start is due; counts failures."""
        if time.monotonic() - self._started_s > HEALTHY_S:
            self._failures = 0
        pause = PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]
        if time.monotonic() - self._started_s < pause:
            return False
        self._failures += 1
        say(f"operator ended by itself, starting it again\n{self._daemon.last_words()}")
        return True

    def _watch(self) -> None:
        """Sends the main thread a new specification when the Deployments change."""
        while True:
            try:
                with Api(self._layout) as api:
                    listed = api.get(DEPLOYMENTS) or {}
                found = {item["metadata"]["uid"]: item for item in listed["items"]}
                self._news.put(operator_spec(list(found.values())))
                version = listed["metadata"]["resourceVersion"]
                for event in api.watch(DEPLOYMENTS, {"resourceVersion": version}):
                    if event["type"] == "ERROR":
                        break
                    item = event["object"]
                    found.pop(item["metadata"]["uid"], None)
                    if event["type"] != "DELETED":
                        found[item["metadata"]["uid"]] = item
                    self._news.put(operator_spec(list(found.values())))
            except (ApiError, OSError, HTTPException, ValueError, KeyError) as error:
                say(f"API server: {type(error).__name__}: {error}")
                time.sleep(1)


def say(text: str) -> None:
    """Writes a log entry."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


def command(layout: Layout) -> tuple[str, ...]:
    """The command line of a cluster's keeper, which changes with each build of the operator."""
    program = str((layout.binaries / OPERATOR).resolve())
    places = ("--state", str(layout.state), "--operator", program, "--address", layout.address)
    return (sys.executable, "-m", "simulator.plane.keeper", *places)


def main() -> None:
    """Entry point of the keeper's process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--operator", type=Path, required=True)
    parser.add_argument("--address", required=True)
    given = parser.parse_args()
    # so that a dead operator, which is a child, does not stay a zombie
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    layout = Layout(given.state, given.operator.parent, given.address)
    try:
        Keeper(layout, given.operator).run()
    except SimulatorError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

"""The control plane as a part of the simulator."""

import json
import shutil
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path

from simulator.part import SUSPENDED, Report, SimulatorError, Status, announced
from simulator.plane import cluster, components, keeper, kubeconfig, kubelets, nodes, recordings
from simulator.plane.api import Api, ApiError
from simulator.plane.components import Component
from simulator.plane.layout import ADDRESS, Layout
from simulator.plane.upstream import ENGINE
from simulator.process import Daemon, refuse_a_taken_port
from stacks.lab import Lab
from stacks.words import plural

START_S = 90
"""Bound on one start, which takes 3 s on idle cores and much longer while two nodes boot."""
KUBELETS_S = 1800
"""The same with real kubelets, whose nodes boot meanwhile: a minute or two on idle cores."""
FAKE = ((keeper.NAME,), ("kwok", keeper.OPERATOR))
"""What replaces kubelets and their pods, in the order of stopping."""
CONTROLLERS = "service accounts (kube-controller-manager)"
STATUS_S = 2
"""Timeout of status requests: an API server without its database answers late or never."""


class ControlPlane:
    """A Kubernetes control plane with fake kubelets and the real MPI operator."""

    name = "control plane"

    def __init__(self, lab: Lab, state: Path, binaries: Path, *, address: str = ADDRESS, engine: Path = ENGINE) -> None:
        self._lab = lab
        self._layout = Layout(state.absolute(), binaries.absolute(), address)
        self._engine = engine
        self.nodes_failed = threading.Event()
        """Set by another part when a node does not start."""

    def up(self, report: Report) -> None:
        """Starts what does not run, updates the nodes to the lab file, and waits until everything answers."""
        layout = self._layout
        layout.folder.mkdir(parents=True, exist_ok=True)
        upstream = {} if self._lab.has_real_pods else self._kwok_manifests(report)
        if not layout.pki(layout.address).exists():
            from simulator.plane import pki  # noqa: PLC0415  # takes a fifth of a second, and is needed once

            pki.issue(layout.folder / "pki", layout.address)
            report("created certificates")
        if self._lab.has_real_pods:
            kubelets.make_api_identity(self._lab, layout)
        else:
            recordings.write_cri(layout.folder / "recordings")
        self._write_kubeconfigs()
        self._end_what_has_changed(report)
        self._resume(report)
        try:
            started = self._start(upstream, report)
        except (ApiError, OSError, HTTPException) as error:
            raise SimulatorError(
                f"{layout.api_url} stopped answering ({error}); see sim status and sim logs kube-apiserver, "
                "then run this again"
            ) from None
        self._last_up.touch()
        lab_nodes = plural(len(self._lab.active_nodes), "node")
        report(f"{'ready' if started else 'was ready'}: {layout.api_url}, {lab_nodes}")

    def _kwok_manifests(self, report: Report) -> dict[str, Path]:
        with announced("fetching kwok's manifests", report):
            return cluster.upstream_files(self._engine / "go")

    def _start(self, upstream: dict[str, Path], report: Report) -> bool:
        """Starts database and API server, then the rest; returns whether anything had to be started."""
        layout = self._layout
        apiserver = components.apiserver(layout, self._lab)
        if self._ensure(components.etcd(layout), report):
            if self._daemon(apiserver.name).has_died:
                report(f"{apiserver.name} had died; started again")
            # otherwise it takes 20 s to reconnect to its database, or 10 s to end after SIGTERM
            self._daemon(apiserver.name).stop(patience_s=1)
        started = self._ensure(apiserver, report)
        with Api(layout) as api, Api(layout, port=layout.kubelet_port) as kubelet:
            self._daemon(apiserver.name).wait_until(
                lambda: api.answers("/readyz"), START_S, f"answer on {layout.api_url}", report
            )
            started |= self._start_the_rest(api, kubelet, upstream, report)
        return started

    def _start_the_rest(self, api: Api, kubelet: Api, upstream: dict[str, Path], report: Report) -> bool:
        """Starts what needs an API server and waits for it; returns whether anything had to be started."""
        layout, lab = self._layout, self._lab
        started = self._ensure(components.controller_manager(layout), report)
        started |= self._ensure(components.scheduler(layout), report)
        if lab.has_real_pods:
            for group in FAKE:  # of another lab
                self._stop(group)
            cluster.let_names_be_looked_up(api)
            cluster.place_nodes(api, lab, layout, report)
            cluster.wait_until(lambda: cluster.controllers_work(api), START_S, CONTROLLERS, report)
            self._wait_for_nodes(api, KUBELETS_S, report)
            cluster.wait_for_pods(api, START_S, report)
            return started
        kwok = components.kwok(layout, lab)
        if self._daemon(kwok.name).pid() is None:
            cluster.free_nodes(api, lab)
        cluster.look_back(api, self._last_up_time(), report)
        cluster.install_kwok(api, upstream, report)
        cluster.show_recording(api, lab, layout.folder / "recordings", recordings.DEFAULT)
        cluster.place_nodes(api, lab, layout, report)
        started |= self._ensure(kwok, report)
        started |= self._ensure(self._keeper(), report)
        self._daemon(kwok.name).wait_until(
            lambda: kubelet.answers("/healthz"), START_S, "answer of the fake kubelet", report
        )
        cluster.wait_until(lambda: cluster.controllers_work(api), START_S, CONTROLLERS, report)
        self._wait_for_nodes(api, START_S, report)
        cluster.wait_for_pods(api, START_S, report)
        return started

    def _wait_for_nodes(self, api: Api, timeout_s: float, report: Report) -> None:
        def ready() -> bool:
            if self.nodes_failed.is_set():
                raise SimulatorError("a node did not start, so the control plane no longer waits for its kubelet")
            return cluster.nodes_are_ready(api, self._lab, self._layout)

        names = ", ".join(node.name for node in self._lab.active_nodes)
        cluster.wait_until(ready, timeout_s, f"ready nodes {names}", report)

    def _resume(self, report: Report) -> None:
        names = [*(component.name for component in self._components()), keeper.OPERATOR]
        if resumed := [name for name in names if self._daemon(name).resume()]:
            report(f"a signal had suspended {', '.join(resumed)}: all continue")

    @property
    def _last_up(self) -> Path:
        """A file whose modification time is the end of the last successful `up`."""
        return self._layout.folder / "last-up"

    def _last_up_time(self) -> datetime:
        try:
            return datetime.fromtimestamp(self._last_up.stat().st_mtime, UTC)
        except FileNotFoundError:
            return datetime.now(UTC)  # the first `up`

    def replay(self, recording: str) -> None:
        """Makes launchers in the benchmark namespace show another recording until the next `up`."""
        with Api(self._layout) as api:
            cluster.show_recording(api, self._lab, self._layout.folder / "recordings", recording)

    def status(self) -> list[Status]:
        """A line per process."""
        own = self._kubelets_status() if self._lab.has_real_pods else self._operator_status()
        return [*(self._status(component) for component in self._components()), own]

    def reset(self, report: Report) -> None:
        """Deletes the cluster's content and starts an empty cluster; certificates and kubeconfig stay valid."""
        self.down(report)
        shutil.rmtree(self._layout.folder / "etcd", ignore_errors=True)
        report("deleted the content")
        self.up(report)

    def down(self, report: Report) -> None:
        """Stops all processes: first those that would restart or report others, the database last."""
        clients = ["kube-scheduler", "kube-controller-manager"]
        ended = [group for group in (*FAKE, clients, ["kube-apiserver"], ["etcd"]) if self._stop(group)]
        report("stopped" if ended else "was not running")

    def _stop(self, names: Iterable[str]) -> bool:
        """Stops processes in parallel; returns whether any ran."""
        daemons = [self._daemon(name) for name in names]
        ran = any(daemon.pid() is not None for daemon in daemons)
        with ThreadPoolExecutor() as pool:
            list(pool.map(Daemon.stop, daemons))
        return ran

    def _components(self) -> list[Component]:
        layout, lab = self._layout, self._lab
        return [
            components.etcd(layout),
            components.apiserver(layout, lab),
            components.controller_manager(layout),
            components.scheduler(layout),
            *([] if lab.has_real_pods else [components.kwok(layout, lab), self._keeper()]),
        ]

    def _keeper(self) -> Component:
        root = str(Path(__file__).parents[2])
        env = {**components.environment(self._layout), "PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"}
        return Component(keeper.NAME, keeper.command(self._layout), None, env)

    def _daemon(self, name: str) -> Daemon:
        return Daemon(name, self._layout.folder)

    def _write_kubeconfigs(self) -> None:
        layout = self._layout
        kubeconfig.write(layout.kubeconfig, kubeconfig.render(layout, "admin"))
        for client in ("controller-manager", "scheduler", *([] if self._lab.has_real_pods else ["kwok"])):
            kubeconfig.write(layout.folder / f"{client}.kubeconfig", kubeconfig.render(layout, client))

    def _end_what_has_changed(self, report: Report) -> None:
        """Stops all processes if any program or its flags have changed, because they depend on each other."""
        changed = [
            component.name
            for component in self._components()
            if self._daemon(component.name).pid() is not None and self._started_as(component) != _as_text(component)
        ]
        if changed:
            report(f"restarting everything: program or flags of {', '.join(changed)} have changed")
            self.down(lambda _: None)

    def _ensure(self, component: Component, report: Report) -> bool:
        """Starts a component unless it runs; returns whether it did."""
        daemon = self._daemon(component.name)
        if daemon.pid() is not None:
            return False
        if daemon.pid_file.exists():
            report(f"{component.name} had died; started again")
        if not Path(component.command[0]).exists():
            raise SimulatorError(f"{component.name}: {Path(component.command[0]).name} is not built. Run: make setup")
        if component.port is not None:
            refuse_a_taken_port(component.name, self._layout.address, component.port)
        daemon.start(component.command, component.env)
        self._record(component).write_text(_as_text(component))
        return True

    def _record(self, component: Component) -> Path:
        return self._layout.folder / f"{component.name}.command"

    def _started_as(self, component: Component) -> str:
        try:
            return self._record(component).read_text()
        except FileNotFoundError:
            return ""

    def _status(self, component: Component) -> Status:
        daemon = self._daemon(component.name)
        address = f"{self._layout.address}:{component.port}" if component.port else "-"
        if trouble := daemon.trouble(component.name, address):
            return trouble
        pid = daemon.pid()
        if component.name == "kube-apiserver" and not self._answers():
            return Status(component.name, address, "not answering", daemon.last_words(), pid)
        return Status(component.name, address, "running", self._nodes() if component.name == "kwok" else "", pid)

    def _kubelets_status(self) -> Status:
        if self._daemon("kube-apiserver").pid() is None:
            return Status("kubelets", "-", "stopped")
        return Status("kubelets", "-", "running", self._nodes())

    def _operator_status(self) -> Status:
        """The operator's line. It need not run until something deploys it."""
        daemon = self._daemon(keeper.OPERATOR)
        address = f"{self._layout.address}:{self._layout.operator_port}"
        if (pid := daemon.pid()) is not None:
            if daemon.is_suspended:
                return Status(keeper.OPERATOR, address, "not answering", SUSPENDED, pid)
            return Status(keeper.OPERATOR, address, "running", "", pid)
        if daemon.pid_file.exists() and self._daemon(keeper.NAME).pid() is not None:
            return Status(keeper.OPERATOR, address, "died", daemon.last_words())
        if self._daemon(keeper.NAME).pid() is not None:
            return Status(keeper.OPERATOR, address, "idle", "no Deployment has it")
        return Status(keeper.OPERATOR, address, "stopped")

    def _answers(self) -> bool:
        with Api(self._layout, timeout_s=STATUS_S) as api:
            return api.answers("/readyz")

    def _nodes(self) -> str:
        try:
            with Api(self._layout, timeout_s=STATUS_S) as api:
                found = api.items(f"/api/v1/nodes?labelSelector={nodes.SIMULATED}")
        except (ApiError, OSError, HTTPException):
            return ""
        return f"{sum(map(nodes.is_usable, found))} of {plural(len(found), 'node')} ready"


def _as_text(component: Component) -> str:
    return json.dumps([component.command, dict(component.env)])

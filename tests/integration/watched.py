"""What the watch's timer writes on nodes, as a Prometheus reads it, and the alerts that it raises."""

import math
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from stacks.read import read_stack_file
from tests.components.metrics.promtool import assert_alerts
from tests.integration.stack import on_node

TEXTFILES = "/var/lib/prometheus/node-exporter"
"""Debian's package of node_exporter makes this folder."""
SHOWN_WITHIN_S = 60
"""Real hosts have 15 seconds; an emulated node that shares two cores with another test has taken longer."""
ALERTS_WITHIN_S = 38
"""What is removed must stay away for 30 seconds until it is an alert."""
SCRAPE_S = 5
CLOCKS = ("rocelab_watch_timestamp_seconds", "rocelab_boot_time_seconds")
UP = re.compile(r'rocelab_port_up\{.*node="(?P<node>[^"]+)",rail="(?P<rail>[^"]+)"')


def make_textfile_folders(nodes: Sequence[str]) -> None:
    """Makes the folder that node_exporter reads; a node that starts from its snapshot has lost it."""
    for node in nodes:
        on_node(node, f"sudo mkdir -p {TEXTFILES}")


class Scrapes:
    """What a Prometheus reads of the files that both nodes' timers write."""

    def __init__(self, nodes: Sequence[str], sockets: str) -> None:
        """Reads nothing yet.

        Args:
            nodes: names in the simulator's ssh configuration.
            sockets: folder for the connections, with a short path: that of a socket has 108 bytes at most.
        """
        self.nodes = nodes
        self.begun_s = time.time()
        self.sockets = sockets
        self.taken: list[tuple[float, dict[str, float]]] = []

    def take(self) -> dict[str, float]:
        """Series and values, each clock in seconds since the begin; none of a node that does not answer."""
        samples = {}
        for node in self.nodes:
            try:
                text = on_node(node, f"cat {TEXTFILES}/*.prom", SCRAPE_S * 2, self.one_connection())
            except (AssertionError, subprocess.TimeoutExpired):
                continue
            for line in text.splitlines():
                if line.startswith("#"):
                    continue
                series, _, value = line.rpartition(" ")
                samples[series] = float(value)
                if series.startswith(CLOCKS):
                    samples[series] -= self.begun_s
        self.taken.append((self.now_s(), samples))
        return samples

    def one_connection(self) -> list[str]:
        """Options of ssh for one connection per node: each login costs an emulated node more than the read itself."""
        shared = ["-o", "ControlMaster=auto", "-o", f"ControlPath={self.sockets}/%h-%p", "-o", "ControlPersist=60"]
        return [*shared, "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2"]

    def now_s(self) -> float:
        return time.time() - self.begun_s

    def until(self, faults: set[str], within_s: float) -> float:
        """Seconds until the files say that exactly these ports and nodes are faulty."""
        begun_s = self.now_s()
        while self.faults_in(self.take()) != faults:
            assert self.now_s() - begun_s < within_s, f"not {faults} within {within_s} s: {self.taken[-1]}"
            time.sleep(0.5)
        return self.now_s() - begun_s

    def go_on(self, seconds: float) -> int:
        """The second at which it ends."""
        end_s = self.now_s() + seconds
        while self.now_s() < end_s:
            self.take()
            time.sleep(SCRAPE_S / 2)
        return int(self.now_s())

    @contextmanager
    def during(self) -> Iterator[None]:
        """Goes on beside what else a test does."""
        ended = threading.Event()

        def scrape() -> None:
            while not ended.wait(SCRAPE_S / 2):
                self.take()

        scraping = threading.Thread(target=scrape)
        scraping.start()
        try:
            yield
        finally:
            ended.set()
            scraping.join()

    def series(self, quiet_s: int) -> dict[str, str]:
        """All values in promtool's notation; at the end the last ones stay while the clock goes on."""
        read = self._by_step()
        last = self.taken[-1][1]
        names = {name for samples in read for name in samples}
        series = {}
        for name in names:
            values = [str(samples.get(name, "_")) for samples in read]
            if name in last:
                change = SCRAPE_S if name.startswith(CLOCKS[0]) else 0
                values.append(f"{last[name]}+{change}x{quiet_s // SCRAPE_S}")
            series[name] = " ".join(values)
        return series

    def _by_step(self) -> list[dict[str, float]]:
        """What a Prometheus that reads every SCRAPE_S seconds would have read."""
        coming = iter(self.taken)
        next_s, next_samples = next(coming)
        newest: dict[str, float] = {}
        steps = []
        for second in range(0, int(self.now_s()), SCRAPE_S):
            while next_s <= second:
                newest = next_samples
                next_s, next_samples = next(coming, (math.inf, {}))
            steps.append(newest)
        return steps

    def assert_alerts(self, stack_file: Path, prometheus: Path, folder: Path, expected: Mapping[int, set[str]]) -> None:
        """Asserts which alerts of the lab fire, and no others, by second; the last one may lie ahead."""
        series = self.series(max(expected))
        lab = read_stack_file(stack_file)
        assert_alerts(prometheus / "promtool", folder, lab, series, expected, step_s=SCRAPE_S)

    def faults_in(self, samples: Mapping[str, float]) -> set[str]:
        """Nodes without a file, and ports without a link, or with a link and without RDMA."""
        faults = set()
        for node in self.nodes:
            if not any(series.startswith(CLOCKS[0]) and f'"{node}"' in series for series in samples):
                faults.add(f"silent {node}")
        for series, up in samples.items():
            port = UP.match(series)
            if port is None:
                continue
            active = samples[series.replace("rocelab_port_up", "rocelab_port_rdma_active")]
            if up == 0:
                faults.add(f"up {port['node']} {port['rail']}")
            elif active == 0:
                faults.add(f"rdma_active {port['node']} {port['rail']}")
        return faults

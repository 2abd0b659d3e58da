"""A real Prometheus scrapes a real node_exporter that reads the files of a host's timer."""

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document
from components.hosts.program.look.read_only import ReadOnly
from components.hosts.program.watch import write
from components.metrics.prometheus import rules_of
from stacks.lab import Lab
from stacks.safe_yaml import to_yaml
from tests.components.audit.spoilt import lab as hardware_lab
from tests.components.inventory.tree import FIRST, NAMES, SECOND, Tree

pytestmark = pytest.mark.sim
SHOWN_WITHIN_S = 15
READY_S = 30


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def ask(port: int, path: str, **query: str) -> Any:
    url = f"http://127.0.0.1:{port}{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)["data"]


def until(ready: Any, within_s: float) -> float:
    """Seconds until a condition holds."""
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < within_s:
        try:
            if ready():
                return time.monotonic() - begun_s
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"not within {within_s} s")


@pytest.fixture
def host(tmp_path: Path) -> tuple[Tree, dict[str, Any], Lab]:
    """A server that is a folder, and what its lab asks of it."""
    tree = Tree(tmp_path)
    tree.file("/proc/stat", f"btime {int(time.time()) - 86_400}\n")
    for address in (FIRST, SECOND):
        tree.file(f"/sys/class/net/{NAMES[address]}/carrier_down_count", "1\n")
    asked = hardware_lab(hosts=1, rails=2).model_dump(mode="json")
    for pf, address in zip(asked["nodes"][0]["pfs"], (FIRST, SECOND), strict=True):
        pf["pci"] = address
    asked["nodes"][0]["gpus"] = 1
    asked["system"]["watch"] = {"folder": "/node"}
    tree.file("/node/empty", "")
    lab = Lab.model_validate(asked)
    return tree, host_document(lab, lab.nodes[0]), lab


@pytest.fixture
def server(prometheus: Path, tmp_path: Path, host: tuple[Tree, dict[str, Any], Lab]) -> Iterator[int]:
    """The port of a Prometheus with the lab's rules."""
    tree, _, lab = host
    exporter, port = free_port(), free_port()
    (tmp_path / "rules.yml").write_text(to_yaml(rules_of(lab)))
    scrape = {"job_name": "nodes", "static_configs": [{"targets": [f"127.0.0.1:{exporter}"]}]}
    intervals = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = {"global": intervals, "rule_files": ["rules.yml"], "scrape_configs": [scrape]}
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    textfile = ["--collector.disable-defaults", "--collector.textfile", "--collector.textfile.directory"]
    commands = (
        [
            str(prometheus / "prometheus-node-exporter"),
            *textfile,
            str(tree.root / "node"),
            f"--web.listen-address=127.0.0.1:{exporter}",
        ],
        [
            str(prometheus / "prometheus"),
            f"--config.file={tmp_path}/prometheus.yml",
            f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
    )
    with ExitStack() as stack:
        for command in commands:
            process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            stack.callback(process.kill)
        until(lambda: ask(port, "/api/v1/rules")["groups"], READY_S)
        yield port


def test_a_flap_and_a_link_that_is_down_show_in_prometheus_in_time(
    host: tuple[Tree, dict[str, Any], Lab], server: int
) -> None:
    tree, document, _ = host
    machine = ReadOnly(str(tree.root), str(tree.programs))

    def alerts() -> set[tuple[str, str]]:
        firing = [one for one in ask(server, "/api/v1/alerts")["alerts"] if one["state"] == "firing"]
        return {(one["labels"]["alertname"], one["labels"].get("rail", "")) for one in firing}

    def pass_time(until_alerts: set[tuple[str, str]], within_s: float) -> float:
        def reached() -> bool:
            write(machine, document, time.time())
            return alerts() == until_alerts

        return until(reached, within_s)

    write(machine, document, time.time())
    until(lambda: ask(server, "/api/v1/query", query="rocelab_port_up")["result"], READY_S)
    gpu_fault = ("RocelabGpuXid", "")  # the folder's kernel log has an Xid 79
    pass_time({gpu_fault}, READY_S)
    rules = [rule for group in ask(server, "/api/v1/rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}, [rule for rule in rules if rule["health"] != "ok"]

    tree.file(f"/sys/class/net/{NAMES[FIRST]}/carrier_down_count", "2\n")
    flap_s = pass_time({gpu_fault, ("RocelabLinkFlap", "rail-1")}, SHOWN_WITHIN_S)
    tree.file(f"/sys/class/net/{NAMES[SECOND]}/carrier", "0\n")
    pass_time({gpu_fault, ("RocelabLinkFlap", "rail-1"), ("RocelabLinkDown", "rail-2")}, 15 + SHOWN_WITHIN_S)
    print(f"the flap was an alert after {flap_s:.1f} s")

"""The runner by hand against simulated SSH hosts: what a kill costs, what a signal ends, and who goes first."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.hosts.running import ManyHosts, many_hosts
from tests.conftest import ROOT

pytestmark = [pytest.mark.sim, pytest.mark.whole]

COUNT = 8
FIRST, PORT = IPv4Address("127.1.245.1"), 2222
RUN_S = 0.3
"""Of each test: long enough to be killed between rounds."""
ASKED = {"tests": ["ib_write_bw"], "sizes": [], "queue_pairs": 1, "iterations": 1000}


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[ManyHosts]:
    with many_hosts(tmp_path / "hosts", COUNT, FIRST, PORT, run_s=RUN_S) as running:
        edit(running, {"repeats": 1, "verbs": ASKED})
        yield running


def edit(hosts: ManyHosts, benchmarks: dict[str, Any]) -> None:
    content = yaml.safe_load(hosts.stack_file.read_text())
    content["config"]["rocelab:lab"]["benchmarks"] = benchmarks
    hosts.stack_file.write_text(yaml.safe_dump(content))


def started(hosts: ManyHosts, *options: str, stderr: int = subprocess.STDOUT) -> "subprocess.Popen[str]":
    """The runner by hand, in a folder of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "components.cli", "measure", "--config-file", str(hosts.stack_file), *options],
        cwd=hosts.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def clients(hosts: ManyHosts) -> Counter[str]:
    """How often each transfer ran to its end."""
    return Counter(line for line in hosts.commands() if " ib_write_bw " in line)


def clients_at_rest(hosts: ManyHosts) -> Counter[str]:
    """The same, once the transfers that a killed run had begun are over."""
    while True:
        counted = clients(hosts)
        time.sleep(2 * RUN_S + 1)
        if clients(hosts) == counted:
            return counted


def wait_for_transfers(hosts: ManyHosts, count: int, run: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 120
    while sum(clients(hosts).values()) < count:
        assert run.poll() is None, "it ended before"
        assert time.monotonic() < deadline, f"no {count} transfers"
        time.sleep(0.05)


def test_a_killed_run_holds_nothing_and_the_next_one_measures_everything(hosts: ManyHosts) -> None:
    run = started(hosts)
    wait_for_transfers(hosts, 16, run)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    before = clients_at_rest(hosts)

    again = started(hosts, "--json", stderr=subprocess.PIPE)
    document, errors = again.communicate(timeout=120)

    assert again.returncode == 0, errors
    transfers = json.loads(document)["record"]["transfers"]
    assert len(transfers) == COUNT * (COUNT - 1) * 2
    repeated = clients(hosts) - before
    assert len(repeated) == len(transfers)
    warmed_up = COUNT // 2 * 2  # the pairs of the first round on both rails, which run once more and do not count
    assert sum(repeated.values()) == len(transfers) + warmed_up


def test_a_signal_ends_a_run_cleanly_and_the_hosts_are_free_again(hosts: ManyHosts) -> None:
    run = started(hosts)
    wait_for_transfers(hosts, 16, run)
    run.terminate()

    said, _ = run.communicate(timeout=120)
    assert run.returncode == 130, said
    part = started(hosts, "--only", "gpu0001", "--only", "gpu0002", "--only", "rail-a")
    said, _ = part.communicate(timeout=120)
    assert part.returncode == 0, said
    assert "ib_write_bw 2 rounds" in said


def test_two_runs_at_once_do_not_share_the_fabric(hosts: ManyHosts) -> None:
    edit(hosts, {"repeats": 5, "verbs": ASKED})  # long enough for the second to come while the first is at work
    first = started(hosts)
    wait_for_transfers(hosts, 8, first)

    second = started(hosts)
    said, _ = second.communicate(timeout=120)
    assert second.returncode == 4, said
    assert "busy: run" in said
    first.terminate()
    first.communicate(timeout=120)

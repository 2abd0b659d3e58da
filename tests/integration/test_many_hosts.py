"""The real engine and eight simulated hosts of which some misbehave: the others must not notice."""

import json
import shutil
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from simulator.hosts.bench import STATE_KBYTE, state_bytes
from simulator.hosts.running import ManyHosts, many_hosts
from tests.conftest import ROOT
from tests.integration.conftest import require_engine
from tests.integration.stack import Stack, environment
from tests.messages import lines_naming

pytestmark = pytest.mark.sim

COUNT = 8
FIRST, PORT = IPv4Address("127.1.250.1"), 2222
REVERT_AFTER_S = 8


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyHosts]:
    require_engine()
    with many_hosts(tmp_path_factory.mktemp("many") / "hosts", COUNT, FIRST, PORT) as running:
        yield running


@pytest.fixture(scope="module")
def stack(hosts: ManyHosts) -> Stack:
    return made(hosts)


def made(hosts: ManyHosts) -> Stack:
    """A new stack of these hosts, with a state of its own."""
    state: Path = hosts.folder / "state"
    state.mkdir()
    shutil.copy(ROOT / "Pulumi.yaml", hosts.folder)
    env = {**environment("lab"), "PULUMI_BACKEND_URL": f"file://{state}"}
    stack = Stack(hosts.stack, hosts.folder, env)
    stack.run("pulumi", "stack", "init", hosts.stack, cwd=hosts.folder).succeeded()
    return stack


def told(hosts: ManyHosts, **faults: str) -> None:
    hosts.faults_file.write_text(json.dumps(faults))


def test_a_slow_host_and_a_failed_one_cost_the_others_nothing(hosts: ManyHosts, stack: Stack) -> None:
    told(hosts, gpu0003="failed vfs", gpu0005=f"slow {REVERT_AFTER_S * 2}")

    def soon(lab: dict[str, object]) -> None:
        lab["hosts"] = {"revert_after_s": REVERT_AFTER_S}

    with stack.edited(soon):
        done = stack.up().succeeded()
        told(hosts)

    results = stack.outputs()["hosts"]
    assert {name for name, result in results.items() if result["status"] == "ready"} == {
        f"gpu000{number}" for number in (1, 2, 4, 5, 6, 7, 8)
    }
    assert results["gpu0003"]["status"] == "failed"
    assert results["gpu0003"]["step"] == "vfs"
    asked = hosts.commands()
    assert asked.count("gpu0001 apply") == 1, "its network was confirmed before the slow host had ended"
    assert "gpu0001: repairs" not in done.text


def test_the_next_run_starts_where_the_last_one_ended(hosts: ManyHosts, stack: Stack) -> None:
    def soon(lab: dict[str, object]) -> None:
        lab["hosts"] = {"revert_after_s": REVERT_AFTER_S}

    before = len(hosts.commands())
    with stack.edited(soon):
        stack.up().succeeded()
        stack.unchanged()

    assert {result["status"] for result in stack.outputs()["hosts"].values()} == {"ready"}
    applied = {line.split()[0] for line in hosts.commands()[before:] if line.endswith(" apply")}
    assert applied == {"gpu0003"}


def test_a_refresh_looks_at_each_host_once_and_changes_nothing(hosts: ManyHosts, stack: Stack) -> None:
    def soon(lab: dict[str, object]) -> None:
        lab["hosts"] = {"revert_after_s": REVERT_AFTER_S}

    before = len(hosts.commands())
    with stack.edited(soon):
        stack.up("--refresh", "--expect-no-changes").succeeded()

    assert sorted(hosts.commands()[before:]) == [f"gpu000{number} probe" for number in range(1, COUNT + 1)]


def test_the_state_of_a_host_stays_small(stack: Stack) -> None:
    exported = stack.run("pulumi", "stack", "export", "--stack", stack.name).succeeded().text

    # what does not grow with hosts is part of it, so with many the figure only falls
    assert state_bytes(exported) / COUNT / 1000 < STATE_KBYTE


FLEET = "urn:pulumi:scale::rocelab::rocelab:hosts:Hosts$rocelab:hosts:Fleet::hosts-fleet"
COMMAND = "urn:pulumi:scale::rocelab::rocelab:hosts:Hosts$command:remote:Command::hosts-gpu0002"


def test_one_host_or_the_fleet_alone_is_updated_and_a_replaced_fleet_keeps_its_hosts(
    hosts: ManyHosts, stack: Stack
) -> None:
    def smaller(lab: dict[str, object]) -> None:
        lab["hosts"] = {"revert_after_s": REVERT_AFTER_S}
        rails = lab["rails"]
        assert isinstance(rails, list)
        rails[0]["mtu_bytes"] = 4200

    with stack.edited(smaller):
        before = len(hosts.commands())
        stack.up("--target", COMMAND).succeeded()
        assert sorted(hosts.commands()[before:]) == ["gpu0002 apply", "gpu0002 confirm"]

        stack.up("--target", FLEET).succeeded()
        assert {result["status"] for result in stack.outputs()["hosts"].values()} == {"ready"}

        before = len(hosts.commands())
        stack.up("--target-replace", FLEET).succeeded()
        last = {line.split()[0]: line.split()[1] for line in hosts.commands()[before:]}
        assert set(last.values()) == {"confirm"}, "a host was undone after it had been set up"
        assert len(last) == COUNT
        stack.up().succeeded()
        stack.unchanged()


def test_a_resource_that_left_the_state_is_made_again_and_none_is_imported(hosts: ManyHosts, stack: Stack) -> None:
    def soon(lab: dict[str, object]) -> None:
        lab["hosts"] = {"revert_after_s": REVERT_AFTER_S}

    with stack.edited(soon):
        stack.up().succeeded()
        stack.run("pulumi", "state", "delete", FLEET, "--yes", "--stack", stack.name).succeeded()
        assert "1 created" in stack.up().succeeded().text
        stack.unchanged()

        words = ["pulumi", "import", "rocelab:hosts:Fleet", "other", "hosts-fleet", "--yes"]
        refused = stack.run(*words, "--stack", stack.name, "--config-file", str(stack.file)).failed()
        assert lines_naming(refused.text, "rocelab:hosts:Fleet", "cannot be imported", "pulumi up")


ROUTED_COUNT = 64
RING = {"tests": ["ib_write_bw"], "sizes": [], "queue_pairs": 1, "iterations": 1000, "schedule": "ring"}


@pytest.mark.whole
def test_64_hosts_on_8_routed_rails_without_pods_are_built_measured_and_then_left_alone(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    require_engine()
    folder = tmp_path_factory.mktemp("routed") / "hosts"
    with many_hosts(folder, ROUTED_COUNT, IPv4Address("127.1.249.1"), PORT, "routed", routed=True) as running:
        stack = made(running)

        def measured(lab: dict[str, object]) -> None:
            lab["benchmarks"] = {"repeats": 1, "verbs": RING}

        with stack.edited(measured):
            stack.up().succeeded()
            outputs = stack.outputs()
            stack.unchanged()

        assert {result["status"] for result in outputs["hosts"].values()} == {"ready"}
        assert outputs["validation"]["function"] == "pass"
        clients = {line for line in running.commands() if " ib_write_bw 172.16." in line}
        assert len(clients) == 8 * ROUTED_COUNT * 2
        exported = stack.run("pulumi", "stack", "export", "--stack", stack.name).succeeded().text
        # the bound is that of a host with two PFs, and these have eight
        assert state_bytes(exported) / (8 * ROUTED_COUNT) / 1000 < STATE_KBYTE / 2

"""Faults on the hosts of the simulator, some of them while the engine is at work: what is told, and what is left."""

import asyncio
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.hosts.calls import Crew, HostCalls, Report
from components.hosts.document import target_record
from components.hosts.records import HostRecord
from components.hosts.repair import Outcome, converge, undo_all
from components.ssh.credentials import access_to, host_keys
from components.validation.benchmarks.plan import plan_of
from components.validation.measuring import measure
from components.validation.summary import Summary
from components.validation.verdict import judge
from stacks.access import read_private_key
from stacks.hosts import HostPolicy
from stacks.lab import Lab
from tests.conftest import ROOT
from tests.integration.conftest import sim
from tests.integration.stack import Stack, environment, on_node
from tests.messages import lines_naming

pytestmark = [pytest.mark.sim, pytest.mark.whole]

PF = "/sys/class/net/enp5s0"
TOS = "/sys/kernel/config/rdma_cm/rxe0/ports/1/default_roce_tos"


def only_hosts(given: dict[str, Any]) -> None:
    """Hosts and verbs: a cluster has no part in these faults, and takes its time."""
    given.pop("cluster", None)
    given["benchmarks"].pop("nccl", None)
    given["qos"] = {}
    given["rails"][0]["host_gateway"] = "10.10.11.1"


class Rails:
    """The hosts without the engine, as its providers treat them."""

    def __init__(self, lab: Lab) -> None:
        given = lab.model_dump(mode="json")
        only_hosts(given)
        # one test is enough for a verdict, and what a pulled cable stops waits for its end
        given["benchmarks"]["verbs"].update(tests=["ib_write_bw"], sizes=[], timeout_s=20)
        self.lab = Lab.model_validate(given)
        keys = host_keys(self.lab, ROOT)
        self.records = {node.name: target_record(self.lab, node, keys[node.name]) for node in self.lab.nodes}
        self.hosts = HostCalls(read_private_key(self.lab.access, ROOT))

    def converge(self, **policy: Any) -> Outcome:
        crew = Crew(hosts=self.hosts, policy=HostPolicy(**policy), say=print)
        return asyncio.run(converge(crew, self.records, self.records, {}))

    def undo(self) -> dict[str, dict[str, str]]:
        crew = Crew(hosts=self.hosts, policy=HostPolicy(), say=print)
        return asyncio.run(undo_all(crew, self.records, {}))

    def call(self, node: str, verb: str, **changes: Any) -> Report:
        record: HostRecord = self.records[node]
        return asyncio.run(self.hosts.call(record.endpoint, verb, {**record.document, **changes}))

    def verdict(self) -> Summary:
        plan = plan_of(self.lab)
        assert plan is not None
        assert self.lab.benchmarks is not None
        access = asyncio.run(access_to(self.lab, ROOT, lambda _: None))
        run = asyncio.run(measure(plan, access, print))
        return judge(plan, self.lab.benchmarks, run.record).verdict()


@pytest.fixture(scope="module")
def rails(simulator: Path, lab: Lab) -> Iterator[Rails]:
    """Both nodes as the lab wants them, with quality of service and a routed rail; clean again afterwards."""
    del simulator
    made = Rails(lab)
    outcome = made.converge()
    assert {result["status"] for result in outcome.results.values()} == {"ready"}, outcome.results
    yield made
    assert {result["status"] for result in made.undo().values()} == {"undone"}


def until(holds: Callable[[], bool], within_s: float, what: str) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {within_s:.0f} s"
        time.sleep(0.5)


def test_quality_of_service_and_routing_hold_in_a_real_kernel(rails: Rails) -> None:
    assert on_node("gpu01", f"cat {TOS}") == "106"
    assert "dev enp5s0 table 100" in on_node("gpu01", "ip route get 10.99.0.1 from 10.10.11.11")
    qos: Any = rails.call("gpu01", "probe").facts["qos"]
    assert {pf: tool.partition(":")[0] for pf, tool in qos.items()} == dict.fromkeys(
        ("enp5s0", "enp132s0"), "soft-RoCE"
    )

    on_node("gpu01", f"echo 0 | sudo tee {TOS}; sudo ethtool -A enp5s0 rx on tx on; sudo ip rule del pref 10100")

    outcome = rails.converge()
    assert outcome.deviations["gpu01"] == ["enp5s0.routing", "enp5s0.global_pause", "enp5s0.roce_tos"]
    assert outcome.repaired == {"gpu01"}
    assert on_node("gpu01", f"cat {TOS}") == "106"


def test_an_unconfirmed_network_change_is_reverted_and_reported(rails: Rails) -> None:
    pfs: Any = rails.records["gpu02"].document["pfs"]
    smaller = [{**pf, "mtu_bytes": 4200} for pf in pfs]

    done = rails.call("gpu02", "apply", pfs=smaller, revert_after_s=1, only=["enp5s0.mtu_bytes", "enp132s0.mtu_bytes"])

    assert set(done.changed) == {"enp5s0.mtu_bytes", "enp132s0.mtu_bytes"}
    until(lambda: on_node("gpu02", f"cat {PF}/mtu /sys/class/net/enp132s0/mtu").split() == ["9000"] * 2, 60, "revert")
    until(lambda: "reverted" in rails.call("gpu02", "probe").facts, 30, "note")
    on_node("gpu02", "sudo ip link set enp5s0 mtu 4200")
    refused = rails.converge(repair="none").results["gpu02"]
    assert (refused["status"], refused["step"]) == ("failed", "drift")
    assert lines_naming(refused["reason"], "enp5s0", "reverted")
    assert rails.converge().results["gpu02"] == {"status": "ready"}


def test_a_pulled_cable_and_a_small_mtu_fail_the_verdict_by_rail_and_host_and_are_healed(rails: Rails) -> None:
    env = environment("lab")
    on_node("gpu02", "sudo ip link set enp5s0 mtu 1500")
    assert sim(env, "switch", "pull", "gpu01", "enp132s0").returncode == 0
    try:
        until(lambda: on_node("gpu01", "cat /sys/class/net/enp132s0/carrier") == "0", 30, "carrier")
        broken = rails.verdict()
    finally:
        assert sim(env, "switch", "plug", "gpu01", "enp132s0").returncode == 0

    assert broken.function == "fail"
    reasons = "\n".join(broken.reasons)
    assert re.search(r"rail-a.*1024.*4096|rail-a.*4096.*1024", reasons), reasons
    assert re.search(r"rail-b.*gpu01", reasons), reasons

    until(lambda: on_node("gpu01", "cat /sys/class/net/enp132s0/carrier") == "1", 30, "carrier")
    outcome = rails.converge()
    assert {result["status"] for result in outcome.results.values()} == {"ready"}
    assert "enp5s0.mtu_bytes" in outcome.deviations["gpu02"]
    assert "gpu02" in outcome.repaired
    healed = rails.verdict()
    assert healed.function == "pass", healed.reasons


def test_an_rdma_device_that_a_process_has_open_stays_until_it_ends(rails: Rails) -> None:
    opened = "exec ib_write_bw -d rxe0 -p 18999"
    with subprocess.Popen(
        ["ssh", "-F", str(ROOT / ".sim/nodes/ssh_config"), "-tt", "gpu02", opened],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as holding:
        try:
            until(lambda: ":18999" in on_node("gpu02", "ss -ltn"), 60, "server")
            failed = rails.call("gpu02", "undo").failed
        finally:
            holding.terminate()

    assert failed is not None
    assert lines_naming(str(failed["reason"]), "process", "rxe0")
    assert "rxe0" in on_node("gpu02", "sudo rdma link"), "to remove it would hang beyond any signal"
    until(lambda: not on_node("gpu02", "pgrep -x ib_write_bw || true"), 60, "end of the server")
    assert rails.call("gpu02", "undo").failed is None
    assert on_node("gpu02", f"sudo rdma link; cat {PF}/device/sriov_numvfs {PF}/mtu").split() == ["0", "1500"]
    assert on_node("gpu02", "ls /sys/kernel/config/rdma_cm; ip rule | grep -c 'proto 114' || true") == "0"


def test_an_engine_killed_while_it_measures_leaves_no_load_behind(rails: Rails, stack: Stack) -> None:
    del rails  # they are undone afterwards, since the killed run has kept nothing of what it did

    def long_measurement(given: dict[str, Any]) -> None:
        only_hosts(given)
        given["benchmarks"]["verbs"]["iterations"] = 5000

    def load() -> list[str]:
        return [node for node in ("gpu01", "gpu02") if on_node(node, "pgrep -x ib_write_bw || true")]

    with stack.edited(long_measurement):
        stack.killed(re.compile(r"Measurement .*creating"), when=lambda: until(lambda: bool(load()), 120, "load"))
    until(lambda: not load(), 90, "end of the load")
    recovered = stack.run("python", "-m", "engine.recover", stack.name, str(stack.folder / "state")).succeeded()
    assert lines_naming(recovered.text, "cleared", "lock")

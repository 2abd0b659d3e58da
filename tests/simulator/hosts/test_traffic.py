"""The made-up fabric of simulated hosts under the real runner: one host that is slow is named, on any rail."""

import asyncio
import json
import secrets
import socket
from ipaddress import IPv4Address
from pathlib import Path

import asyncssh
import pytest

from components.ssh.connection import Endpoint
from components.ssh.credentials import LabAccess, Login
from components.validation.benchmarks.plan import plan_of
from components.validation.measuring import Run, measure
from components.validation.summary import Summary
from components.validation.verdict import judge
from simulator.hosts.farm import Farm, places_of
from simulator.hosts.labfile import lab_of, ports_of, routed_lab_of
from stacks.benchmarks import Benchmarks, Verbs
from stacks.read import parse_lab

pytestmark = pytest.mark.sim

KEY = asyncssh.generate_private_key("ssh-ed25519")
COUNT = 8
ALL = ("ib_write_bw", "ib_send_bw", "ib_read_bw", "ib_write_lat", "ib_send_lat", "ib_read_lat")


def measured(
    folder: Path, verbs: Verbs, *, rated: bool, one_pair_share: float = 1.0, routed: bool = False, **faults: str
) -> tuple[Run, Summary]:
    """A run over eight hosts. `rated` takes their made-up speeds for those of hardware, to see what is made of them."""
    benchmarks = Benchmarks(repeats=1, budget_s=86_400, verbs=verbs)
    (folder / "faults.json").write_text(json.dumps(faults))

    async def whole() -> tuple[Run, Summary]:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = int(probe.getsockname()[1])
        names = [f"gpu{number:04}" for number in range(1, COUNT + 1)]
        places = places_of(names, IPv4Address(f"127.1.{secrets.randbelow(200) + 20}.1"))
        given = (routed_lab_of if routed else lab_of)("scale", places, port, folder)
        lab = parse_lab(json.dumps({**given, "benchmarks": benchmarks.model_dump(mode="json")}), "scale")
        farm = Farm(places, port, KEY, folder / "faults.json", ports=ports_of(lab))
        await farm.start()
        farm.traffic.one_pair_share = one_pair_share
        plan = plan_of(lab)
        assert plan
        plan = plan.model_copy(update={"simulated": not rated})
        keys = {name: " ".join(key.export_public_key().decode().split()[:2]) for name, key in farm.keys.items()}
        endpoints = {
            name: Endpoint(address=str(at), port=port, user="nvidia", host_key=keys[name])
            for name, at in places.items()
        }
        login = Login(private_key=KEY.export_private_key().decode(), endpoints=endpoints)
        try:
            run = await measure(plan, LabAccess(login=login, kubeconfig=None), lambda _: None)
        finally:
            await farm.stop()
        return run, judge(plan, benchmarks, run.record).verdict()

    return asyncio.run(whole())


@pytest.mark.row("C 338-341")
def test_every_test_and_shape_is_measured_on_the_simulated_hosts(tmp_path: Path) -> None:
    verbs = Verbs(tests=ALL, both_ways=True, incast=3, sizes=(2, 65_536), schedule="ring")
    run, summary = measured(tmp_path, verbs, rated=False)

    assert {t.reasons for t in run.record.transfers} == {()}
    assert {(t.test, t.shape) for t in run.record.transfers} == {
        *((test, "one_way") for test in ALL),
        *((test, "both_ways") for test in ALL[:3]),
        ("ib_write_bw", "sizes"),
        ("ib_write_lat", "sizes"),
        ("ib_write_bw", "incast"),
    }
    assert {t.queue_pairs for t in run.record.transfers if t.test.endswith("_bw")} == {1}, "more do not help here"
    assert all(name in run.raw for t in run.record.transfers for name in t.raw)
    assert (summary.function, summary.performance) == ("pass", "not rated"), summary.reasons


def test_a_host_whose_links_carry_half_is_named_as_the_cause(tmp_path: Path) -> None:
    verbs = Verbs(tests=("ib_write_bw",), sizes=(), queue_pairs=1)
    run, summary = measured(tmp_path, verbs, rated=True, gpu0003="carries 0.5")

    assert summary.function == "pass"
    assert summary.performance == "fail"
    assert [finding.where.split(",")[0] for finding in summary.findings if "gpu" in finding.where] == ["gpu0003"]
    assert any(t.retest for t in run.record.transfers if "gpu0003" in (t.client, t.server)), "measured again first"


def test_queue_pairs_are_doubled_until_more_do_not_help(tmp_path: Path) -> None:
    verbs = Verbs(tests=("ib_write_bw", "ib_write_lat"), sizes=(), schedule="ring")
    run, _ = measured(tmp_path, verbs, rated=False, one_pair_share=0.3)

    bandwidths = [t for t in run.record.transfers if t.test == "ib_write_bw"]
    assert {t.queue_pairs for t in bandwidths} == {4}
    assert min(t.value for t in bandwidths) > 0.9
    assert {t.queue_pairs for t in run.record.transfers if t.test == "ib_write_lat"} == {None}
    tried = {int(name.split("/")[0].removeprefix("queue-pairs-")) for name in run.raw if "queue-pairs" in name}
    assert tried == {1, 2, 4, 8, 16}, "the runs that no longer helped are evidence too"


@pytest.mark.parametrize("rated", [True, False])
def test_sound_hosts_accuse_no_part(tmp_path: Path, *, rated: bool) -> None:
    verbs = Verbs(tests=("ib_write_bw",), sizes=(), queue_pairs=1)
    _, summary = measured(tmp_path, verbs, rated=rated)

    assert (summary.function, summary.findings) == ("pass", ())
    assert summary.performance == ("pass" if rated else "not rated")


def test_eight_routed_rails_without_pods_are_measured_and_judged_as_any_others(tmp_path: Path) -> None:
    verbs = Verbs(tests=("ib_write_bw",), sizes=(), schedule="ring", queue_pairs=1)
    run, summary = measured(tmp_path, verbs, rated=True, routed=True)

    assert {t.reasons for t in run.record.transfers} == {()}
    assert {t.rail for t in run.record.transfers} == {f"rail-{k}" for k in range(1, 9)}
    assert len(run.record.transfers) == 8 * COUNT * 2, "a ring in both directions on each rail"
    assert summary.function == "pass"

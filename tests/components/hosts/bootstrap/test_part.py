"""Nodes that leave a cluster that was made here: emptied first, forgotten last, kept when their pods do not go."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from components.hosts.bootstrap.nodes import Nodes, forget, leaving, part, without
from components.hosts.calls import Crew
from components.hosts.drain import DrainError
from components.hosts.repair import Outcome
from components.ssh.connection import Endpoint
from components.ssh.credentials import Login
from stacks.base import LabError
from stacks.hosts import HostPolicy
from tests.components.hosts.bootstrap.fake_cluster import FakeCluster
from tests.components.hosts.bootstrap.machines import Machines
from tests.messages import states, stating

KNOWN = {"cp01": {"cluster_ca": "a" * 64}}


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


@pytest.fixture(autouse=True)
def greeting(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Addresses at which nobody answers."""
    silent: set[str] = set()

    async def answers(address: str, _port: int, _timeout_s: float) -> bool:
        return address not in silent

    monkeypatch.setattr("components.hosts.bootstrap.nodes.answers", answers)
    return silent


def parted(cluster: FakeCluster, gone: Any) -> dict[str, Any]:
    return asyncio.run(part(cluster, lambda _text: None, gone))


def test_only_what_was_a_node_leaves(machines):
    olds = machines.records()
    absent = machines.records(gpu01="absent")
    drained = machines.records(gpu02="drained")
    fewer = {name: record for name, record in olds.items() if name != "gpu02"}

    assert set(leaving(olds, fewer)) == {"gpu02"}
    assert set(leaving(olds, absent)) == {"gpu01"}
    assert leaving(absent, absent) == {}, "it has left"
    again = {**absent, "gpu01": absent["gpu01"].model_copy(update={"trouble": "it was silent"})}
    assert set(leaving(again, absent)) == {"gpu01"}, "what could not be done is tried again"
    assert leaving(drained, fewer) == {}, "a drained host is left alone"
    assert leaving({}, absent) == {}, "it was never in"


def test_a_renamed_host_does_not_leave(machines):
    olds = machines.records()
    news = {**olds, "gpu09": olds["gpu02"].model_copy(update={"formerly": "gpu02"})}
    del news["gpu02"]

    assert leaving(olds, news) == {}


def test_a_node_is_emptied_before_and_forgotten_after_its_host_is_undone(machines):
    cluster, gone = FakeCluster(), {"gpu02": machines.records()["gpu02"]}

    assert parted(cluster, gone) == {}
    assert cluster.did == ["cordon gpu02", "empty gpu02"]
    asyncio.run(forget(cluster, gone, Outcome(results={"gpu02": {"status": "undone"}})))
    assert cluster.did[-1] == "forget gpu02"


def test_a_node_whose_host_is_not_undone_is_not_forgotten(machines):
    cluster, gone = FakeCluster(), {"gpu02": machines.records()["gpu02"]}
    asyncio.run(forget(cluster, gone, Outcome(results={"gpu02": {"status": "unreachable"}})))

    assert cluster.did == []


def test_a_machine_that_stays_under_another_name_stays_a_node(machines):
    cluster, gone = FakeCluster(), {"gpu02": machines.records()["gpu02"]}
    result = {"status": "undone", "reason": "the same machine is kept under another name: nothing was undone"}
    asyncio.run(forget(cluster, gone, Outcome(results={"gpu02": result})))

    assert cluster.did == ["uncordon gpu02"]


def test_a_node_that_keeps_its_pods_is_not_undone_and_says_which(machines):
    cluster = FakeCluster()
    cluster.stubborn = {"gpu02"}
    kept = parted(cluster, {"gpu02": machines.records()["gpu02"]})

    assert "still runs default/job" in kept["gpu02"]["reason"]
    assert "kubectl" in kept["gpu02"]["hint"]
    assert set(without(machines.records(), kept)) == {"cp01", "gpu01"}


def test_a_silent_host_is_not_waited_for(machines, greeting):
    greeting.add("192.168.7.12")
    cluster = FakeCluster()

    assert parted(cluster, {"gpu02": machines.records()["gpu02"]}) == {}
    assert cluster.did == []


def test_a_node_that_never_registered_has_nothing_to_empty(machines):
    cluster = FakeCluster()
    cluster.nodes = {"cp01"}

    assert parted(cluster, {"gpu02": machines.records()["gpu02"]}) == {}
    assert cluster.did == []


def test_a_silent_api_keeps_the_node_and_is_reported(machines):
    cluster, gone = FakeCluster(), {"gpu02": machines.records()["gpu02"]}
    cluster.down = True
    outcome = Outcome(results={"gpu02": {"status": "undone"}})

    assert "does not answer" in parted(cluster, gone)["gpu02"]["reason"]
    asyncio.run(forget(cluster, gone, outcome))
    assert states(outcome.results["gpu02"]["reason"], "kubectl get node gpu02")


# -- as the Fleet calls it


def nodes(machines: Machines, records: Any) -> Nodes:
    endpoints = {
        node.name: Endpoint(address=str(node.address), port=22, user="nvidia", host_key="ssh-ed25519 AAAA")
        for node in machines.lab.nodes
    }
    crew = Crew(hosts=machines, policy=HostPolicy(), say=lambda _text: None)  # type: ignore[arg-type]
    return Nodes(crew, records, lambda: (machines.lab, Login(private_key=None, endpoints=endpoints)))


def test_a_lab_whose_cluster_exists_is_not_even_looked_at(machines):
    plain = {
        name: record.model_copy(update={"document": {**record.document, "kubernetes": None}})
        for name, record in machines.records().items()
    }
    for record in plain.values():
        del record.document["kubernetes"]

    def refuse() -> Any:
        raise AssertionError("nothing is to be asked")

    crew = Crew(hosts=machines, policy=HostPolicy(), say=lambda _text: None)  # type: ignore[arg-type]
    there, outcome = Nodes(crew, plain, refuse), Outcome()

    assert asyncio.run(there.part(plain, {}, KNOWN)) == {}
    asyncio.run(there.unite(plain, outcome, KNOWN))
    assert outcome == Outcome()
    assert asyncio.run(there.drainer(None, KNOWN)) is None


def test_while_there_is_no_cluster_hosts_reboot_without_a_drain(machines):
    assert asyncio.run(nodes(machines, machines.records()).drainer(None, {})) is None


def test_a_cluster_that_cannot_be_asked_lets_no_node_reboot_or_leave(machines, monkeypatch):
    async def refuse(*_: object) -> str:
        raise LabError("cluster.bootstrap: no control plane gives a kubeconfig:\n  cp01 does not answer")

    monkeypatch.setattr("components.hosts.bootstrap.nodes.admin_config", refuse)
    olds = machines.records()
    there = nodes(machines, olds)
    drainer = asyncio.run(there.drainer(None, KNOWN))
    news = {name: record for name, record in olds.items() if name != "gpu02"}
    kept = asyncio.run(there.part(olds, news, KNOWN))

    assert drainer is not None
    with pytest.raises(DrainError, check=stating("gpu01", "drained", "cluster.bootstrap")):
        drainer.cordon("gpu01")
    assert set(kept) == {"gpu02"}
    outcome = Outcome()
    asyncio.run(there.parted(kept, outcome))
    assert outcome.records["gpu02"].trouble, "the next run tries again"
    assert outcome.records["gpu02"].plain({})["state"] == "active"

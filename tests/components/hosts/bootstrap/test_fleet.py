"""The Fleet over hosts that become a cluster: host steps, joins, what the state remembers, and a node that leaves."""

import json
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components.hosts.fleet import FleetProvider
from components.hosts.program.membership import KUBELET_CONFIG
from components.hosts.records import properties_of
from components.ssh.connection import Endpoint
from components.ssh.credentials import Login
from stacks.hosts import HostPolicy
from tests.components.hosts.bootstrap.fake_cluster import FakeCluster
from tests.components.hosts.bootstrap.machines import Machines
from tests.components.hosts.kernel import PFS

READY = {"status": "ready"}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    for level in ("info", "warn"):
        monkeypatch.setattr(pulumi.log, level, lines.append)
    return lines


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]) -> Machines:
    del said  # the engine is not there to log to
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    found = Machines(tmp_path)
    for name, machine in found.machines.items():
        machine.file("/proc/sys/kernel/hostname", f"{name}\n")
        machine.file("/etc/machine-id", f"{name}\n")
        for i, (pf, bus) in enumerate(PFS.items()):
            (tmp_path / name / f"sys/class/net/{pf}/device/infiniband/mlx5_{i}").mkdir(parents=True)
            machine.remove(f"/sys/devices/{bus}:00.0/driver")
            machine.symlink(f"/sys/devices/{bus}:00.0/driver", tmp_path / name / "sys/bus/pci/drivers/mlx5_core")
    endpoints = {
        node.name: Endpoint(address=str(node.address), port=22, user="nvidia", host_key="ssh-ed25519 AAAA")
        for node in found.lab.nodes
    }
    login = Login(private_key=None, endpoints=endpoints)
    monkeypatch.setattr(FleetProvider, "_hosts", lambda _self: found)
    monkeypatch.setattr(FleetProvider, "_way_in", lambda _self: (found.lab, login))
    return found


def props(machines: Machines, *left: str, **states: str) -> dict[str, Any]:
    records = {name: record for name, record in machines.records(**states).items() if name not in left}
    policy = HostPolicy()
    return {**properties_of(records), "policy": policy.model_dump_json(), "reboot": "never", "vf_layout": "1"}


def results(outs: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(outs["results"])
    return found


def test_hosts_are_configured_and_then_one_cluster(machines, said):
    outs = FleetProvider().create(props(machines)).outs

    assert results(outs) == {"cp01": READY, "gpu01": READY, "gpu02": READY}
    assert machines.plane.members == ["cp01", "gpu01", "gpu02"]
    assert json.loads(outs["facts"])["cp01"]["cluster_ca"]
    assert not [text for text in (str(outs), *said) if any(token in text for token in machines.plane.had)]


def test_a_second_run_is_no_change(machines):
    provider, target = FleetProvider(), props(machines)
    outs = provider.create(target).outs

    assert provider.diff("fleet", outs, target).changes is False
    machines.calls.clear()
    provider.update("fleet", outs, target)
    assert [verb for verb, _ in machines.calls if verb.startswith("cluster-")] == []


def test_a_host_whose_step_failed_joins_when_it_is_fixed(machines):
    machines.machines["gpu02"].packages = {}
    provider, target = FleetProvider(), props(machines)
    outs = provider.create(target).outs
    assert machines.probed == ["gpu02"], "the others have just reported whether they are in a cluster"
    assert results(outs)["gpu02"]["step"] == "kubernetes_packages"
    assert machines.plane.members == ["cp01", "gpu01"]

    machines.machines["gpu02"].packages = {"kubeadm": "1.36.3", "kubelet": "1.36.3"}
    assert provider.diff("fleet", outs, target).changes is True, "or nobody would look at it again"
    assert results(provider.update("fleet", outs, target).outs)["gpu02"] == READY
    assert machines.plane.members == ["cp01", "gpu01", "gpu02"]


def test_a_join_that_failed_is_a_change_for_the_next_run(machines):
    machines.machines["gpu02"].kubeadm_fails = "[ERROR CRI]: container runtime is not running\n"
    provider, target = FleetProvider(), props(machines)
    outs = provider.create(target).outs

    assert results(outs)["gpu02"]["step"] == "join"
    assert "[ERROR CRI]" in results(outs)["gpu02"]["reason"]
    assert provider.diff("fleet", outs, target).changes is True


def leaving(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    cluster = FakeCluster()

    async def admin(*_: object) -> str:
        return "kind: Config\n"

    async def answers(*_: object) -> bool:
        return True

    monkeypatch.setattr("components.hosts.bootstrap.nodes.admin_config", admin)
    monkeypatch.setattr("components.hosts.bootstrap.nodes.NodeDrainer", lambda _config: cluster)
    monkeypatch.setattr("components.hosts.bootstrap.nodes.answers", answers)
    return cluster


@pytest.mark.parametrize("how", ["taken out of the lab", "absent"])
def test_a_node_leaves_emptied_reset_undone_and_forgotten(machines, monkeypatch, how):
    cluster, provider = leaving(monkeypatch), FleetProvider()
    outs = provider.create(props(machines)).outs
    target = props(machines, gpu02="absent") if how == "absent" else props(machines, "gpu02")
    after = provider.update("fleet", outs, target).outs
    host = machines.machines["gpu02"]

    assert cluster.did == ["cordon gpu02", "empty gpu02", "forget gpu02"]
    assert [line for line in host.commands if line.startswith("kubeadm reset")]
    assert not host.exists(KUBELET_CONFIG)
    assert results(after)["gpu02"] == {"status": "undone"}
    cluster.did.clear()
    provider.update("fleet", after, target)
    assert cluster.did == [], "it leaves once"


def test_a_node_whose_pods_stay_is_neither_reset_nor_forgotten_and_asked_again(machines, monkeypatch):
    cluster, provider = leaving(monkeypatch), FleetProvider()
    outs = provider.create(props(machines)).outs
    cluster.stubborn = {"gpu02"}
    target = props(machines, "gpu02")
    after = provider.update("fleet", outs, target).outs

    assert "still runs default/job" in results(after)["gpu02"]["reason"]
    assert machines.machines["gpu02"].exists(KUBELET_CONFIG)
    assert provider.diff("fleet", after, target).changes is True
    cluster.stubborn = set()
    assert results(provider.update("fleet", after, target).outs)["gpu02"] == {"status": "undone"}


def test_the_end_of_the_stack_resets_every_node(machines):
    provider = FleetProvider()
    outs = provider.create(props(machines)).outs
    provider.delete("fleet", outs)

    for name, machine in machines.machines.items():
        assert not machine.exists(KUBELET_CONFIG), name
        assert [line for line in machine.commands if line.startswith("kubeadm reset")], name

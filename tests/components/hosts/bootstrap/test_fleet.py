"""The Fleet over hosts that become a cluster: host steps, joins, what the state remembers, and a node that leaves."""

from pathlib import Path
from typing import Any

import pytest

from components.hosts.fleet import Fleet, FleetInputs, FleetState
from components.hosts.program.membership import KUBELET_CONFIG
from components.provider import log
from components.provider.base import ProviderConfig
from components.ssh.connection import Endpoint
from components.ssh.credentials import Login
from stacks.hosts import HostPolicy
from tests.components.hosts.bootstrap.fake_cluster import FakeCluster
from tests.components.hosts.bootstrap.machines import Machines
from tests.components.hosts.fleet_hosts import FleetRun
from tests.components.hosts.kernel import PFS

READY = {"status": "ready"}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    for level in ("info", "warn"):
        monkeypatch.setattr(log, level, lines.append)
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
    monkeypatch.setattr(Fleet, "_hosts", lambda _self: found)
    monkeypatch.setattr(Fleet, "_way_in", lambda _self: (found.lab, login))
    return found


def props(machines: Machines, *left: str, **states: str) -> FleetInputs:
    records = {name: record for name, record in machines.records(**states).items() if name not in left}
    return FleetInputs(hosts=records, policy=HostPolicy(), vf_layout="1")


def results(state: FleetState) -> dict[str, Any]:
    return dict(state.results)


def test_hosts_are_configured_and_then_one_cluster(machines, said):
    outs = FleetRun().create(props(machines))

    assert results(outs) == {"cp01": READY, "gpu01": READY, "gpu02": READY}
    assert machines.plane.members == ["cp01", "gpu01", "gpu02"]
    assert outs.facts["cp01"]["cluster_ca"]
    assert not [text for text in (str(outs), *said) if any(token in text for token in machines.plane.had)]


def test_a_second_run_is_no_change(machines):
    provider, target = FleetRun(), props(machines)
    outs = provider.create(target)

    assert not provider.diff(outs, target)
    machines.calls.clear()
    provider.update(outs, target)
    assert [verb for verb, _ in machines.calls if verb.startswith("cluster-")] == []


def test_a_host_whose_step_failed_joins_when_it_is_fixed(machines):
    machines.machines["gpu02"].packages = {}
    provider, target = FleetRun(), props(machines)
    outs = provider.create(target)
    assert machines.probed == ["gpu02"], "the others have just reported whether they are in a cluster"
    assert results(outs)["gpu02"]["step"] == "kubernetes_packages"
    assert machines.plane.members == ["cp01", "gpu01"]

    machines.machines["gpu02"].packages = {"kubeadm": "1.36.3", "kubelet": "1.36.3"}
    assert provider.diff(outs, target), "or nobody would look at it again"
    assert results(provider.update(outs, target))["gpu02"] == READY
    assert machines.plane.members == ["cp01", "gpu01", "gpu02"]


def test_a_join_that_failed_is_a_change_for_the_next_run(machines):
    machines.machines["gpu02"].kubeadm_fails = "[ERROR CRI]: container runtime is not running\n"
    provider, target = FleetRun(), props(machines)
    outs = provider.create(target)

    assert results(outs)["gpu02"]["step"] == "join"
    assert "[ERROR CRI]" in results(outs)["gpu02"]["reason"]
    assert provider.diff(outs, target)


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
    cluster, provider = leaving(monkeypatch), FleetRun()
    outs = provider.create(props(machines))
    target = props(machines, gpu02="absent") if how == "absent" else props(machines, "gpu02")
    after = provider.update(outs, target)
    host = machines.machines["gpu02"]

    assert cluster.did == ["cordon gpu02", "empty gpu02", "forget gpu02"]
    assert [line for line in host.commands if line.startswith("kubeadm reset")]
    assert not host.exists(KUBELET_CONFIG)
    assert results(after)["gpu02"] == {"status": "undone"}
    cluster.did.clear()
    provider.update(after, target)
    assert cluster.did == [], "it leaves once"


def test_a_node_whose_pods_stay_is_neither_reset_nor_forgotten_and_asked_again(machines, monkeypatch):
    cluster, provider = leaving(monkeypatch), FleetRun()
    outs = provider.create(props(machines))
    cluster.stubborn = {"gpu02"}
    target = props(machines, "gpu02")
    after = provider.update(outs, target)

    assert "still runs default/job" in results(after)["gpu02"]["reason"]
    assert machines.machines["gpu02"].exists(KUBELET_CONFIG)
    assert provider.diff(after, target)
    cluster.stubborn = set()
    assert results(provider.update(after, target))["gpu02"] == {"status": "undone"}


def test_the_end_of_the_stack_resets_every_node(machines):
    provider = FleetRun()
    outs = provider.create(props(machines))
    provider.delete(outs)

    for name, machine in machines.machines.items():
        assert not machine.exists(KUBELET_CONFIG), name
        assert [line for line in machine.commands if line.startswith("kubeadm reset")], name


@pytest.mark.parametrize(("reboot", "opened"), [("roll", ["reopen gpu02"]), ("never", [])])
def test_a_host_that_came_back_after_its_roll_had_given_up_is_opened_again(machines, monkeypatch, reboot, opened):
    cluster, provider = leaving(monkeypatch), FleetRun()

    async def drainer(*_: object) -> FakeCluster:
        return cluster

    monkeypatch.setattr("components.hosts.fleet.Nodes.drainer", drainer)
    monkeypatch.setattr("components.hosts.fleet.credentials.kubeconfig", lambda *_: None)
    monkeypatch.setattr(ProviderConfig, "lab", None)
    target = props(machines).model_copy(update={"policy": HostPolicy(reboot=reboot)})
    outs = provider.create(target)
    late = outs.hosts["gpu02"].with_changes(trouble="no answer within 900 s; it stays cordoned")
    outs = outs.model_copy(update={"hosts": {**outs.hosts, "gpu02": late}})

    assert results(provider.update(outs, target))["gpu02"] == READY
    assert cluster.did == opened

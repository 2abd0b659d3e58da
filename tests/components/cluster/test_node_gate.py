"""The gate before jobs: what it looks for, what it says, and how long it waits."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from components.cluster import node_gate
from components.cluster.node_checks import (
    GateSpec,
    gate_spec,
    network_faults,
    node_faults,
    pool_faults,
    state_faults,
    vf_changes,
)
from components.cluster.node_gate import Faults, NodeGate, NodeGateInputs, NodeGateState, wait
from components.kubernetes.client import ApiError
from components.provider.base import ProviderConfig
from stacks.bootstrap import Bootstrap
from stacks.lab import Lab
from tests.components.cluster.conftest import profiled
from tests.messages import states

A = "intel.com/sriov_111"
GATE = NodeGate(ProviderConfig({"kubeconfig": "{}"}))


def inputs(spec: GateSpec, wait_s: int = 0) -> NodeGateInputs:
    return NodeGateInputs(expected=spec, cluster="c", kubeconfig="secret", after="x", wait_s=wait_s)


def state(spec: GateSpec) -> NodeGateState:
    return NodeGateState(**dict(inputs(spec)), report={})


def node(name: str = "gpu01", *, ready: str = "True", **allocatable: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "allocatable": {A: "4", **allocatable},
            "nodeInfo": {"kubeletVersion": "v1.35.2"},
        },
    }


def test_a_node_that_is_as_the_lab_says_has_no_fault() -> None:
    assert node_faults("gpu01", node(), {A: 4}, "1.35") == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, ["no node", "gpu01"]),
        (node(ready="Unknown"), ["Ready"]),
        ({**node(), "spec": {"unschedulable": True}}, ["cordoned"]),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            ["offers 0", A, 4, "plugin", "no device"],
        ),
        (node(**{A: "3"}), ["offers 3", A, 4, "changed"]),
    ],
)
def test_each_fault_is_reported_with_both_numbers_and_the_remedy(found: Any, said: list[str | int]) -> None:
    faults = node_faults("gpu01", found, {A: 4}, "")

    assert len(faults) == 1
    assert states(faults[0], *said)


@pytest.mark.parametrize(
    ("version", "fine"),
    [("1.35", True), ("1.35.2", True), ("1.3", False), ("1.35.21", False), ("1.36", False), ("", True)],
)
def test_a_kubelet_is_compared_as_far_as_its_version_is_given(version: str, fine: bool) -> None:
    assert (node_faults("gpu01", node(), {}, version) == []) == fine


@pytest.mark.parametrize(
    ("found", "fine"),
    [
        ("v1.35.2+rke2r1", True),
        ("v1.35.2+k3s1", True),
        ("v1.35.2-eks-113cf36", True),
        ("v1.35.2-gke.1162000", True),
        ("v1.35.21+rke2r1", False),
        ("v1.35.2-rc.1", False),
        ("v1.35.2-alpha.0+0123abc", False),
    ],
)
def test_a_distribution_s_own_word_behind_the_release_is_no_other_version(found: str, fine: bool) -> None:
    machine = node()
    machine["status"]["nodeInfo"]["kubeletVersion"] = found

    assert (node_faults("gpu01", machine, {}, "1.35.2") == []) == fine
    assert node_faults("gpu01", machine, {}, "1.35") == []


def test_a_node_without_a_block_of_the_pool_is_named() -> None:
    pool = {"status": {"allocations": [{"nodeName": "gpu01"}]}}

    assert pool_faults("rail-a", pool, ["gpu01"]) == []
    [fault] = pool_faults("rail-a", pool, ["gpu01", "gpu02"])
    assert states(fault, "pool rail-a", "gpu02")
    assert "gpu01" not in fault
    assert "gpu01" in pool_faults("rail-a", {}, ["gpu01"])[0]
    [missing] = pool_faults("rail-a", None, ["gpu01"])
    assert states(missing, "pool", "rail-a")
    assert "gpu01" not in missing


def test_the_operator_s_report_of_a_node_is_beside_the_number() -> None:
    assert state_faults({"status": {"syncStatus": "Succeeded"}}) == []
    failed = {"status": {"syncStatus": "Failed", "lastSyncError": "no MMIO for VFs"}}
    [fault] = state_faults(failed)
    assert states(fault, "SR-IOV operator", "Failed", "no MMIO for VFs")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, []),
        ({"addresses": [("Hostname", "gpu01"), ("InternalIP", "192.0.2.1"), ("InternalIP", "fd00::1")]}, []),
        ({"addresses": [("InternalIP", "10.10.11.11")]}, [("kubelet", "10.10.11.11", "rail-a.host_subnet")]),
        ({"addresses": [("ExternalIP", "10.10.11.11")]}, []),
        ({"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00::/64"]}, []),
        (
            {"podCIDR": "10.10.0.0/16"},
            [("pods", "10.10.0.0/16", f"{rail}.host_subnet") for rail in ("rail-a", "rail-b")],
        ),
        ({"podCIDRs": ["10.20.111.0/25"]}, [("pods", "10.20.111.0/25", "rail-a.pod.subnet")]),
    ],
)
def test_the_cluster_s_own_traffic_uses_no_rail(lab: Lab, given: dict[str, Any], said: list[tuple[str, ...]]) -> None:
    assert lab.cluster is not None
    addresses = [{"type": kind, "address": address} for kind, address in given.pop("addresses", [])]
    found = {"spec": given, "status": {"addresses": addresses}}

    faults = network_faults(found, gate_spec(lab, lab.cluster).subnets)

    assert all(states(fault, *facts) for fault, facts in zip(faults, said, strict=True))
    assert network_faults(None, gate_spec(lab, lab.cluster).subnets) == []


def operated(lab: Lab, vfs: int, *, drain: bool = True) -> GateSpec:
    some = profiled(lab, {"profile": "sriov_operator", "vfs": vfs, "drain": drain})
    assert some.cluster is not None
    return gate_spec(some, some.cluster)


def test_a_preview_says_what_another_number_of_the_operator_s_vfs_does(lab: Lab) -> None:
    gently = list(vf_changes(operated(lab, 4), operated(lab, 8)))
    roughly = list(vf_changes(operated(lab, 4), operated(lab, 8, drain=False)))

    assert [line.split(":")[0] for line in gently] == ["nvidia.com/sriov_111", "nvidia.com/sriov_112"]
    for line in gently:
        assert states(line, "4 => 8", "gpu01 and 1 more", "drains")
    assert all(states(line, "4 => 8", "running pods", "cluster.delivery.drain: true") for line in roughly)
    assert len(roughly) == 2


def test_a_pf_that_leaves_or_joins_its_rail_is_reported_too(lab: Lab) -> None:
    both, gentle = operated(lab, 4, drain=False), operated(lab, 4)
    nodes = {**both.nodes, "gpu01": {"nvidia.com/sriov_111": 4, "nvidia.com/gpu": 8}}

    [line] = vf_changes(both, replace(both, nodes=nodes))
    assert states(line, "nvidia.com/sriov_112", "4 => 0", "gpu01", "cluster.delivery.drain: true")
    [line] = vf_changes(gentle, replace(gentle, nodes=nodes))
    assert states(line, "nvidia.com/sriov_112", "4 => 0", "gpu01", "drains")
    [line] = vf_changes(replace(both, nodes=nodes), both)
    assert states(line, "nvidia.com/sriov_112", "0 => 4", "gpu01", "no pod")
    assert "cluster.delivery.drain" not in line


def test_vfs_that_stay_or_belong_to_the_hosts_are_not_mentioned(lab: Lab) -> None:
    assert lab.cluster is not None
    ours = gate_spec(lab, lab.cluster)
    fewer = replace(ours, nodes={name: dict.fromkeys(found, 1) for name, found in ours.nodes.items()})

    assert list(vf_changes(operated(lab, 4), operated(lab, 4))) == []
    assert list(vf_changes(ours, fewer)) == [], "the Fleet says it, per host"


def test_a_preview_of_the_gate_says_it(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = state(operated(lab, 4)), inputs(operated(lab, 8))

    assert asyncio.run(GATE.diff(old, new)) == ["expected"]
    assert states(capsys.readouterr().err, "nvidia.com/sriov_111", "4 => 8")


def test_each_profile_wants_what_its_plugin_offers(lab: Lab) -> None:
    def of(some: Lab) -> dict[str, int]:
        assert some.cluster is not None
        return gate_spec(some, some.cluster).nodes["gpu01"]

    assert of(lab) == {A: 4, "intel.com/sriov_112": 4}
    operated = profiled(lab, {"profile": "sriov_operator", "vfs": 8}, gpus="operator")
    assert of(operated) == {"nvidia.com/sriov_111": 8, "nvidia.com/sriov_112": 8, "nvidia.com/gpu": 8}
    assert of(profiled(lab, {"profile": "shared_rdma", "most_pods": 7})) == {"rdma/sriov_111": 7, "rdma/sriov_112": 7}
    assert of(profiled(lab, {"profile": "pvrdma"})) == {"rdma/pvrdma": 8}


def test_a_cluster_that_is_made_here_has_to_run_what_was_installed(lab: Lab) -> None:
    assert lab.cluster is not None
    made = lab.cluster.model_copy(update={"bootstrap": Bootstrap(version="1.36.1")})

    assert gate_spec(lab, made).kubelet == "1.36.1"
    assert gate_spec(lab, made.model_copy(update={"kubelet_version": "v1.36"})).kubelet == "1.36"
    assert gate_spec(lab, lab.cluster).kubelet == ""


def test_only_active_nodes_are_looked_at(lab: Lab) -> None:
    assert lab.cluster is not None
    drained = lab.model_copy(update={"nodes": (lab.nodes[0], lab.nodes[1].model_copy(update={"state": "drained"}))})

    assert set(gate_spec(drained, lab.cluster).nodes) == {"gpu01"}


def test_pools_are_looked_at_where_a_controller_gives_them_out(lab: Lab) -> None:
    assert lab.cluster is not None
    real = lab.model_copy(update={"kind": "hardware"})

    assert gate_spec(lab, lab.cluster).pools == {}
    path = "/apis/nv-ipam.nvidia.com/v1alpha1/namespaces/kube-system/ippools/rail-a"
    assert gate_spec(real, lab.cluster).pools[path] == ["gpu01", "gpu02"]


class FakeApi:
    """Answers with what `there` has; `looks` counts the questions about nodes."""

    there: dict[str, Any]
    looks = 0

    def __init__(self, _kubeconfig: str) -> None:
        pass

    def items(self, path: str) -> Any:
        type(self).looks += 1
        found = self.there.get(path, [])
        if isinstance(found, Exception):
            raise found
        return found

    def get(self, path: str) -> Any:
        return self.there.get(path)

    def __enter__(self) -> "FakeApi":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found: dict[str, Any] = {}
    monkeypatch.setattr(FakeApi, "there", found, raising=False)
    monkeypatch.setattr(FakeApi, "looks", 0)
    monkeypatch.setattr(node_gate, "KubernetesApi", FakeApi)
    return found


def networks(lab: Lab) -> dict[str, Any]:
    base = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions"
    return {f"{base}/{rail.network_name}": {} for rail in lab.rails}


def report(lab: Lab) -> dict[str, list[str]]:
    assert lab.cluster is not None
    return asyncio.run(GATE.create(inputs(gate_spec(lab, lab.cluster)))).report


def test_a_fine_cluster_has_an_empty_report_and_is_not_looked_at_again(lab: Lab, there: dict[str, Any]) -> None:
    b = {"intel.com/sriov_112": "4"}
    there.update({"/api/v1/nodes": [node("gpu01", **b), node("gpu02", **b)], **networks(lab)})

    assert report(lab) == {}
    assert lab.cluster is not None
    fine, new = state(gate_spec(lab, lab.cluster)), inputs(gate_spec(lab, lab.cluster))
    assert asyncio.run(GATE.diff(fine, new)) == []
    assert asyncio.run(GATE.diff(fine.model_copy(update={"after": "y"}), new)) == ["after"]
    assert asyncio.run(GATE.diff(fine.model_copy(update={"report": {"gpu01": ["x"]}}), new)) == ["report"]


def test_what_is_at_fault_is_data_by_name(lab: Lab, there: dict[str, Any]) -> None:
    there["/api/v1/nodes"] = [node("gpu01", **{"intel.com/sriov_112": "4"})]

    assert set(report(lab)) == {"gpu02", "network default/sriov111", "network default/sriov112"}


def test_a_node_whose_pods_would_use_a_rail_is_no_fine_one(lab: Lab, there: dict[str, Any]) -> None:
    b = {"intel.com/sriov_112": "4"}
    bad = {**node("gpu02", **b), "spec": {"podCIDR": "10.10.11.0/24"}}
    there.update({"/api/v1/nodes": [node("gpu01", **b), bad], **networks(lab)})

    [reason] = report(lab)["gpu02"]
    assert states(reason, "pods", "10.10.11.0/24", "rail-a.host_subnet")


def test_a_refresh_looks_at_the_cluster_once_more(lab: Lab, there: dict[str, Any]) -> None:
    assert lab.cluster is not None
    there["/api/v1/nodes"] = []

    found = asyncio.run(GATE.read(state(gate_spec(lab, lab.cluster))))

    assert {"gpu01", "gpu02"} <= set(found.report)


def test_a_server_that_does_not_answer_is_data_too(lab: Lab, there: dict[str, Any]) -> None:
    there["/api/v1/nodes"] = ApiError(0, "the API server does not answer: refused")

    assert report(lab) == {"cluster": [str(there["/api/v1/nodes"])]}


def test_a_thousand_faults_are_a_short_report(lab: Lab, there: dict[str, Any]) -> None:
    """The state holds the report, and every run writes the whole state."""
    many = tuple(lab.nodes[0].model_copy(update={"name": f"gpu{n}"}) for n in range(1000))
    there.update(networks(lab))
    found = report(lab.model_copy(update={"nodes": many}))

    [more] = found["more"]
    assert states(more, 960)
    assert len(json.dumps(found)) < 8_000


def test_waiting_ends_with_the_last_fault_or_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(node_gate.time, "monotonic", lambda: clock[0])

    async def pass_by(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(node_gate.asyncio, "sleep", pass_by)
    answers = iter([{"gpu01": ["x"]}, {"gpu01": ["x"]}, {}])

    said: list[str] = []

    assert asyncio.run(wait(lambda: next(answers), 60, said.append)) == {}
    assert clock[0] == 2 * node_gate.POLL_S
    assert asyncio.run(wait(lambda: {"gpu01": ["x"]}, 10, said.append)) == {"gpu01": ["x"]}
    assert said == []
    assert clock[0] < 2 * node_gate.POLL_S + 10 + node_gate.POLL_S


@pytest.mark.parametrize("annotations", [{}, {"kwok.x-k8s.io/node": "fake"}])
def test_the_gate_does_not_wait_for_plugins_if_kwok_plays_the_kubelets(
    lab: Lab, there: dict[str, Any], monkeypatch: pytest.MonkeyPatch, annotations: dict[str, str]
) -> None:
    waited: list[float] = []

    async def wait_once(look_once: Callable[[], Faults], wait_s: float, _say: object) -> Faults:
        waited.append(wait_s)
        return look_once()

    monkeypatch.setattr(node_gate, "wait", wait_once)
    there["/api/v1/nodes"] = [{"metadata": {"name": "gpu01", "annotations": annotations}}]
    assert lab.cluster is not None
    asyncio.run(GATE.create(inputs(gate_spec(lab, lab.cluster), wait_s=120)))

    assert waited == ([5] if annotations else [5, 115])


def test_a_long_wait_says_every_half_minute_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(node_gate.time, "monotonic", lambda: clock[0])

    async def pass_by(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(node_gate.asyncio, "sleep", pass_by)
    said: list[str] = []

    asyncio.run(wait(lambda: {"gpu01": ["has no VFs"], "gpu02": ["has no VFs"]}, 100, said.append))

    assert len(said) == 3
    assert states(said[0], "gpu01", "1 more", "30 of 100 s", "has no VFs")

"""The check of the rails in pods against an API server: whatever pods and nodes say is a result by name.

What kubelet, Multus, plugins and scheduler say here is what they said to other people: each text names its source.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from components.jobs.registry import ImageStatus
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.pods import run as pods
from components.validation.benchmarks.pods.judge import judge_pods
from components.validation.benchmarks.pods.plan import pairs_of
from components.validation.benchmarks.pods.run import NO_REAL_POD, run_pods
from components.validation.mpijobs import REPLAYED
from components.validation.records import PodRails
from components.validation.verdict import judge
from stacks.benchmarks import Mpi
from stacks.lab import Lab
from tests.components.validation.fake_api import FakeApi, Object, cluster_run, items, serving
from tests.components.validation.labs import changed, hardware, plan_for, record, reduced, with_nodes
from tests.messages import states

A, B = "intel.com/sriov_111", "intel.com/sriov_112"
PLUGIN = "sriov-device-plugin"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "POLL_S", 0.01)
    monkeypatch.setattr(pods, "REASONS_S", 0.02)
    monkeypatch.setattr(pods, "START_S", {True: 2, False: 2})
    monkeypatch.setattr(pods, "LASTING_S", {True: 0.05, False: 0.05})
    monkeypatch.setattr(pods, "PINGS_S", 2)


@dataclass
class Cluster(FakeApi):
    """Nodes whose pods have their rails and reach each other, but for what a test takes from them."""

    unheard: set[tuple[str, str]] = field(default_factory=set)
    """Rail and node of pods that nobody reaches."""
    small: set[tuple[str, str]] = field(default_factory=set)
    """The same, where only small frames pass."""
    leaks: bool = False
    """Whether the rails share a network."""
    events_of: dict[str, str] = field(default_factory=dict)
    """Message of FailedCreatePodSandBox by node; such a pod stays Pending."""
    unscheduled: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """By node, why its kubelet does not admit the pod."""
    lines: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By node, a line of its log and what stands there instead."""
    status: dict[str, dict[str, str]] = field(default_factory=dict)
    """By node, what of its network-status is replaced by what."""
    resources: dict[str, tuple[dict[str, str], dict[str, str]]] = field(default_factory=dict)
    """Capacity and allocatable by node."""
    agents: dict[str, bool] = field(default_factory=dict)
    """Readiness of agents on gpu02 by label; those on gpu01 are ready."""
    peers: dict[str, str] = field(default_factory=dict)
    marked: bool = False
    others: list[Object] = field(default_factory=list)
    asked: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)
    """Every collection that was listed, with its selectors."""

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, str]:
        last = path.rpartition("/")[2]
        if method == "PATCH":
            self.peers[last] = json.loads(body)["metadata"]["annotations"]["rocelab.dev/peers"]
            return 200, "{}"
        if last == "log":
            return 200, self._log(path.split("/")[-2])
        if method == "GET" and last in ("events", "nodes", "pods"):
            self.asked.append((last, query))
            return 200, items({"events": self._events, "nodes": self._nodes, "pods": self._listed}[last](query))
        return super().answer(method, path, query, body)

    def _numbers(self) -> dict[str, int]:
        return {f"gpu{n:02}": n for n in range(1, 40)}

    def _events(self, query: dict[str, list[str]]) -> list[Object]:
        assert query["fieldSelector"] == ["involvedObject.kind=Pod,reason=FailedCreatePodSandBox"]
        return [
            {"reason": "FailedCreatePodSandBox", "message": message, "involvedObject": {"name": f"bench-r1-{node}"}}
            for node, message in self.events_of.items()
        ]

    def _nodes(self, _query: dict[str, list[str]]) -> list[Object]:
        return [self._node(node) for node in sorted(self._numbers())]

    def _listed(self, query: dict[str, list[str]]) -> list[Object]:
        """Pods by the selectors that the check uses; without one, an answer would be the whole cluster."""
        if node := query.get("fieldSelector", [""])[0].removeprefix("spec.nodeName="):
            return [pod for pod in map(_any, [*self._made(), *self.others]) if pod["spec"]["nodeName"] == node]
        assert query["labelSelector"], "all pods of the cluster"
        return self._agents() if " in (" in query["labelSelector"][0] else self._made()

    def _made(self) -> list[Object]:
        return [self._pod(str(made["metadata"]["name"])) for made in map(_any, self.created)]  # type: ignore[index]

    def _pod(self, name: str) -> Object:
        node = name.removeprefix("bench-r1-")
        away = node in self.events_of or node in self.unscheduled
        conditions = []
        if node in self.unscheduled:
            conditions = [{"type": "PodScheduled", "status": "False", "message": self.unscheduled[node]}]
        number = self._numbers()[node]
        status = json.dumps(
            [
                {"name": "cbr0", "interface": "eth0", "ips": ["10.244.1.7"], "default": True},
                *(
                    {
                        "name": f"default/sriov{vlan}",
                        "interface": f"net{at}",
                        "ips": [f"10.20.{vlan}.{10 + number}"],
                        "device-info": {"type": "pci", "pci": {"pci-address": f"0000:1{at}:00.2"}},
                    }
                    for at, vlan in ((1, 111), (2, 112))
                ),
            ]
        )
        for old, new in self.status.get(node, {}).items():
            assert old in status
            status = status.replace(old, new)
        pod_status: Object = {"phase": "Pending" if away else "Running", "conditions": conditions}
        if node in self.refused:
            pod_status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": self.refused[node]}
        return {
            "metadata": {"name": name, "annotations": {"k8s.v1.cni.cncf.io/network-status": status}},
            "spec": {"nodeName": node},
            "status": pod_status,
        }

    def _log(self, name: str) -> str:
        node = name.removeprefix("bench-r1-")
        number = self._numbers()[node]
        lines = []
        for at, vlan, rail in ((1, 111, "rail-a"), (2, 112, "rail-b")):
            lines += [
                f"rocelab interface {rail} net{at} 9000",
                f"rocelab slot {rail} 0000:1{at}:00.2",
                f"rocelab gid {rail} mlx5_{at} 0000:1{at}:00.2 ::ffff:10.20.{vlan}.{10 + number}",
                f"rocelab verbs {rail} mlx5_{at}",
                f"rocelab link {rail} fe80000000000000000000000000{at:02}{number:02}",
                f"rocelab given INTEL_COM_SRIOV_{vlan} 0000:1{at}:00.2",
            ]
        lines += ["rocelab rdma_cm", "rocelab reported"]
        if node in self.lines:
            old, new = self.lines[node]
            assert any(line.startswith(old) for line in lines)
            lines = [new if line.startswith(old) else line for line in lines]
        if name in self.peers:
            lines += [*self._pinged(node, self.peers[name]), "rocelab done"]
        return "\n".join(lines) + "\n"

    def _pinged(self, node: str, peers: str) -> list[str]:
        found = []
        for words in (line.split() for line in peers.splitlines() if line != "none"):
            kind, rail, _, peer, other, *_ = words
            if kind == "reach":
                ends = {(rail, node), (rail, peer)}
                answer = "none" if ends & self.unheard else "small" if ends & self.small else "large"
            else:
                answer = "small" if other == rail or self.leaks else "none"
            found.append(f"rocelab {kind} {rail} {peer} {other} {answer}")
        return found

    def _node(self, name: str) -> Object:
        full = {A: "4", B: "4"}
        capacity, allocatable = self.resources.get(name, (full, full))
        labels = {REPLAYED: "true"} if self.marked else {}
        return {
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": capacity, "allocatable": allocatable},
        }

    def _agents(self) -> list[Object]:
        return [
            {
                "metadata": {"name": f"{label}-{node}", "labels": {"app.kubernetes.io/name": label}},
                "spec": {"nodeName": node},
                "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
            }
            for label, of_second in {**dict.fromkeys(("multus", PLUGIN), True), **self.agents}.items()
            for node, ready in (("gpu01", True), ("gpu02", of_second))
        ]


def _any(value: Object) -> Any:
    return value


def run(lab: Lab, api: Cluster) -> tuple[PodRails, Plan]:
    plan = plan_for(hardware(lab)).model_copy(update={"simulated": True})  # nobody asks a registry
    with serving(api):
        result = run_pods(plan, cluster_run(plan, api.kubeconfig))
    return result, plan


def codes(result: PodRails) -> list[tuple[str, str, str]]:
    return [(fault.code, fault.node, fault.rail) for fault in result.faults]


def test_pods_that_have_their_rails_and_reach_each_other_pass(lab: Lab) -> None:
    api = Cluster()
    result, plan = run(lab, api)

    assert (result.outcome, result.faults) == ("measured", ())
    assert [(one.rail, one.pods, one.pairs, one.reached, one.apart) for one in result.rails] == [
        ("rail-a", 2, 1, 1, 1),
        ("rail-b", 2, 1, 1, 1),
    ]
    assert [one.mtu_bytes for one in result.rails] == [{"gpu01": 9000, "gpu02": 9000}] * 2
    assert sorted(api.deleted) == ["bench-r1-gpu01", "bench-r1-gpu02"]
    judged = record(plan).model_copy(update={"pods": result})
    assert [(test.rail, test.function) for test in judge_pods(plan, judged)] == [("rail-a", "pass"), ("rail-b", "pass")]


def test_each_pod_pings_from_the_address_that_the_ipam_gave_with_frames_of_the_whole_mtu(lab: Lab) -> None:
    api = Cluster()
    run(lab, api)

    assert api.peers == {
        "bench-r1-gpu01": "reach rail-a net1 gpu02 - 10.20.111.12 8972 10.20.111.11\n"
        "apart rail-a net1 gpu02 rail-a fe80::102 0 -\napart rail-a net1 gpu02 rail-b fe80::202 0 -\n"
        "reach rail-b net2 gpu02 - 10.20.112.12 8972 10.20.112.11\n"
        "apart rail-b net2 gpu02 rail-a fe80::102 0 -\napart rail-b net2 gpu02 rail-b fe80::202 0 -",
        "bench-r1-gpu02": "none",
    }


def test_where_kwok_plays_the_kubelets_it_is_not_run_and_enters_no_verdict(lab: Lab) -> None:
    api = Cluster(marked=True)
    result, plan = run(lab, api)

    assert (result.outcome, result.played, result.reason) == ("skipped", True, NO_REAL_POD)
    assert api.created == []
    run_record = record(plan, nccl=reduced()).model_copy(update={"pods": result})
    assert lab.benchmarks
    summary = judge(plan, lab.benchmarks, run_record).verdict()
    [test] = [test for test in summary.tests if test.test == "pod_rails"]
    assert (test.function, test.because) == ("not run", NO_REAL_POD)
    assert summary.function == "pass"
    assert not any("pod_rails" in reason for reason in summary.reasons)


SHIM = (
    'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "6c4a65": '
    'plugin type="multus-shim" name="multus-cni-network" failed (add): CmdAdd (shim): '
)
NO_DAEMON = (
    'failed to send CNI request: Post "http://dummy/cni": dial unix /run/multus/multus.sock: connect: '
    "connection refused"
)
"""multus-cni#1165."""


def refused(network: str, why: str) -> str:
    """As multus-cni passes a delegate's error on (rook#9653, sriov-network-device-plugin#490)."""
    return (
        f'{SHIM}CNI request failed with status 400: \'ContainerID:"6c4a65" ERRORED: error configuring pod '
        f'[bench/bench-r1-gpu02] networking: [bench/bench-r1-gpu02/u-1:{network}]: error adding container to network "'
        f'{network}": {why}\n\': StdinData: {{"binDir":"/opt/cni/bin"}}'
    )


@pytest.mark.parametrize(
    ("message", "code", "rail"),
    [
        (SHIM + NO_DAEMON, "MULTUS_DOWN", ""),
        # nvidia-k8s-ipam, pkg/ipam-node/allocator/allocator.go
        (refused("sriov112", "no free addresses in the allocated range"), "POOL_FULL", "rail-b"),
        # multus-cni#1010, with whereabouts
        (
            refused("sriov111", "error at storage engine: Could not allocate IP in range: ip: 10.20.111.10 /"),
            "POOL_FULL",
            "rail-a",
        ),
        # openshift/origin#31012: whereabouts of another release
        (
            refused("sriov111", "at the storage engine: could not allocate IP in range: ip: 10.20"),
            "POOL_FULL",
            "rail-a",
        ),
        # multus-cni#373, with host-local
        (
            refused("sriov111", "failed to allocate for range 0: no IP addresses available in range set: a-b"),
            "POOL_FULL",
            "rail-a",
        ),
        # sriov-network-device-plugin#258
        (
            refused("sriov111", "SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is required"),
            "RESOURCE_NAME",
            "rail-a",
        ),
        # multus-cni, pkg/k8sclient/k8sclient.go
        (
            SHIM + "TryLoadPodDelegates: error in getting k8s network for pod: GetNetworkDelegates: failed getting the "
            "delegate: getKubernetesDelegate: cannot find a network-attachment-definition (sriov111) in "
            "namespace (default): not found",
            "NETWORK_MISSING",
            "rail-a",
        ),
        # libcni, of which people with Debian's containerd report `in path [/usr/lib/cni]`
        (
            'failed to setup network for sandbox "6c": failed to find plugin "multus-shim" in path [/usr/lib/cni]',
            "CNI_PLUGIN_MISSING",
            "",
        ),
        (
            refused("sriov112", "failed to set vf 3 vlan configuration: operation not permitted"),
            "POD_NETWORK_REFUSED",
            "rail-b",
        ),
    ],
)
def test_what_the_kubelet_says_of_a_pod_that_gets_no_network_is_a_fault_by_name(
    lab: Lab, message: str, code: str, rail: str
) -> None:
    result, plan = run(lab, Cluster(events_of={"gpu02": message}))

    assert result.outcome == "failed"
    assert codes(result) == [(code, "gpu02", rail)]
    judged = record(plan).model_copy(update={"pods": result})
    states = {test.rail: test.function for test in judge_pods(plan, judged)}
    assert states == {name: "fail" if rail in ("", name) else "error" for name in ("rail-a", "rail-b")}


def scheduler(resource: str) -> str:
    """k8snetworkplumbingwg's quick start and others print it so."""
    return f"0/2 nodes are available: 1 Insufficient {resource}, 1 node(s) didn't match Pod's node affinity/selector."


@pytest.mark.parametrize(
    ("resources", "more", "code", "words"),
    [
        # the kubelet keeps the capacity of a plugin that has gone (devicemanager/manager.go, GetCapacity)
        (({A: "4", B: "4"}, {A: "0", B: "0"}), {}, "DEVICE_PLUGIN_DEAD", ["intel.com/sriov_111", 4]),
        # so it does of VFs that have gone; the plugin offers the other rail's
        (({A: "4", B: "4"}, {A: "0", B: "4"}), {}, "NO_VFS", ["VF", "RDMA"]),
        (({B: "4"}, {B: "4"}), {"agents": {PLUGIN: False}}, "DEVICE_PLUGIN_DEAD", ["SR-IOV device plugin"]),
        (({"intel.com/sriov_999": "4", B: "4"}, {B: "4"}), {}, "RESOURCE_NAME", ["intel.com/sriov_999"]),
        (({B: "4"}, {B: "4"}), {}, "NO_VFS", ["VF"]),
        (({A: "0", B: "4"}, {A: "0", B: "4"}), {}, "NO_VFS", ["VF"]),
        (
            ({A: "1", B: "4"}, {A: "1", B: "4"}),
            {
                "others": [
                    {
                        "metadata": {"name": "train-0", "namespace": "ml"},
                        "spec": {"nodeName": "gpu02", "containers": [{"resources": {"limits": {A: "1"}}}]},
                        "status": {"phase": "Running"},
                    }
                ]
            },
            "DEVICES_HELD",
            ["intel.com/sriov_111", 1, "ml/train-0"],
        ),
    ],
)
def test_a_node_without_a_device_for_a_pod_is_named_with_the_reason(
    lab: Lab, resources: Any, more: dict[str, Any], code: str, words: list[str | int]
) -> None:
    api = Cluster(unscheduled={"gpu02": scheduler(A)}, resources={"gpu02": resources}, **more)
    result, _ = run(lab, api)

    [fault] = result.faults
    assert (fault.code, fault.node, fault.rail) == (code, "gpu02", "rail-a")
    assert states(fault.what, *words)
    assert fault.hint


def test_a_rail_whose_devices_came_back_since_the_scheduler_tried_is_not_blamed(lab: Lab) -> None:
    lacking = scheduler(A).replace("1 node(s)", f"1 Insufficient {B}, 1 node(s)")
    api = Cluster(unscheduled={"gpu02": lacking}, resources={"gpu02": ({A: "4", B: "4"}, {A: "0", B: "4"})})

    result, _ = run(lab, api)

    assert codes(result) == [("NO_VFS", "gpu02", "rail-a")]


@pytest.mark.row("A 22")
@pytest.mark.parametrize(
    ("change", "code", "rail"),
    [
        (
            {"lines": {"gpu02": ("rocelab interface rail-a", "rocelab no-interface rail-a net1")}},
            "MULTUS_SKIPPED",
            "rail-a",
        ),
        ({"status": {"gpu02": {'"default/sriov112"': '"other"'}}}, "MULTUS_SKIPPED", "rail-b"),
        ({"status": {"gpu02": {"10.20.111.12": "10.20.112.77"}}}, "POD_ADDRESS", "rail-a"),
        ({"lines": {"gpu02": ("rocelab interface rail-a", "rocelab interface rail-a net1 1500")}}, "POD_MTU", "rail-a"),
        ({"lines": {"gpu02": ("rocelab slot rail-a", "rocelab slot rail-a 0000:11:00.7")}}, "WRONG_VF", "rail-a"),
        ({"lines": {"gpu02": ("rocelab gid rail-a", "")}}, "NO_RDMA_DEVICE", "rail-a"),
        ({"lines": {"gpu02": ("rocelab verbs rail-a", "")}}, "NO_RDMA_DEVICE", "rail-a"),
        (
            {"lines": {"gpu02": ("rocelab gid rail-a", "rocelab gid rail-a mlx5_1 0000:11:00.2 fe80::1")}},
            "NO_RDMA_DEVICE",
            "rail-a",
        ),
        ({"lines": {"gpu02": ("rocelab rdma_cm", "")}}, "NO_RDMA_CM", "rail-a"),
        ({"lines": {"gpu02": ("rocelab rdma_cm", "rocelab no-ping")}}, "IMAGE_WITHOUT_PING", ""),
        ({"status": {"gpu02": {"10.20.111.12": "10.20.111.11"}}}, "ADDRESS_TWICE", "rail-a"),
    ],
)
def test_what_a_running_pod_lacks_of_its_rails_is_a_fault_by_name(
    lab: Lab, change: dict[str, Any], code: str, rail: str
) -> None:
    result, _ = run(lab, Cluster(**change))

    nodes = {fault[1] for fault in codes(result) if fault[0] == code}
    assert (code, rail) in [(fault[0], fault[2]) for fault in codes(result)]
    assert nodes == {"gpu01"} if code == "ADDRESS_TWICE" else {"gpu02"}


def test_a_port_with_the_wrong_vlan_cuts_off_only_its_node(lab: Lab) -> None:
    result, plan = run(with_nodes(lab, 4), Cluster(unheard={("rail-a", "gpu03")}))

    [fault] = result.faults
    assert (fault.code, fault.node, fault.rail) == ("POD_CUT_OFF", "gpu03", "rail-a")
    assert states(fault.hint, "VLAN 111")
    assert lab.benchmarks
    summary = judge(plan, lab.benchmarks, record(plan).model_copy(update={"pods": result})).verdict()
    assert [(found.code, found.where) for found in summary.findings if "POD" in found.code] == [
        ("POD_CUT_OFF", "gpu03, rail-a")
    ]
    assert summary.function == "fail"


def test_of_two_nodes_both_are_named_and_of_a_dead_rail_all(lab: Lab) -> None:
    two, _ = run(lab, Cluster(unheard={("rail-b", "gpu02")}))
    all_of_them, _ = run(with_nodes(lab, 3), Cluster(unheard={("rail-b", f"gpu0{n}") for n in (1, 2, 3)}))

    assert codes(two) == [("POD_CUT_OFF", "gpu01 and gpu02", "rail-b")]
    assert codes(all_of_them) == [("POD_CUT_OFF", "", "rail-b")]


def test_a_port_that_drops_full_frames_is_distinguished_from_one_that_passes_nothing(lab: Lab) -> None:
    result, _ = run(with_nodes(lab, 3), Cluster(small={("rail-a", "gpu01")}))

    assert codes(result) == [("POD_FRAMES_CUT", "gpu01", "rail-a")]


def test_rails_that_share_a_network_are_found_though_every_ping_within_them_answers(lab: Lab) -> None:
    result, _ = run(lab, Cluster(leaks=True))

    assert codes(result) == [("VLAN_LEAK", "gpu01", "rail-a"), ("VLAN_LEAK", "gpu01", "rail-b")]
    assert [one.apart for one in result.rails] == [0, 0]


def test_one_node_without_a_pod_does_not_keep_the_others_from_being_checked(lab: Lab) -> None:
    result, _ = run(with_nodes(lab, 4), Cluster(events_of={"gpu04": SHIM + NO_DAEMON}))

    assert codes(result) == [("MULTUS_DOWN", "gpu04", "")]
    assert [(one.pods, one.pairs, one.reached) for one in result.rails] == [(3, 6, 3), (3, 6, 3)]


def test_a_pod_that_reports_nothing_is_named_when_the_time_is_over(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "START_S", {True: 0.2, False: 0.2})
    result, _ = run(lab, Cluster(lines={"gpu02": ("rocelab reported", "")}))

    assert codes(result) == [("POD_NOT_STARTED", "gpu02", "")]


def test_a_server_that_refuses_the_pods_makes_the_check_an_error_and_no_fault_of_the_rails(lab: Lab) -> None:
    result, plan = run(lab, Cluster(create_status=403))

    assert (result.outcome, result.faults) == ("error", ())
    [test] = judge_pods(plan, record(plan).model_copy(update={"pods": result}))
    assert test.function == "error"


def test_reasons_are_looked_up_at_most_every_interval_and_only_while_a_pod_waits(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "REASONS_S", 1.5)
    monkeypatch.setattr(pods, "START_S", {True: 30, False: 30})
    waiting, well = Cluster(events_of={"gpu02": SHIM + NO_DAEMON}), Cluster()
    result, _ = run(lab, waiting)
    run(lab, well)

    assert codes(result) == [("MULTUS_DOWN", "gpu02", "")]
    looks = [kind for kind, _ in waiting.asked]
    assert looks.count("events") == 1
    assert looks.count("pods") > looks.count("events") + 2, "the check's own pods are watched all the time"
    assert [kind for kind, _ in well.asked].count("events") == 0


def test_a_stopped_run_takes_its_pods_away(lab: Lab) -> None:
    api, plan = Cluster(events_of={"gpu02": "x"}), plan_for(lab)
    with serving(api):
        cluster = cluster_run(plan, api.kubeconfig)
        cluster.stop.set()
        result = run_pods(plan, cluster)

    assert result.outcome == "error"
    assert sorted(api.deleted) == ["bench-r1-gpu01", "bench-r1-gpu02"]


@pytest.mark.parametrize("count", [2, 3, 16, 17, 64, 100])
def test_every_node_has_a_peer_and_pairs_of_large_labs_grow_with_n_log_n(count: int) -> None:
    nodes = [f"n{number}" for number in range(count)]
    pairs = list(pairs_of(nodes))

    assert {node for pair in pairs for node in pair} == set(nodes)
    assert len({frozenset(pair) for pair in pairs}) == len(pairs), "each pair once"
    if count <= 16:
        assert len(pairs) == count * (count - 1) // 2
    else:
        assert len(pairs) <= count * (count - 1).bit_length()
        distances = {(nodes.index(b) - nodes.index(a)) % count for a, b in pairs}
        assert {1, 2, 4, 8, 16} <= distances


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({}, ["benchmarks.nccl.image", "rocelab image push"]),
        (
            {"nccl": None, "mpi": Mpi(image="registry:5000/mpi:1")},
            ["benchmarks.mpi.image", "registry:5000/mpi:1", "rocelab image push --which mpi"],
        ),
    ],
)
def test_an_image_that_is_nowhere_is_named_with_the_command_that_builds_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], facts: list[str]
) -> None:
    monkeypatch.setattr(pods, "look", lambda _image: ImageStatus(outcome="missing"))
    api = Cluster()
    plan = plan_for(changed(hardware(lab), **changes))
    with serving(api):
        result = run_pods(plan, cluster_run(plan, api.kubeconfig))

    assert result.outcome == "error"
    assert states(result.reason, *facts)


def test_a_pod_that_its_kubelet_does_not_admit_is_named_with_what_the_kubelet_says(lab: Lab) -> None:
    # kubelet 1.36.3 of lab-pods, started again while the pod waited
    said = (
        "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
        "intel.com/sriov_112, which is unexpected"
    )
    result, _ = run(lab, Cluster(refused={"gpu02": said}))

    (fault,) = [one for one in result.faults if one.code == "POD_ENDED"]
    assert fault.node == "gpu02"
    assert states(fault.what, "UnexpectedAdmissionError", said)

"""A cluster of real machines, from nothing to Ready nodes, by the lab's own bootstrap over real SSH.

Nothing is played here: containerd and runc start kubeadm's static pods, in which the simulator's binaries run. Only the
machines are none: they are namespaces of this machine's kernel, so that they are as fast as it is. docs/bootstrap.md
says what is in them.
"""

import asyncio
import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.hosts.bootstrap.join import unite
from components.hosts.bootstrap.nodes import forget, part
from components.hosts.calls import Crew, HostCalls
from components.hosts.document import target_record
from components.hosts.drain import NodeDrainer
from components.hosts.records import HostRecord
from components.hosts.repair import Outcome
from components.kubernetes.client import KubernetesApi, at
from components.ssh.connection import keys_of
from components.ssh.credentials import admin_config
from components.validation.cluster import Pod, pull_fault
from simulator.nodes.image import build_image
from stacks.hosts import HostPolicy
from stacks.lab import Lab
from tests.components.hosts.bootstrap.kubeadm_labs import KUBEADM
from tests.conftest import ROOT
from tests.integration.kubeadm.layer import node_layer
from tests.integration.kubeadm.machines import Lan, what_is_missing
from tests.integration.kubeadm.programs import VERSION
from tests.labs import made_here
from tests.messages import states

pytestmark = [pytest.mark.sim, pytest.mark.whole]

THREE = "ROCELAB_KUBEADM_THREE"
ADDRESSES = {name: f"10.9.0.{number}" for number, name in enumerate(("cp01", "cp02", "cp03", "gpu01"), 11)}
FIELDS = ["swap", "kubernetes_kernel", "kubernetes_packages", "kubelet_service", "kubelet_node_ip", "crictl"]
"""The host steps of a cluster; these machines have no rails."""
READY_S = 180
REGISTRY = "registry.lab:5000"
"""Nobody has this name."""
PLANE = "node-role.kubernetes.io/control-plane"
"""The label that kubeadm gives a control plane."""


class Made:
    """The machines and what the lab knows of them; the first one makes the cluster."""

    def __init__(self, folder: Path, planes: int) -> None:
        given = made_here(planes, cni="none", **({"control_plane_endpoint": "10.9.0.11:6443"} if planes > 1 else {}))
        for node in given["nodes"]:
            node["address"] = ADDRESSES.get(node["name"], node["address"])
        lab = Lab.model_validate_json(json.dumps(given))
        chosen = [node for node in lab.nodes if node.role == "control_plane"]
        if planes == 1:
            chosen += [node for node in lab.nodes if node.name == "gpu01"]
        self.lab = lab.model_copy(update={"nodes": tuple(chosen)})
        self.roles = {node.name: node.role for node in chosen}
        self.lan = Lan(folder, {name: ADDRESSES[name] for name in self.roles})
        self.machines = self.lan.machines
        self.hosts = HostCalls(self.lan.key)
        self.said: list[str] = []

    def records(self) -> dict[str, HostRecord]:
        """The hosts as the Fleet has them, but for the rails."""
        found = {}
        for node in self.lab.nodes:
            record = target_record(self.lab, node, self.machines[node.name].host_key)
            found[node.name] = record.model_copy(update={"document": {**record.document, "pfs": []}})
        return found

    async def bring_up(self, known: Mapping[str, Any]) -> Outcome:
        """One run of the Fleet's part: the hosts' own steps, then one cluster of them."""
        records, outcome = self.records(), Outcome()
        for name, record in records.items():
            report = await self.hosts.call(record.endpoint, "apply", {**record.document, "only": FIELDS})
            assert report.failed is None, report.failed
            # an apply reports no facts: the Fleet reads them when it confirms
            report = await self.hosts.call(record.endpoint, "probe", record.document)
            outcome.note(name, record, {"status": "ready"}, report)
        crew = Crew(hosts=self.hosts, policy=HostPolicy(), say=self.said.append)
        await unite(crew, self.lab, records, outcome, known)
        return outcome

    def kubeconfig(self) -> str:
        """The one that the program reads."""
        endpoint = self.records()["cp01"].endpoint
        return asyncio.run(admin_config([("cp01", endpoint)], keys_of(self.lan.key)))


@pytest.fixture
def made(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Made]:
    if reason := what_is_missing(tmp_path):
        pytest.skip(f"KUBEADM NOT RUN: {reason}")
    plane = ROOT / ".engine/bin/plane"
    if KUBEADM is None or not plane.exists():
        reason = "KUBEADM NOT RUN: no kubeadm or plane: engine/setup --dev builds them"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    image, layer = build_image(print).root, node_layer(Path(KUBEADM), plane, print)
    found = Made(tmp_path, request.param)
    try:
        found.lan.start(image, layer)
        found.lan.inside(lambda: _import_images(found))
        yield found
    finally:
        found.lan.stop()


def _import_images(made: Made) -> None:
    """There is no registry: an administrator has put the images there."""

    def one(name: str) -> None:
        made.machines[name].must(f"sudo ctr -n k8s.io images import /opt/images/{made.roles[name]}.tar")

    with ThreadPoolExecutor() as pool:
        list(pool.map(one, made.roles))


@pytest.mark.row("A 10a", "A 131, 148-154", "A 184-194", "A 196-205", "A 362-377", "B 410-420")
@pytest.mark.parametrize("made", [1], indirect=True)
def test_a_control_plane_and_a_worker_become_a_cluster_and_the_worker_leaves_it(made: Made) -> None:
    made.lan.inside(lambda: _from_nothing_to_ready(made))


@pytest.mark.skipif(not os.environ.get(THREE), reason=f"{THREE} is not set: three control planes, a minute more")
@pytest.mark.parametrize("made", [3], indirect=True)
def test_three_control_planes_become_a_cluster_that_two_can_leave(made: Made) -> None:
    made.lan.inside(lambda: _from_nothing_to_ready(made))


def _from_nothing_to_ready(made: Made) -> None:
    begins, *others = made.roles
    first = asyncio.run(made.bring_up({}))
    words = [name for name in made.machines if first.results[name] != {"status": "ready"}]
    assert not words, [first.results, *(made.machines[name].journal() for name in words)]
    assert [line.partition(": ")[0] for line in made.said] == [begins, *others]
    assert all(made.roles[name].replace("_", " ") in line for name, line in zip(others, made.said[1:], strict=True))

    api = KubernetesApi(made.kubeconfig())
    try:
        _place_a_network(made, api)
        nodes = _ready_nodes(api, set(made.roles))
        assert {at(node, "status", "nodeInfo", "kubeletVersion") for node in nodes.values()} == {f"v{VERSION}"}
        assert {name: _address(node) for name, node in nodes.items()} == {name: ADDRESSES[name] for name in made.roles}
        _wait_for_pods(api)
        planes = {name for name, role in made.roles.items() if role == "control_plane"}
        assert {name for name, node in nodes.items() if PLANE in node["metadata"]["labels"]} == planes
        members = api.items("/api/v1/namespaces/kube-system/pods?labelSelector=component%3Detcd")
        assert {str(at(member, "spec", "nodeName")) for member in members} == planes
        _name_what_is_not_pulled(api, others[-1])
        tokens = [secret for secret in api.items("/api/v1/namespaces/kube-system/secrets") if _is_token(secret)]
        assert tokens == [], "a token must be useless after its run"

        made.said.clear()
        again = asyncio.run(made.bring_up(first.facts))
        assert made.said == [], "who is in stays in"
        assert again.facts[begins]["cluster_ca"] == first.facts[begins]["cluster_ca"]

        for name in reversed(others):
            _let_leave(made, name)
            assert "kubelet.conf" not in made.machines[name].must("sudo ls /etc/kubernetes")
        assert {str(at(node, "metadata", "name")) for node in api.items("/api/v1/nodes")} == {begins}
        # etcd takes this only while most of its members are there: those that left are none any more
        api.merge("/api/v1/namespaces/default", {"metadata": {"labels": {"lab": "alone"}}})
    finally:
        api.close()


def _place_a_network(made: Made, api: KubernetesApi) -> None:
    """`cni: none`: somebody else places the network between pods, here a bridge on each node and routes between them.

    kube-proxy would set how many connections the whole machine may track, which nobody in a namespace may.
    """
    path = "/api/v1/namespaces/kube-system/configmaps/kube-proxy"
    config = yaml.safe_load(str(at(api.get(path), "data", "config.conf")))
    config["conntrack"]["maxPerCore"] = 0
    api.merge(path, {"data": {"config.conf": yaml.safe_dump(config)}})
    for pod in api.items("/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dkube-proxy"):
        api.delete(f"/api/v1/namespaces/kube-system/pods/{at(pod, 'metadata', 'name')}")

    nodes = _nodes(api, len(made.roles))
    subnets = {str(at(node, "metadata", "name")): str(at(node, "spec", "podCIDR")) for node in nodes}
    for name, machine in made.machines.items():
        ipam = {"type": "host-local", "ranges": [[{"subnet": subnets[name]}]], "routes": [{"dst": "0.0.0.0/0"}]}
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": ipam}
        conflist = {"cniVersion": "0.4.0", "name": "bridge", "plugins": [bridge]}
        machine.must("sudo tee /etc/cni/net.d/10-bridge.conflist", json.dumps(conflist))
        for other, subnet in subnets.items():
            if other != name:
                machine.must(f"sudo ip route add {subnet} via {ADDRESSES[other]}")


def _name_what_is_not_pulled(api: KubernetesApi, node: str) -> None:
    """By a kubelet's and a containerd's own words; only a name that is none is final, a registry may come back."""
    pods = "/api/v1/namespaces/default/pods"
    for number, (image, final) in enumerate(((f"{REGISTRY}/nccl:1", False), (f"{REGISTRY}/NCCL:1", True))):
        shell = {"name": "shell", "image": image}
        meta = {"name": f"pull{number}"}
        spec = {"nodeName": node, "containers": [shell], "terminationGracePeriodSeconds": 0}
        api.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        end = time.monotonic() + READY_S
        fault = None
        while fault is None:
            assert time.monotonic() < end, api.get(f"{pods}/{meta['name']}")
            time.sleep(0.5)
            fault = pull_fault([Pod.model_validate(api.get(f"{pods}/{meta['name']}"))], image)
        assert fault.final == final, fault
        assert states(fault.text, image, node, "rocelab image"), fault
        api.delete(f"{pods}/{meta['name']}")


def _let_leave(made: Made, name: str) -> None:
    """What the Fleet does with a node that is taken out: emptied, undone, forgotten."""
    gone = {name: made.records()[name]}
    cluster, outcome = NodeDrainer(made.kubeconfig()), Outcome()

    async def leave() -> None:
        assert await part(cluster, made.said.append, gone) == {}
        record = gone[name]
        report = await made.hosts.call(record.endpoint, "undo", {**record.document, "only": FIELDS})
        assert report.failed is None
        outcome.results[name] = {"status": "undone"}
        await forget(cluster, gone, outcome)

    asyncio.run(leave())


def _nodes(api: KubernetesApi, number: int) -> list[Any]:
    """All nodes, as soon as each has its part of the pods' network."""
    end = time.monotonic() + READY_S
    while True:
        nodes = api.items("/api/v1/nodes")
        if len(nodes) == number and all(at(node, "spec", "podCIDR") for node in nodes):
            return nodes
        assert time.monotonic() < end, [at(node, "metadata", "name") for node in nodes]
        time.sleep(0.5)


def _ready_nodes(api: KubernetesApi, names: set[str]) -> dict[str, Any]:
    """The nodes, as soon as all of them are Ready."""
    end = time.monotonic() + READY_S
    while True:
        nodes = {str(at(node, "metadata", "name")): node for node in api.items("/api/v1/nodes")}
        ready = {name for name, node in nodes.items() if "True" in _conditions(node, "Ready")}
        if ready == names:
            return nodes
        assert time.monotonic() < end, {name: _conditions(node, "Ready") for name, node in nodes.items()}
        time.sleep(0.5)


def _wait_for_pods(api: KubernetesApi) -> None:
    """Until all pods are ready: the resolvers are it once they reach the API by its service's address."""
    end = time.monotonic() + READY_S
    while True:
        pods = {str(at(pod, "metadata", "name")): pod for pod in api.items("/api/v1/pods")}
        waiting = {name: at(pod, "status") for name, pod in pods.items() if "True" not in _conditions(pod, "Ready")}
        if not waiting and len([name for name in pods if name.startswith("coredns")]) == 2:
            return
        assert time.monotonic() < end, waiting
        time.sleep(0.5)


def _conditions(thing: Any, kind: str) -> list[str]:
    found = at(thing, "status", "conditions") or []
    return [str(text) for each in found if each["type"] == kind for text in (each["status"], each.get("message"))]


def _address(node: Any) -> str:
    [address] = [each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP"]
    return str(address)


def _is_token(secret: Any) -> bool:
    return secret.get("type") == "bootstrap.kubernetes.io/token" and "auth-extra-groups" in secret.get("data", {})

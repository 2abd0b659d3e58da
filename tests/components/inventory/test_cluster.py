"""What is read of a Kubernetes cluster: GETs alone, page by page, and what is refused is unknown."""

import json
from dataclasses import dataclass, field

from components.inventory.cluster import look_at_cluster
from components.inventory.model import Attachment, DaemonSet
from tests.components.validation.fake_api import FakeApi, Object, serving

NODE: Object = {
    "metadata": {"name": "gpu01", "labels": {"zone": "a"}},
    "spec": {"podCIDRs": ["10.244.1.0/24"], "taints": [{"key": "gpu", "effect": "NoSchedule"}]},
    "status": {
        "addresses": [{"type": "InternalIP", "address": "192.0.2.11"}, {"type": "Hostname", "address": "gpu01"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"cpu": "64", "nvidia.com/rdma_a": "8"},
        "nodeInfo": {"kubeletVersion": "v1.33.1", "containerRuntimeVersion": "containerd://2.1.0"},
    },
}


@dataclass
class Cluster(FakeApi):
    """A server with these collections; of nodes each page has one."""

    nodes: list[Object] = field(default_factory=lambda: [{"metadata": {"name": "control01"}}, NODE])
    methods: set[str] = field(default_factory=set)
    forbidden: str = "ippools"

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, str]:
        self.methods.add(method)
        last = path.rpartition("/")[2]
        if last == "version":
            return 200, json.dumps({"gitVersion": "v1.33.1"})
        if last == "nodes":
            at = int(query.get("continue", ["0"])[0])
            more = str(at + 1) if at + 1 < len(self.nodes) else ""
            return 200, json.dumps({"metadata": {"continue": more}, "items": [self.nodes[at]]})
        if last == self.forbidden:
            return 403, json.dumps({"message": f"{last} is forbidden"})
        config = json.dumps({"type": "sriov", "name": "rdma-a"})
        resource = {"k8s.v1.cni.cncf.io/resourceName": "nvidia.com/rdma_a"}
        spec = {"template": {"spec": {"containers": [{"image": "plugin:v3.9.0"}]}}}
        found: dict[str, Object] = {
            "network-attachment-definitions": {
                "metadata": {"namespace": "train", "name": "rdma-a", "annotations": resource},
                "spec": {"config": config},
            },
            "daemonsets": {
                "metadata": {"namespace": "kube-system", "name": "plugin"},
                "spec": spec,
                "status": {"desiredNumberScheduled": 2, "numberReady": 1},
            },
            "servicecidrs": {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/12"]}},
        }
        return (200, json.dumps({"metadata": {}, "items": [found[last]]})) if last in found else (404, "{}")


def test_a_cluster_is_read_by_gets_alone() -> None:
    with serving(Cluster()) as api:
        cluster = look_at_cluster(api.kubeconfig)

    assert isinstance(api, Cluster)
    assert api.methods == {"GET"}
    [control, node] = cluster.nodes.or_else(())
    assert (control.name, control.internal_ips) == ("control01", ())
    assert (node.name, node.internal_ips) == ("gpu01", ("192.0.2.11",))
    assert node.allocatable["nvidia.com/rdma_a"] == "8"
    assert cluster.attachments.value == (
        Attachment(
            namespace="train",
            name="rdma-a",
            resource_name="nvidia.com/rdma_a",
            config={"type": "sriov", "name": "rdma-a"},
        ),
    )
    assert cluster.daemon_sets.value == (DaemonSet(namespace="kube-system", name="plugin"),)
    assert cluster.service_cidrs.value == ("10.96.0.0/12",)


def test_a_kind_that_is_not_served_is_known_to_be_absent_and_one_that_is_refused_is_unknown() -> None:
    with serving(Cluster()) as api:
        cluster = look_at_cluster(api.kubeconfig)

    assert cluster.sriov_node_states.value == ()
    assert "forbidden" in cluster.ip_pools.unknown
    assert cluster.ip_pools.source.startswith("GET /apis/nv-ipam.nvidia.com")


def test_an_object_in_another_form_costs_its_own_collection() -> None:
    with serving(Cluster(nodes=[{"metadata": {"name": 7}, "status": []}])) as api:
        cluster = look_at_cluster(api.kubeconfig)

    assert [node.name for node in cluster.nodes.or_else(())] in (["7"], [])
    assert cluster.attachments.is_known


def test_a_server_that_does_not_answer_is_not_read() -> None:
    with serving(Cluster()) as api:
        kubeconfig = api.kubeconfig

    cluster = look_at_cluster(kubeconfig)

    assert "does not answer" in cluster.unread
    assert not cluster.nodes.is_known

"""Lab machines as Kubernetes nodes."""

from simulator.plane import cluster, nodes
from stacks.delivery import SharedRdma


def test_a_node_offers_its_gpus_and_each_rails_vfs(lab):
    offered = nodes.resources(lab, lab.active_nodes[0])

    assert {name: amount for name, amount in offered.items() if "/" in name} == {
        "nvidia.com/gpu": "8",
        "intel.com/sriov_111": "4",
        "intel.com/sriov_112": "4",
    }


def test_a_pf_without_vfs_offers_no_resource(vary):
    lab = vary(gpu01={"vfs": 0})

    assert not [name for name in nodes.resources(lab, lab.active_nodes[0]) if "sriov" in name]


def test_pods_need_no_toleration(lab):
    assert "taints" not in nodes.node_object(lab, lab.active_nodes[0]).get("spec", {})


def test_every_node_says_that_its_logs_are_replayed(lab):
    labels = [nodes.node_object(lab, node)["metadata"]["labels"] for node in lab.active_nodes]

    assert all(found["rocelab.dev/replayed-logs"] == "true" for found in labels), "or a replay passes as a measurement"


def test_the_internal_address_is_the_machines_and_the_external_one_the_fake_kubelets(lab, layout):
    patch = nodes.node_status(lab, lab.active_nodes[0], layout, {})

    found = {entry["type"]: entry["address"] for entry in patch["status"]["addresses"]}
    assert found == {"InternalIP": "127.0.12.1", "Hostname": "gpu01", "ExternalIP": "127.0.77.1"}


def test_a_resource_that_the_lab_no_longer_has_is_taken_away(lab, layout):
    node = lab.active_nodes[0]
    old = {**nodes.resources(lab, node), "intel.com/sriov_999": "7"}

    patch = nodes.node_status(lab, node, layout, {"capacity": old, "allocatable": old})

    assert patch["status"]["allocatable"]["intel.com/sriov_999"] is None, "a merge patch keeps what it does not name"


def test_a_node_that_is_as_it_should_be_is_left_alone(lab, layout):
    node = lab.active_nodes[0]
    first = nodes.node_status(lab, node, layout, {})

    assert nodes.node_status(lab, node, layout, first["status"]) == {}


def test_a_cordoned_node_counts_as_usable_and_an_unreachable_one_does_not():
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}

    def tainted(key: str) -> dict[str, object]:
        return {"status": ready, "spec": {"taints": [{"key": f"node.kubernetes.io/{key}"}]}}

    assert nodes.is_usable(tainted("unschedulable")), "a run that was killed while it drained must not block the next"
    assert not nodes.is_usable(tainted("unreachable"))
    assert not nodes.is_usable({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})


def test_lists_that_an_api_server_has_not_filled_yet_are_empty_ones():
    class Fresh:
        def get(self, _path: str) -> dict[str, object]:
            return {"status": {"conditions": None}}

    assert not nodes.is_usable({"status": {"conditions": None}, "spec": {"taints": None}})
    assert not cluster.established(Fresh(), "stages")


def test_a_node_offers_what_its_labs_way_into_pods_has(lab):
    assert lab.cluster is not None
    shared = lab.cluster.model_copy(update={"delivery": SharedRdma(profile="shared_rdma", most_pods=5)})

    offered = nodes.resources(lab.model_copy(update={"cluster": shared}), lab.active_nodes[0])

    assert offered["intel.com/sriov_111"] == "5", "pods share the one device"

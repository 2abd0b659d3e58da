"""The cluster's section: four ways into pods, and what contradicts each of them elsewhere in the file."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from components.hosts.document import host_document
from components.hosts.records import target_fields
from stacks.base import LabError
from stacks.bill import Registry
from stacks.lab import Lab
from stacks.read import parse_lab
from tests.labs import section_of, without_switch
from tests.stacks.refusals import has_fault

REFERENCE = without_switch(section_of("Pulumi.lab.yaml"))

Edit = Callable[[dict[str, Any]], object]

OPERATOR = {"profile": "sriov_operator", "vfs": 8}


def lab_with(delivery: dict[str, Any], edit: Edit = lambda _: None, vfs: int = 0, prefix: str = "nvidia.com") -> Lab:
    file = copy.deepcopy(REFERENCE)
    file["cluster"]["delivery"] = delivery
    for rail in file["rails"]:
        rail["resource_prefix"] = prefix
    for node in file["nodes"]:
        for pf in node["pfs"]:
            pf["vfs"] = vfs
    edit(file)
    return parse_lab(json.dumps(file), "Pulumi.bad.yaml")


def refusal(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(LabError) as refused:
        lab_with(*args, **kwargs)
    assert len(str(refused.value).splitlines()) <= 15
    return str(refused.value)


def exclusive(file: dict[str, Any]) -> None:
    file["hosts"] = {"rdma_namespaces": "exclusive"}


def one_rail(file: dict[str, Any]) -> None:
    del file["rails"][1:]
    for node in file["nodes"]:
        del node["pfs"][1:]


def test_each_profile_is_accepted_where_nothing_contradicts_it() -> None:
    assert lab_with({"profile": "sriov_plain"}, vfs=4)
    assert lab_with(OPERATOR)
    assert lab_with({"profile": "shared_rdma"}, prefix="rdma")
    assert lab_with({"profile": "pvrdma"}, one_rail, prefix="rdma")


@pytest.mark.parametrize("profile", [OPERATOR, {"profile": "shared_rdma"}, {"profile": "pvrdma"}])
def test_vfs_of_the_hosts_are_refused_where_they_have_another_owner_or_none(profile: dict[str, Any]) -> None:
    text = refusal(profile, one_rail, vfs=4)

    assert has_fault(text, "nodes[0].pfs[0].vfs", 4, f"cluster.delivery {profile['profile']}", "write 0")


def test_a_node_that_leaves_may_still_have_its_vfs() -> None:
    def leaves(file: dict[str, Any]) -> None:
        file["nodes"][1]["state"] = "absent"
        file["nodes"][1]["pfs"][0]["vfs"] = 4

    assert lab_with(OPERATOR, leaves)


@pytest.mark.parametrize("profile", ["shared_rdma", "pvrdma"])
def test_a_shared_device_in_exclusive_namespaces_is_refused(profile: str) -> None:
    def edit(file: dict[str, Any]) -> None:
        exclusive(file)
        one_rail(file)

    assert has_fault(refusal({"profile": profile}, edit), "hosts.rdma_namespaces", "exclusive", "one pod")


def test_vfs_of_any_origin_may_have_exclusive_namespaces() -> None:
    assert lab_with({"profile": "sriov_plain"}, exclusive, vfs=4)
    assert lab_with(OPERATOR, exclusive)


def test_the_operator_s_prefix_has_to_be_the_rails() -> None:
    text = refusal(OPERATOR, prefix="intel.com")

    assert has_fault(text, "rails[0].resource_prefix", "intel.com", "nvidia.com/sriov_111")
    assert lab_with({**OPERATOR, "resource_prefix": "intel.com"}, prefix="intel.com")


def test_a_pool_that_is_too_small_for_the_operator_s_vfs_is_refused() -> None:
    assert has_fault(refusal({**OPERATOR, "vfs": 16}), "rails[0].pod.addresses_per_node", "8 addresses", "16 VFs")


def test_more_pods_than_addresses_of_a_rail_are_refused() -> None:
    shared = {"profile": "shared_rdma", "most_pods": 9}

    assert has_fault(refusal(shared, prefix="rdma"), "rails[0].pod.addresses_per_node", "8 addresses", "9 pods")
    assert lab_with(shared, ipam("whereabouts"), prefix="rdma"), "one list for all nodes has no blocks"


def test_a_macvlan_needs_one_name_for_all_nodes() -> None:
    def renamed(file: dict[str, Any]) -> None:
        file["nodes"][1]["pfs"][0]["interface"] = "ens9"

    text = refusal({"profile": "shared_rdma"}, renamed)
    assert has_fault(text, "nodes[1].pfs[0].interface", "ens9", "enp5s0 at gpu01")


def test_pvrdma_has_one_rail() -> None:
    assert has_fault(refusal({"profile": "pvrdma"}), "rails[1]", "cluster.delivery is pvrdma")


def test_a_rail_of_pvrdma_needs_no_network_of_pods() -> None:
    def without_pods(file: dict[str, Any]) -> None:
        one_rail(file)
        del file["rails"][0]["pod"]

    lab = lab_with({"profile": "pvrdma"}, without_pods, prefix="rdma")

    assert lab.pods_use(lab.rails[0])
    assert has_fault(refusal({"profile": "shared_rdma"}, without_pods, prefix="rdma"), "cluster", "`pod`")


def ipam(kind: str, *, nccl: bool = True) -> Edit:
    def edit(file: dict[str, Any]) -> None:
        file["cluster"]["ipam"] = {"kind": kind}
        if not nccl:
            del file["benchmarks"]["nccl"]

    return edit


def test_static_addresses_are_refused_for_replicas_of_one_template() -> None:
    refused = refusal({"profile": "sriov_plain"}, ipam("static"), vfs=4)
    assert has_fault(refused, "cluster.ipam", "static", "replica of benchmarks.nccl", "remove benchmarks.nccl")
    assert lab_with({"profile": "sriov_plain"}, ipam("static", nccl=False), vfs=4)


def test_pvrdma_has_no_use_for_pod_addresses() -> None:
    def edit(file: dict[str, Any]) -> None:
        one_rail(file)
        ipam("whereabouts")(file)

    refused = refusal({"profile": "pvrdma"}, edit)
    assert has_fault(refused, "cluster.ipam", "whereabouts", "cluster.delivery pvrdma")


@pytest.mark.parametrize(
    ("section", "path", "needs"),
    [
        ({"driver": {"source": "operator"}}, "driver.source", "cluster.delivery sriov_operator"),
        ({"gpu": {"driver": {"source": "operator"}}}, "gpu.driver.source", "cluster.gpus operator"),
        ({"gpu": {"toolkit": {"source": "operator"}}}, "gpu.toolkit.source", "cluster.gpus operator"),
    ],
)
def test_a_driver_by_an_operator_needs_that_operator(section: dict[str, Any], path: str, needs: str) -> None:
    assert has_fault(refusal({"profile": "sriov_plain"}, lambda file: file.update(section), vfs=4), path, needs)


def test_drivers_by_operators_are_accepted_with_them() -> None:
    def edit(file: dict[str, Any]) -> None:
        file["cluster"]["gpus"] = "operator"
        file.update({"driver": {"source": "operator"}, "gpu": {"driver": {"source": "operator"}}})

    assert lab_with(OPERATOR, edit)


def test_a_fault_inside_a_profile_has_the_path_in_the_file() -> None:
    """The profile's tag stands in the model's path and not in the file."""
    text = refusal({**OPERATOR, "max_unavailabl": 2, "vfs": 0})

    assert has_fault(text, "cluster.delivery.max_unavailabl", "max_unavailable")
    assert has_fault(text, "cluster.delivery.vfs", 0, 1)
    assert "'sriov_fast'" in refusal({"profile": "sriov_fast"})


def test_hosts_leave_vfs_alone_that_the_operator_makes() -> None:
    """With the number 0 in its document a host would take them away."""
    operated = lab_with(OPERATOR)
    fields = target_fields(host_document(operated, operated.nodes[0]))

    assert not [field for field in fields if field.endswith((".vfs", ".vf_macs", ".vf_mtu_bytes"))]
    shared = lab_with({"profile": "shared_rdma"}, prefix="rdma")
    assert target_fields(host_document(shared, shared.nodes[0]))["enp5s0.vfs"] == 0


def test_the_longest_mirror_that_fits_is_taken() -> None:
    registry = Registry(mirrors={"ghcr.io": "registry.lab:5000/ghcr", "ghcr.io/mellanox": "registry.lab:5000/nv"})

    assert registry.resolve("ghcr.io/mellanox/a:v1") == "registry.lab:5000/nv/a:v1"
    assert registry.resolve("ghcr.io/other/a:v1") == "registry.lab:5000/ghcr/other/a:v1"
    assert registry.resolve("ghcr.io.evil/a:v1") == "ghcr.io.evil/a:v1", "a name that only begins alike"


def test_a_digest_outlives_the_mirror() -> None:
    image = "ghcr.io/a/b:v1@sha256:" + "0" * 64

    assert Registry(mirrors={"ghcr.io": "r.lab"}).resolve(image) == "r.lab/a/b:v1@sha256:" + "0" * 64

"""RdmaCluster under the recording engine: what is asked for, in which order, and by whom it is owned."""

from collections.abc import Callable, Mapping
from typing import Any

import pulumi
import pytest

from components.cluster.cluster import RdmaCluster, RdmaClusterArgs
from components.cluster.device_plugins import LAYOUT_ANNOTATION
from components.cluster.operators import FIELD_MANAGER
from stacks.base import LabError
from stacks.lab import Lab
from tests.components.cluster.conftest import PROFILES, Golden, profiled, without_upstream
from tests.engine import Engine, Recorded

pytestmark = pytest.mark.usefixtures("small_definitions")

DEVICE_PLUGIN = "cluster-device-plugin-daemonset"


class VfsMade(pulumi.CustomResource):
    """Stands for the hosts layer: its URN is known when the VFs are there."""

    def __init__(self) -> None:
        super().__init__("test:index:Hosts", "hosts", {})


def build(engine: Engine, lab: Lab, look: Callable[[RdmaCluster], object] = lambda _: None) -> Recorded:
    def program() -> None:
        args = RdmaClusterArgs(lab=lab, kubeconfig=pulumi.Output.secret("kube: config"), vf_layout=VfsMade().urn)
        look(RdmaCluster("cluster", args))

    return engine.run(program)


@pytest.fixture(scope="module")
def seen(lab: Lab) -> Recorded:
    """The reference lab, built once for all that only look at it."""
    with without_upstream():
        return build(Engine(), lab)


def objects(seen: Recorded) -> dict[str, Mapping[str, Any]]:
    return {name: r.inputs for name, r in seen.resources.items() if r.type.startswith("kubernetes:")}


def test_the_names_of_the_reference_lab_are_golden(seen: Recorded, golden: Golden) -> None:
    """A changed name is a deletion and a creation: alias it, or say in the pull request what is lost."""
    lines = [f"{r.type} {name}" for name, r in seen.resources.items() if name != "hosts"]
    golden("names.txt", "\n".join(sorted(lines)) + "\n")


def test_only_the_device_plugin_and_the_gate_wait_for_the_hosts(seen: Recorded) -> None:
    waiting = {name for name, r in seen.resources.items() if "hosts" in r.depends_on}
    assert waiting == {DEVICE_PLUGIN, "cluster-nodes"}, "and the gate, which looks at what the plugin has found"


def test_a_new_vf_layout_restarts_only_the_device_plugin(seen: Recorded) -> None:
    found = objects(seen)

    annotated = {name for name, manifest in found.items() if LAYOUT_ANNOTATION in str(manifest)}
    assert annotated == {DEVICE_PLUGIN}
    annotations = found[DEVICE_PLUGIN]["spec"]["template"]["metadata"]["annotations"]
    assert set(annotations) == {"rocelab/config", LAYOUT_ANNOTATION}, "a new configuration restarts it as well"


def test_the_cluster_keeps_its_identity_when_its_address_changes(seen: Recorded, lab: Lab) -> None:
    """Without the identifier, another API address deletes and makes again every object."""
    provider = seen["cluster-provider"]

    assert provider.inputs["clusterIdentifier"] == lab.name
    assert provider.inputs["enableServerSideApply"] == "true"
    assert "kubeconfig" in provider.secrets


def test_every_object_goes_through_the_lab_s_provider_under_the_lab_s_field_manager(seen: Recorded) -> None:
    assert {seen[name].provider for name in objects(seen)} == {"cluster-provider"}
    managers = {manifest["metadata"]["annotations"][FIELD_MANAGER] for manifest in objects(seen).values()}
    assert managers == {"rocelab-lab"}, "with a random manager a killed run conflicts with the next one"
    assert not any("patchForce" in str(manifest) for manifest in objects(seen).values())


def test_nothing_is_placed_before_the_cluster_is_claimed(seen: Recorded) -> None:
    """Every object needs the provider, and the provider waits for the claim."""
    assert "cluster-claim" in seen["cluster-provider"].depends_on
    assert seen["cluster-claim"].inputs["owner"] == "lab lab of stack rocelab/lab"
    for name in ("cluster-claim", "cluster-nodes"):
        assert seen[name].inputs["kubeconfig"] == ".sim/kubeconfig", "where it is, not what it is"
        assert "kube: config" not in str(seen[name].inputs)


def test_every_object_says_whose_it_is(seen: Recorded) -> None:
    for name, manifest in objects(seen).items():
        labels = manifest["metadata"]["labels"]
        assert (labels["rocelab.dev/lab"], labels["app.kubernetes.io/managed-by"]) == ("lab", "rocelab"), name


def test_a_destroy_of_a_real_lab_leaves_the_definitions(engine: Engine, lab: Lab, seen: Recorded) -> None:
    """With a definition go all objects of its kind, other people's too."""
    real = lab.model_copy(update={"kind": "hardware"})
    kept = {name for name, r in build(engine, real).resources.items() if r.retained}

    assert kept == {f"cluster-definition-{key}" for key in ("networks", "mpijobs", "ippools", "cidrpools")}
    assert not [name for name, r in seen.resources.items() if r.retained]


def test_the_gate_reads_the_cluster_when_everything_is_ready(seen: Recorded) -> None:
    kinds = (":DaemonSet", ":Deployment", ":IPPool", ":NetworkAttachmentDefinition")

    assert {name for name, r in seen.resources.items() if r.type.endswith(kinds)} <= seen["cluster-nodes"].depends_on


@pytest.mark.parametrize("profile", PROFILES)
def test_the_names_of_each_profile_are_golden(engine: Engine, lab: Lab, golden: Golden, profile: str) -> None:
    delivery, rest = PROFILES[profile]
    seen = build(engine, profiled(lab, delivery, **rest))

    lines = [f"{r.type} {name}" for name, r in seen.resources.items() if name != "hosts"]
    golden(f"names-{profile}.txt", "\n".join(sorted(lines)) + "\n")


def test_the_operators_resources_follow_one_another(engine: Engine, lab: Lab) -> None:
    """The driver before the VFs; pools and networks after both, since the operators bring their kinds."""
    seen = build(engine, profiled(lab, {"profile": "sriov_operator", "vfs": 8}))

    assert "cluster-nic-policy" in seen["cluster-operator-config"].depends_on
    assert {"cluster-operator-config", "cluster-node-pool"} <= seen["cluster-vfs-rail-a"].depends_on
    assert "cluster-vfs-rail-a" in seen["cluster-rails-rail-a-network-default"].depends_on
    assert "cluster-nic-policy" in seen["cluster-rails-rail-a-pool"].depends_on
    assert not seen.of_type("kubernetes:apps/v1:DaemonSet"), "no agent has two owners"


def test_a_policy_is_waited_for_where_an_operator_runs(engine: Engine, lab: Lab) -> None:
    operated = profiled(lab, {"profile": "sriov_operator", "vfs": 8})
    real = build(Engine(), operated.model_copy(update={"kind": "hardware"}))["cluster-nic-policy"]
    simulated = build(engine, operated)["cluster-nic-policy"]

    wait_for = "pulumi.com/waitFor"
    assert real.inputs["metadata"]["annotations"][wait_for] == "jsonpath={.status.state}=ready"
    assert wait_for not in simulated.inputs["metadata"]["annotations"]


def test_pods_learn_that_they_have_the_machine_s_network(engine: Engine, lab: Lab) -> None:
    made: list[RdmaCluster] = []
    build(engine, profiled(lab, {"profile": "pvrdma"}), made.append)

    assert made[0].attachments == {"rail-a": {"resource": "rdma/pvrdma", "mtu_bytes": 9000}}


def test_objects_of_a_new_kind_come_after_its_definition(seen: Recorded) -> None:
    for name, r in seen.resources.items():
        if r.type.endswith(":NetworkAttachmentDefinition"):
            assert "cluster-definition-networks" in r.depends_on, name
        if r.type.endswith(":IPPool"):
            assert "cluster-definition-ippools" in r.depends_on, name


def test_pods_come_after_what_they_need(seen: Recorded) -> None:
    for name, r in seen.resources.items():
        if r.type.endswith((":DaemonSet", ":Deployment")):
            siblings = {n for n, s in seen.resources.items() if s.parent == r.parent and s.type != r.type}
            needed = {n for n in siblings if not seen[n].type.endswith((":DaemonSet", ":Deployment"))}
            assert needed <= r.depends_on, name
    assert "cluster-definition-mpijobs" in seen["cluster-mpi-operator-deployment"].depends_on
    assert {"cluster-definition-ippools", "cluster-definition-cidrpools"} <= seen[
        "cluster-nv-ipam-controller-deployment"
    ].depends_on, "its programs end when a kind that they watch is missing"


def test_an_object_in_a_new_namespace_comes_after_it(seen: Recorded) -> None:
    inside = {n for n, m in objects(seen).items() if m["metadata"].get("namespace") == "mpi-operator"}
    assert inside
    assert all("cluster-namespace-mpi-operator" in seen[name].depends_on for name in inside)


def test_everything_lives_under_the_component(seen: Recorded) -> None:
    roots = {name for name, r in seen.resources.items() if not r.parent}
    assert roots == {"cluster", "hosts"}


def test_pods_learn_what_to_ask_for(engine: Engine, lab: Lab) -> None:
    made: list[RdmaCluster] = []
    build(engine, lab, made.append)

    assert made[0].attachments == {
        "rail-a": {"resource": "intel.com/sriov_111", "network": "sriov111", "vlan_id": 111, "mtu_bytes": 9000},
        "rail-b": {"resource": "intel.com/sriov_112", "network": "sriov112", "vlan_id": 112, "mtu_bytes": 9000},
    }


def test_ready_waits_for_networks_pools_and_every_pod(engine: Engine, lab: Lab) -> None:
    class After(pulumi.CustomResource):
        def __init__(self, ready: pulumi.Output[bool]) -> None:
            super().__init__("test:index:After", "after", {"ready": ready})

    seen = build(engine, lab, lambda cluster: After(cluster.ready))

    kinds = (":DaemonSet", ":Deployment", ":IPPool", ":NetworkAttachmentDefinition")
    expected = {name for name, r in seen.resources.items() if r.type.endswith(kinds)}
    assert seen["after"].inputs["ready"] is True
    assert expected <= seen["after"].depends_on


def test_an_upstream_file_that_cannot_be_had_is_a_plain_error(
    engine: Engine, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_store: object, _keys: object) -> None:
        raise LabError("deploy/crd.yaml")

    monkeypatch.setattr("components.cluster.foundations.read_definitions", refuse)

    with pytest.raises(pulumi.RunError, match=r"deploy/crd\.yaml"):
        build(engine, lab)


def test_the_owner_s_gpu_metrics_are_not_turned_off_again(engine: Engine, lab: Lab) -> None:
    seen = build(engine, profiled(lab, {"profile": "sriov_operator", "vfs": 8}, gpus="operator"))

    assert seen["cluster-gpu-policy"].ignored == {"spec.dcgm", "spec.dcgmExporter"}
    assert seen["cluster-nic-policy"].ignored == set()

"""What the claim finds in the way. The objects are cut down from published ones; each says from where."""

from collections.abc import Mapping
from typing import Any

import pytest

from components.cluster.preconditions import Precondition, preconditions
from components.cluster.profiles import policies, programs
from components.kubernetes.client import Object
from stacks.lab import Lab
from tests.components.cluster.conftest import profiled
from tests.components.cluster.rendered import cluster_of, variants
from tests.messages import states

CILIUM = "/api/v1/namespaces/kube-system/configmaps/cilium-config"
NIC_POLICIES = "/apis/mellanox.com/v1alpha1/nicclusterpolicies"
NODE_POLICIES = "/apis/sriovnetwork.openshift.io/v1/sriovnetworknodepolicies"
CLUSTER_POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
GPU_CLUSTERS = "/apis/nvidia.com/v1alpha1/gpuclusters"
OPERATOR = {"profile": "sriov_operator", "vfs": 8}


def named(name: str, **rest: Any) -> Object:
    return {"metadata": {"name": name}, **rest}


def listed(*items: Object) -> Object:
    return {"items": list(items)}


def cilium(exclusive: str) -> Object:
    """cilium `install/kubernetes/cilium/templates/cilium-configmap.yaml`; "false" as in Cray-HPE/docs-csm#5956."""
    file = "/host/etc/cni/net.d/05-cilium.conflist"
    return named("cilium-config", data={"cni-exclusive": exclusive, "write-cni-conf-when-ready": file})


# network-operator example/crs/mellanox.com_v1alpha1_nicclusterpolicy_cr-full.yaml
NIC_POLICY = named(
    "nic-cluster-policy",
    spec={
        "secondaryNetwork": {"cniPlugins": {"image": "plugins"}, "multus": {"image": "multus-cni"}},
        "nvIpam": {"image": "nvidia-k8s-ipam"},
    },
)
DRIVER_ALONE = named("nic-cluster-policy", spec={"ofedDriver": {"image": "doca-driver"}})
# gpu-operator config/samples: v1_clusterpolicy.yaml, nvidia_v1alpha1_gpucluster.yaml
CLUSTER_POLICY = named("cluster-policy", spec={"dcgmExporter": {"enabled": True}})
GPU_CLUSTER = named("gpu-cluster", spec={})


def node_policy(**selector: Any) -> Object:
    """sriov-network-operator README.md, "SriovNetworkNodePolicy": policy-1."""
    return named("policy-1", spec={"numVfs": 4, "nicSelector": selector})


def faults(lab: Lab, there: Mapping[str, Object]) -> list[str]:
    """The conflicts of a lab in a cluster with these objects."""
    texts = [item.fault_of(there.get(item.path)) for item in conflicts(lab)]
    return [text for text in texts if text]


def conflicts(lab: Lab) -> list[Precondition]:
    return [item for item in preconditions(lab, cluster_of(lab)) if item.conflict]


@pytest.mark.parametrize("profile", ["sriov_plain-whereabouts", "sriov_operator", "shared_rdma"])
def test_cilium_that_keeps_the_cni_folder_to_itself_is_refused_before_multus_comes(lab: Lab, profile: str) -> None:
    variant = variants(lab)[profile]

    [fault] = faults(variant, {CILIUM: cilium("true")})
    assert states(fault, "cilium-config", "00-multus.conf.cilium_bak", "cni.exclusive=false", "rollout restart")
    assert faults(variant, {CILIUM: cilium("false")}) == []


def test_cilium_is_nothing_to_pods_in_the_network_of_their_machine(lab: Lab) -> None:
    assert faults(profiled(lab, {"profile": "pvrdma"}), {CILIUM: cilium("true")}) == []


@pytest.mark.parametrize(
    ("gpus", "path", "item", "facts"),
    [
        (
            "operator",
            CLUSTER_POLICIES,
            CLUSTER_POLICY,
            ["cluster-policy", "cluster.gpus: none", "clusterPolicy.deployCR=false"],
        ),
        ("device_plugin", CLUSTER_POLICIES, CLUSTER_POLICY, ["cluster-policy", "cluster.gpus: none", "DCGM"]),
        ("operator", GPU_CLUSTERS, GPU_CLUSTER, ["gpu-cluster", "nvidia.com/gpu", "gpuCluster.deployCR=false"]),
        ("device_plugin", GPU_CLUSTERS, GPU_CLUSTER, ["gpu-cluster", "cluster.gpus: none"]),
    ],
)
def test_gpus_that_somebody_offers_already_are_refused_by_name(
    lab: Lab, gpus: str, path: str, item: Object, facts: list[str]
) -> None:
    owned = profiled(lab, OPERATOR if gpus == "operator" else {"profile": "sriov_plain"}, gpus=gpus)

    [fault] = faults(owned, {path: listed(item)})
    assert states(fault, f"cluster.gpus {gpus}", *facts)
    assert faults(profiled(lab, {"profile": "sriov_plain"}), {path: listed(item)}) == [], "gpus: none leaves it alone"


def test_parts_that_the_network_operator_runs_already_are_named_by_their_fields(lab: Lab) -> None:
    [fault] = faults(lab, {NIC_POLICIES: listed(NIC_POLICY)})

    assert states(fault, "nic-cluster-policy", "spec.secondaryNetwork.multus", "spec.nvIpam", "sriov_operator")
    assert "spec.sriovDevicePlugin" not in fault
    assert faults(lab, {NIC_POLICIES: listed(DRIVER_ALONE)}) == [], "it installs nothing that the profile installs"
    assert faults(lab, {NIC_POLICIES: listed()}) == []


def test_an_sr_iov_policy_for_pfs_of_the_lab_is_refused_and_one_for_others_is_not(lab: Lab) -> None:
    pf = lab.nodes[0].pfs[0].interface
    [vendor] = cluster_of(lab).rdma_vendor_ids
    in_the_way = [
        {"pfNames": [f"{pf}#0-3"], "vendor": vendor},
        {"vendor": vendor, "deviceID": "1583"},
        {"rootDevices": ["0000:86:00.0"]},
    ]

    for selector in in_the_way:
        [fault] = faults(lab, {NODE_POLICIES: listed(node_policy(**selector))})
        assert states(fault, "policy-1", "nicSelector.pfNames", "cluster.delivery sriov_operator")
    for selector in ({"pfNames": ["ens9f0"], "vendor": vendor}, {"vendor": "1dd8"}):
        assert faults(lab, {NODE_POLICIES: listed(node_policy(**selector))}) == []


@pytest.mark.parametrize(
    ("path", "facts"),
    [
        (f"{NIC_POLICIES}/nic-cluster-policy", ["nic-cluster-policy", "leave section cluster out"]),
        (
            "/apis/sriovnetwork.openshift.io/v1/namespaces/nvidia-network-operator/sriovoperatorconfigs/default",
            ["nvidia-network-operator/default", "sriov-network-operator.sriovOperatorConfig.deploy=false"],
        ),
    ],
)
def test_the_operators_own_objects_are_refused_with_the_way_to_hand_them_over(
    lab: Lab, path: str, facts: list[str]
) -> None:
    [fault] = faults(profiled(lab, OPERATOR), {path: named(path.rpartition("/")[2])})

    assert states(fault, *facts)


def test_every_program_and_policy_of_another_owner_is_refused_and_those_of_rocelab_are_not(lab: Lab) -> None:
    for variant in variants(lab).values():
        cluster = cluster_of(variant)
        placed = [m for program in programs(variant, cluster).values() for m in program.runs.values()]
        placed += list(policies(variant, cluster).values())
        for manifest in placed:
            metadata: Any = manifest["metadata"]
            theirs: Object = {**manifest, "metadata": {**metadata, "labels": {"app.kubernetes.io/part-of": "other"}}}
            answers = {item.path: (theirs, manifest) for item in _at(variant, str(metadata["name"]))}
            assert answers, f"{manifest['kind']} {metadata['name']} is not looked for"
            foreign = {path: answer for path, (answer, _) in answers.items()}
            ours = {path: answer for path, (_, answer) in answers.items()}

            [fault] = faults(variant, foreign)
            assert states(fault, metadata["name"])
            assert faults(variant, ours) == []


def _at(lab: Lab, name: str) -> list[Precondition]:
    """The conflicts that would see an object of this name."""
    collections = {"cluster-policy": "/clusterpolicies"}
    end = collections.get(name, f"/{name}")
    return [item for item in conflicts(lab) if item.path.endswith(end)]

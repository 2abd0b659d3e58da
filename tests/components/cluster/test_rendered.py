"""What is rendered for the cluster: what follows from a lab against golden files, and what holds for every object."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from components.cluster.ipam import address_source
from components.cluster.profiles import programs, render_namespaces
from stacks.base import members
from stacks.cluster import Cluster
from stacks.delivery import Delivery
from stacks.drivers import NicDriver
from stacks.gpus import Gpu
from stacks.ipam import Ipam
from stacks.lab import Lab
from tests.components.cluster.conftest import PROFILES, Golden, as_yaml, parts, profiled
from tests.components.cluster.rendered import cluster_of, everything, objects, variants

CLUSTER_SCOPED = {
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "RuntimeClass",
    "NicClusterPolicy",
    "ClusterPolicy",
}


def rules(lab: Lab) -> list[tuple[str, Any]]:
    return [
        (f"{manifest['kind']} {manifest['metadata']['name']}", rule)
        for manifest in objects(lab)
        if manifest["kind"] in ("Role", "ClusterRole")
        for rule in manifest["rules"]
    ]


def pods(lab: Lab) -> dict[str, Any]:
    return {
        str(manifest["metadata"]["name"]): manifest["spec"]["template"]["spec"]
        for program in programs(lab, cluster_of(lab)).values()
        for manifest in program.runs.values()
    }


@pytest.fixture(params=["sriov_plain", *PROFILES])
def variant(request: pytest.FixtureRequest, lab: Lab) -> Lab:
    return variants(lab)[request.param]


DECIDED = {
    "NicClusterPolicy",
    "SriovOperatorConfig",
    "SriovNetworkPoolConfig",
    "SriovNetworkNodePolicy",
    "SriovNetwork",
    "ClusterPolicy",
    "NetworkAttachmentDefinition",
    "IPPool",
}
"""Kinds whose content follows from the lab. The programs are templates, and their text is not repeated here."""
CONFIGURATIONS = {"sriovdp-config", "rdma-devices"}


def decided(lab: Lab) -> dict[str, str]:
    """The objects that follow from the lab, as text."""
    texts = {}
    for name, group in everything(lab).items():
        if own := [manifest for manifest in group if is_decided(manifest)]:
            texts[name] = as_yaml(own)
    return texts


def is_decided(manifest: Any) -> bool:
    return manifest["kind"] in DECIDED or manifest["metadata"]["name"] in CONFIGURATIONS


def test_what_follows_from_the_reference_lab_is_golden(lab: Lab, golden: Golden) -> None:
    golden("reference.yaml", "".join(f"# {name}\n{text}" for name, text in decided(lab).items()))


def test_every_profile_and_every_ipam_with_a_part_in_the_cluster_is_among_the_variants(lab: Lab) -> None:
    clusters = [cluster_of(variant) for variant in variants(lab).values()]
    without = {kind for kind in members(Ipam, "kind") if not _part(lab, kind)}

    assert {cluster.delivery.profile for cluster in clusters} == set(members(Delivery, "profile"))
    assert {cluster.ipam.kind for cluster in clusters} == set(members(Ipam, "kind")) - without
    assert without == {"static"}


def _part(lab: Lab, kind: str) -> object:
    ipam = TypeAdapter(Ipam).validate_python({"kind": kind})
    return address_source(cluster_of(lab).model_copy(update={"ipam": ipam})).program()


@pytest.mark.parametrize("profile", PROFILES)
def test_what_follows_from_each_profile_is_golden(lab: Lab, golden: Golden, profile: str) -> None:
    """What a profile has in common with the reference lab is named; what is its own is shown whole."""
    common, here = decided(lab), decided(variants(lab)[profile])
    same = sorted(name for name, text in here.items() if common.get(name) == text)

    own = "".join(f"# {name}\n{text}" for name, text in here.items() if name not in same)
    golden(f"profile-{profile}.yaml", f"# as in the reference lab: {', '.join(same) or 'nothing'}\n{own}")


def test_the_same_lab_renders_the_same_bytes(variant: Lab) -> None:
    again = Lab.model_validate_json(variant.model_dump_json(exclude_unset=True))

    assert as_yaml(objects(again)) == as_yaml(objects(variant))


def test_no_map_or_list_is_empty(variant: Lab) -> None:
    """An empty map is sent, never comes back, and shows up as a change for ever. `subresources.status` is the API's."""
    empty = [
        f"{manifest['kind']}{path}"
        for manifest in objects(variant)
        for path, value in parts(manifest)
        if value in ({}, [], None, "") and not path.endswith(".subresources.status")
    ]

    # the core API group is written as an empty text
    assert {path for path in empty if ".apiGroups[0]" not in path} == set()


def images(lab: Lab) -> set[str]:
    """Images of pods, and those that operators put together from a repository, an image and a version."""
    found = set()
    for _, value in (each for manifest in objects(lab) for each in parts(manifest)):
        if isinstance(value, dict) and isinstance(image := value.get("image"), str):
            found.add(f"{value['repository']}/{image}:{value['version']}" if "repository" in value else image)
    return found


def test_every_image_is_one_of_the_bill_and_has_a_release(lab: Lab, cluster: Cluster) -> None:
    operated = profiled(lab, {"profile": "sriov_operator", "vfs": 8}, gpus="operator")
    drivers = {"driver": {"source": "operator"}, "toolkit": {"source": "operator"}}
    everywhere = operated.model_copy(
        update={"driver": NicDriver(source="operator"), "gpu": Gpu.model_validate(drivers)}
    )
    # the primary network of a cluster that is made here has tests of its own
    bill = set(cluster.bill.model_dump(exclude={"flannel", "flannel_cni_plugin"}).values())
    used = set[str]().union(*(images(each) for each in (*variants(lab).values(), everywhere)))

    assert used == bill, "an image outside the bill is not pinned, and an unused line of the bill misleads"
    assert not any(image.endswith(":latest") or ":" not in image.rpartition("/")[2] for image in used)


def test_no_role_has_a_wildcard(variant: Lab) -> None:
    assert [where for where, rule in rules(variant) if "*" in json.dumps(rule)] == []


def test_no_role_reads_or_deletes_single_secrets(variant: Lab) -> None:
    """The MPI operator alone handles secrets: it makes the SSH key of each job, and the job's end takes it away."""
    verbs = {where: set(rule["verbs"]) for where, rule in rules(variant) if "secrets" in rule["resources"]}

    assert verbs == {"ClusterRole mpi-operator": {"create", "list", "watch", "update"}}


def test_leases_are_held_in_one_namespace_only(variant: Lab) -> None:
    holders = {where for where, rule in rules(variant) if "leases" in rule["resources"]}

    assert holders <= {"Role nv-ipam-controller", "Role mpi-operator", "Role whereabouts-cni"}


def test_every_account_that_a_pod_names_is_made_and_bound(variant: Lab) -> None:
    for name, program in programs(variant, cluster_of(variant)).items():
        named = {
            str(value)
            for manifest in program.runs.values()
            for path, value in parts(manifest)
            if path.endswith(".serviceAccountName")
        }
        made = {str(m["metadata"]["name"]) for m in program.needs.values() if m["kind"] == "ServiceAccount"}
        bound = {
            str(value)
            for manifest in program.needs.values()
            for path, value in parts(manifest)
            if path.endswith("subjects[0].name")
        }

        assert named == made == bound, name


def test_a_pod_without_an_account_gets_no_token(variant: Lab) -> None:
    for name, pod in pods(variant).items():
        assert ("serviceAccountName" in pod) != (pod.get("automountServiceAccountToken") is False), name


def test_the_gpu_plugin_runs_where_the_lab_has_gpus_and_nowhere_else(lab: Lab) -> None:
    """A control plane without NVIDIA's runtime cannot start the pod, and the roll-out would never end."""
    file = profiled(lab, {"profile": "sriov_plain"}, gpus="device_plugin").model_dump(mode="json", exclude_unset=True)
    file["nodes"][1]["gpus"] = 0
    some = Lab.model_validate(file)
    file["nodes"][0]["gpus"] = 0
    none = Lab.model_validate(file)

    values = dict(parts(programs(some, cluster_of(some))["gpu-device-plugin"].runs["daemonset"]))
    [where] = [path for path in values if path.endswith(".matchExpressions[0]")]
    assert ".requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]" in where
    assert values[where] == {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu01"]}
    assert "gpu-device-plugin" not in programs(none, cluster_of(none))


def test_every_volume_that_a_container_mounts_is_there(variant: Lab) -> None:
    for name, pod in pods(variant).items():
        there = {
            value
            for path, value in parts(pod)
            if path.startswith(".volumes[") and path.count(".") == 2 and path.endswith(".name")
        }
        mounted = {value for path, value in parts(pod) if "volumeMounts[" in path and path.endswith(".name")}

        assert there == mounted, name


def mebibytes(quantity: str) -> int:
    return int(quantity.removesuffix("Mi"))


def test_every_container_says_what_it_needs(variant: Lab) -> None:
    for name, pod in pods(variant).items():
        for key in ("containers", "initContainers"):
            for container in pod.get(key, []):
                needs = container["resources"]
                assert {"cpu", "memory"} <= set(needs["requests"]), name
                assert set(needs["limits"]) == {"memory"}, f"{name}: a throttled agent is a pod that does not start"
                requested, limit = (mebibytes(needs[bound]["memory"]) for bound in ("requests", "limits"))
                assert 0 < requested <= limit, name


def test_names_are_unique_and_only_kinds_of_the_cluster_lack_a_namespace(variant: Lab) -> None:
    seen = set()
    for manifest in objects(variant):
        metadata = manifest["metadata"]
        assert isinstance(metadata, dict)
        place = (manifest["kind"], metadata.get("namespace"), metadata["name"])
        assert place not in seen
        seen.add(place)
        assert ("namespace" in metadata) == (manifest["kind"] not in CLUSTER_SCOPED), place


def test_namespaces_of_the_users_are_never_made_here(lab: Lab, cluster: Cluster) -> None:
    """Making them would mean deleting them, with all that is in them, when the lab is destroyed."""
    assert lab.benchmarks is not None
    theirs = cluster.model_copy(update={"namespaces": ("default", lab.benchmarks.namespace)})

    assert set(render_namespaces(lab, cluster)) == {"mpi-operator", "rocelab-bench"}
    assert set(render_namespaces(lab, theirs)) == {"mpi-operator"}

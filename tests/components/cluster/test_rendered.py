"""What is rendered for the cluster: exact texts against golden files, and what must hold for every object of them."""

import json
from typing import Any

import pytest

from components.cluster.cluster import programs
from components.cluster.ipam import render_pool
from components.cluster.ipam_definitions import render_pool_definitions
from components.cluster.manifests import Manifest, Program
from components.cluster.namespaces import render_namespaces
from components.cluster.networks import render_network
from stacks.cluster import Cluster
from stacks.lab import Lab
from tests.components.cluster.conftest import Golden, as_yaml, exclusive, parts

CLUSTER_SCOPED = {"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}


def everything(lab: Lab, cluster: Cluster) -> dict[str, list[Manifest]]:
    """All objects of a lab, upstream's definitions left out, by the golden file that shows them."""
    return {
        **{name: program.objects() for name, program in programs(lab, cluster).items()},
        "namespaces": list(render_namespaces(lab, cluster).values()),
        "pool-definitions": list(render_pool_definitions().values()),
        "pools": [render_pool(lab, cluster, rail) for rail in lab.rails],
        "networks": [render_network(lab, rail, "default") for rail in lab.rails],
    }


def objects(lab: Lab, cluster: Cluster) -> list[Any]:
    return [manifest for group in everything(exclusive(lab), cluster).values() for manifest in group]


def rules(lab: Lab, cluster: Cluster) -> list[tuple[str, Any]]:
    return [
        (f"{manifest['kind']} {manifest['metadata']['name']}", rule)
        for manifest in objects(lab, cluster)
        if manifest["kind"] in ("Role", "ClusterRole")
        for rule in manifest["rules"]
    ]


def pods(lab: Lab, cluster: Cluster) -> dict[str, Any]:
    return {
        str(manifest["metadata"]["name"]): manifest["spec"]["template"]["spec"]
        for program in programs(exclusive(lab), cluster).values()
        for manifest in program.runs.values()
    }


@pytest.mark.parametrize(
    "name",
    [
        "multus",
        "sriov-cni",
        "device-plugin",
        "rdma-cni",
        "nv-ipam",
        "mpi-operator",
        "namespaces",
        "pool-definitions",
        "pools",
        "networks",
    ],
)
def test_the_reference_lab_renders_its_golden_text(lab: Lab, cluster: Cluster, golden: Golden, name: str) -> None:
    shared = everything(lab, cluster)

    golden(f"{name}.yaml", as_yaml(shared.get(name) or everything(exclusive(lab), cluster)[name]))


def test_the_same_lab_renders_the_same_bytes(lab: Lab, cluster: Cluster) -> None:
    again = Lab.model_validate_json(lab.model_dump_json())

    assert again.cluster is not None
    assert as_yaml(objects(again, again.cluster)) == as_yaml(objects(lab, cluster))


def test_no_map_or_list_is_empty(lab: Lab, cluster: Cluster) -> None:
    """An empty map is sent, never comes back, and shows up as a change for ever. `subresources.status` is the API's."""
    empty = [
        f"{manifest['kind']}{path}"
        for manifest in objects(lab, cluster)
        for path, value in parts(manifest)
        if value in ({}, [], None, "") and not path.endswith(".subresources.status")
    ]

    # the core API group is written as an empty text
    assert {path for path in empty if ".apiGroups[0]" not in path} == set()


def test_every_image_is_one_of_the_bill_and_has_a_release(lab: Lab, cluster: Cluster) -> None:
    bill = set(cluster.bill.model_dump().values())
    used = {
        str(value) for manifest in objects(lab, cluster) for path, value in parts(manifest) if path.endswith(".image")
    }

    assert used == bill, "an image outside the bill is not pinned, and an unused line of the bill misleads"
    assert not any(image.endswith(":latest") or ":" not in image.rpartition("/")[2] for image in used)


def test_no_role_has_a_wildcard(lab: Lab, cluster: Cluster) -> None:
    assert [where for where, rule in rules(lab, cluster) if "*" in json.dumps(rule)] == []


def test_nobody_reads_or_deletes_secrets_one_by_one(lab: Lab, cluster: Cluster) -> None:
    """The MPI operator alone handles secrets: it makes the SSH key of each job, and the job's end takes it away."""
    verbs = {where: set(rule["verbs"]) for where, rule in rules(lab, cluster) if "secrets" in rule["resources"]}

    assert verbs == {"ClusterRole mpi-operator": {"create", "list", "watch", "update"}}


def test_leases_are_held_in_one_namespace_only(lab: Lab, cluster: Cluster) -> None:
    holders = {where for where, rule in rules(lab, cluster) if "leases" in rule["resources"]}

    assert holders == {"Role nv-ipam-controller", "Role mpi-operator"}


def test_every_account_that_a_pod_names_is_made_and_bound(lab: Lab, cluster: Cluster) -> None:
    for name, program in programs(exclusive(lab), cluster).items():
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


def test_a_pod_without_an_account_gets_no_token(lab: Lab, cluster: Cluster) -> None:
    for name, pod in pods(lab, cluster).items():
        assert ("serviceAccountName" in pod) != (pod.get("automountServiceAccountToken") is False), name


def test_every_volume_that_a_container_mounts_is_there(lab: Lab, cluster: Cluster) -> None:
    for name, pod in pods(lab, cluster).items():
        there = {
            value
            for path, value in parts(pod)
            if path.startswith(".volumes[") and path.count(".") == 2 and path.endswith(".name")
        }
        mounted = {value for path, value in parts(pod) if "volumeMounts[" in path and path.endswith(".name")}

        assert there == mounted, name


def test_every_container_says_what_it_needs(lab: Lab, cluster: Cluster) -> None:
    for name, pod in pods(lab, cluster).items():
        for key in ("containers", "initContainers"):
            for container in pod.get(key, []):
                needs = container["resources"]
                assert {"cpu", "memory"} <= set(needs["requests"]), name
                assert set(needs["limits"]) == {"memory"}, f"{name}: a throttled agent is a pod that does not start"


def test_names_are_unique_and_only_kinds_of_the_cluster_lack_a_namespace(lab: Lab, cluster: Cluster) -> None:
    seen = set()
    for manifest in objects(lab, cluster):
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


def test_a_program_lists_what_it_needs_before_what_runs() -> None:
    program = Program(needs={"account": {"kind": "a"}}, runs={"daemonset": {"kind": "b"}})

    assert [manifest["kind"] for manifest in program.objects()] == ["a", "b"]

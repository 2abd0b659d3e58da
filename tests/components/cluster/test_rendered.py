"""What is rendered for the cluster: exact texts against golden files, and what must hold for every object of them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import JsonValue

from components.cluster.cluster import programs
from components.cluster.ipam import render_pool
from components.cluster.ipam_definitions import render_pool_definitions
from components.cluster.manifests import Manifest, Program
from components.cluster.namespaces import render_namespaces
from components.cluster.networks import RESOURCE_ANNOTATION, render_network
from components.cluster.sriov import device_plugin_config
from stacks.cluster import Cluster
from stacks.lab import Lab
from tests.components.cluster.conftest import Golden, as_yaml

CLUSTER_SCOPED = {"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}


def exclusive(lab: Lab) -> Lab:
    """The reference lab with one RDMA namespace per pod: then every program runs."""
    return lab.model_copy(update={"hosts": lab.hosts.model_copy(update={"rdma_namespaces": "exclusive"})})


def everything(lab: Lab, cluster: Cluster) -> dict[str, list[Manifest]]:
    """All objects of a lab, upstream's definitions left out, by the golden file that shows them."""
    return {
        **{name: program.objects() for name, program in programs(lab, cluster).items()},
        "namespaces": list(render_namespaces(lab, cluster).values()),
        "pool-definitions": list(render_pool_definitions().values()),
        "pools": [render_pool(lab, cluster, rail) for rail in lab.rails],
        "networks": [render_network(lab, rail, "default") for rail in lab.rails],
    }


def parts(value: JsonValue, path: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Every value inside a manifest, with its dotted path."""
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from parts(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from parts(inner, f"{path}[{position}]")


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


def test_rdma_is_asked_for_inside_the_selectors(lab: Lab, cluster: Cluster) -> None:
    """At the resource, where seed A has it, the plugin ignores it and pods get no /dev/infiniband."""
    config = json.loads(device_plugin_config(lab, cluster))

    for resource in config["resourceList"]:
        assert set(resource) == {"resourceName", "resourcePrefix", "selectors"}
        assert [selector["isRdma"] for selector in resource["selectors"]] == [True]


def test_nodes_may_name_their_pfs_differently(lab: Lab, cluster: Cluster) -> None:
    first, second = lab.nodes
    pfs = tuple(pf.model_copy(update={"interface": f"{pf.interface}np0"}) for pf in second.pfs)
    mixed = lab.model_copy(update={"nodes": (first, second.model_copy(update={"pfs": pfs}))})

    found = json.loads(device_plugin_config(mixed, cluster))["resourceList"]

    assert [resource["selectors"][0]["pfNames"] for resource in found] == [
        ["enp5s0", "enp5s0np0"],
        ["enp132s0", "enp132s0np0"],
    ]


def test_a_rail_that_nobody_stands_on_offers_nothing(lab: Lab, cluster: Cluster) -> None:
    """Without PF names a selector would match every VF of the vendor, so the resource is left out altogether."""
    nodes = tuple(node.model_copy(update={"pfs": node.pfs[:1]}) for node in lab.nodes)
    one_rail = lab.model_copy(update={"nodes": nodes})

    found = json.loads(device_plugin_config(one_rail, cluster))["resourceList"]

    assert [resource["resourceName"] for resource in found] == ["sriov_111"]


def test_a_drained_node_keeps_its_rails_and_an_absent_one_loses_them(lab: Lab, cluster: Cluster) -> None:
    first, second = lab.nodes

    def hosts(state: str) -> JsonValue:
        changed = lab.model_copy(update={"nodes": (first, second.model_copy(update={"state": state}))})
        pool = render_pool(changed, cluster, changed.rails[0])
        return dict(parts(pool))[".spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values"]

    assert (hosts("drained"), hosts("absent")) == (["gpu01", "gpu02"], ["gpu01"])


def test_a_lab_without_present_nodes_runs_no_device_plugin(lab: Lab, cluster: Cluster) -> None:
    absent = tuple(node.model_copy(update={"state": "absent"}) for node in lab.nodes)

    assert "device-plugin" not in programs(lab.model_copy(update={"nodes": absent}), cluster)


def chain(lab: Lab) -> list[dict[str, JsonValue]]:
    spec = render_network(lab, lab.rails[0], "default")["spec"]
    assert isinstance(spec, dict)
    found: list[dict[str, JsonValue]] = json.loads(str(spec["config"]))["plugins"]
    return found


def test_a_network_names_the_resource_and_the_pool_of_its_rail(lab: Lab, cluster: Cluster) -> None:
    for rail in lab.rails:
        network = dict(parts(render_network(lab, rail, "default")))
        config = json.loads(str(network[".spec.config"]))
        pool = dict(parts(render_pool(lab, cluster, rail)))

        assert network[f".metadata.annotations.{RESOURCE_ANNOTATION}"] == rail.resource
        assert config["plugins"][0]["vlan"] == rail.pod.vlan_id
        assert config["plugins"][0]["ipam"]["poolName"] == pool[".metadata.name"]
        assert config["name"] == network[".metadata.name"] == rail.network_name


def test_the_vf_comes_first_and_the_mtu_is_set_by_a_plugin_of_its_own(lab: Lab) -> None:
    plugins = chain(lab)

    assert [plugin["type"] for plugin in plugins] == ["sriov", "tuning", "sbr"]
    assert plugins[1]["mtu"] == lab.rails[0].mtu_bytes
    assert "mtu" not in plugins[0], "the SR-IOV plugin ignores it"


def test_one_rail_needs_no_routing_by_source(lab: Lab) -> None:
    alone = lab.model_copy(update={"rails": lab.rails[:1]})

    assert [plugin["type"] for plugin in chain(alone)] == ["sriov", "tuning"]


def test_exclusive_rdma_brings_the_plugin_and_its_installer_together(lab: Lab, cluster: Cluster) -> None:
    def both(some: Lab) -> tuple[bool, bool]:
        return "rdma-cni" in programs(some, cluster), chain(some)[-1] == {"type": "rdma"}

    assert (both(lab), both(exclusive(lab))) == ((False, False), (True, True))


def test_namespaces_of_the_users_are_never_made_here(lab: Lab, cluster: Cluster) -> None:
    """Making them would mean deleting them, with all that is in them, when the lab is destroyed."""
    assert lab.benchmarks is not None
    theirs = cluster.model_copy(update={"namespaces": ("default", lab.benchmarks.namespace)})

    assert set(render_namespaces(lab, cluster)) == {"mpi-operator", "rocelab-bench"}
    assert set(render_namespaces(lab, theirs)) == {"mpi-operator"}


def test_a_program_lists_what_it_needs_before_what_runs() -> None:
    program = Program(needs={"account": {"kind": "a"}}, runs={"daemonset": {"kind": "b"}})

    assert [manifest["kind"] for manifest in program.objects()] == ["a", "b"]

"""What pods get of a rail: the resource, the pool, the network, as they follow from nodes and rails."""

import json
import re
from collections.abc import Callable

import pytest
from pydantic import JsonValue, ValidationError

from components.cluster.attachments import describe
from components.cluster.device_plugins import device_plugin_config
from components.cluster.ipam.nv_ipam import NvIpamPools
from components.cluster.manifests import Manifest
from components.cluster.networks import render_network
from components.cluster.node_checks import gate_spec
from components.cluster.policies import render_sriov_network
from components.cluster.profiles import networks, policies, pools, programs
from stacks.cluster import Cluster
from stacks.lab import Lab
from stacks.rules import BrokenRulesError, Fault
from tests.components.cluster.conftest import PROFILES, exclusive, parts, profiled
from tests.messages import states


def test_rdma_is_asked_for_inside_the_selectors(lab: Lab, cluster: Cluster) -> None:
    """At the resource, where the DeepOps guide has it, the plugin ignores it and pods get no /dev/infiniband."""
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


def test_a_rail_without_nodes_offers_nothing(lab: Lab, cluster: Cluster) -> None:
    """Without PF names a selector would match every VF of the vendor, so the resource is left out altogether."""
    nodes = tuple(node.model_copy(update={"pfs": node.pfs[:1]}) for node in lab.nodes)
    one_rail = lab.model_copy(update={"nodes": nodes})

    found = json.loads(device_plugin_config(one_rail, cluster))["resourceList"]

    assert [resource["resourceName"] for resource in found] == ["sriov_111"]


def test_a_drained_node_keeps_its_rails_and_an_absent_one_loses_them(lab: Lab, cluster: Cluster) -> None:
    first, second = lab.nodes

    def hosts(state: str) -> JsonValue:
        changed = lab.model_copy(update={"nodes": (first, second.model_copy(update={"state": state}))})
        pool = NvIpamPools(cluster).pool(changed, changed.rails[0])
        return dict(parts(pool))[".spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values"]

    assert (hosts("drained"), hosts("absent")) == (["gpu01", "gpu02"], ["gpu01"])


def test_a_lab_without_present_nodes_runs_no_device_plugin(lab: Lab, cluster: Cluster) -> None:
    absent = tuple(node.model_copy(update={"state": "absent"}) for node in lab.nodes)

    assert "device-plugin" not in programs(lab.model_copy(update={"nodes": absent}), cluster)


def chain(lab: Lab) -> list[dict[str, JsonValue]]:
    assert lab.cluster is not None
    spec = render_network(lab, lab.cluster, lab.rails[0], "default")["spec"]
    assert isinstance(spec, dict)
    found: list[dict[str, JsonValue]] = json.loads(str(spec["config"]))["plugins"]
    return found


@pytest.mark.row("A 22")
def test_a_network_names_the_resource_and_the_pool_of_its_rail(lab: Lab, cluster: Cluster) -> None:
    for rail in lab.rails:
        network = dict(parts(render_network(lab, cluster, rail, "default")))
        config = json.loads(str(network[".spec.config"]))
        pool = dict(parts(NvIpamPools(cluster).pool(lab, rail)))

        assert network[".metadata.annotations.k8s.v1.cni.cncf.io/resourceName"] == rail.resource
        assert config["plugins"][0]["vlan"] == rail.pod.vlan_id
        assert config["plugins"][0]["ipam"]["poolName"] == pool[".metadata.name"]
        assert config["name"] == network[".metadata.name"] == rail.network_name


def test_the_vf_comes_first_and_the_mtu_is_set_by_a_plugin_of_its_own(lab: Lab) -> None:
    plugins = chain(lab)

    assert [plugin["type"] for plugin in plugins] == ["sriov", "tuning"]
    assert plugins[1]["mtu"] == lab.rails[0].mtu_bytes
    assert "mtu" not in plugins[0], "the SR-IOV plugin ignores it"


@pytest.mark.parametrize("count", [1, 2])
def test_only_a_rail_with_a_router_is_routed_by_source(lab: Lab, count: int) -> None:
    """sbr deletes each route of the interface, the connected one included, and writes it into a table that only what
    has the pod's own address as its source is looked up in (containernetworking/plugins, plugins/meta/sbr/main.go,
    doRoutes): with the real plugin a `ping` of a peer on the rail, which binds nothing, was `Network is unreachable`.
    """
    routed = tuple(
        rail.model_copy(update={"pod": rail.pod.model_copy(update={"gateway": rail.pod.subnet.broadcast_address - 1})})
        for rail in lab.rails[:count]
    )

    assert "sbr" not in [plugin["type"] for plugin in chain(lab.model_copy(update={"rails": lab.rails[:count]}))]
    assert [plugin["type"] for plugin in chain(lab.model_copy(update={"rails": routed}))] == ["sriov", "tuning", "sbr"]


def test_exclusive_rdma_brings_the_plugin_and_its_installer_together(lab: Lab, cluster: Cluster) -> None:
    def both(some: Lab) -> tuple[bool, bool]:
        return "rdma-cni" in programs(some, cluster), chain(some)[-1] == {"type": "rdma"}

    assert (both(lab), both(exclusive(lab))) == ((False, False), (True, True))


def without_pods(lab: Lab, *names: str) -> Lab:
    """The same lab, and no pod uses these rails."""
    rails = (rail.model_copy(update={"pod": None}) if rail.name in names else rail for rail in lab.rails)
    return lab.model_copy(update={"rails": tuple(rails)})


@pytest.mark.parametrize("profile", PROFILES)
def test_of_a_rail_without_pods_nothing_in_the_cluster_knows(lab: Lab, cluster: Cluster, profile: str) -> None:
    del cluster
    delivery, rest = PROFILES[profile]
    changed = without_pods(profiled(lab, delivery, **rest), "rail-b")
    assert changed.cluster is not None
    other = lab.rails[1]

    rendered = json.dumps(
        [
            networks(changed, changed.cluster),
            pools(changed, changed.cluster),
            policies(changed, changed.cluster),
            {key: [*program.needs.values()] for key, program in programs(changed, changed.cluster).items()},
            describe(changed, changed.cluster),
            gate_spec(changed, changed.cluster).nodes,
        ]
    )

    assert changed.rails[0].resource_name in rendered
    assert not [word for word in (other.resource_name, other.network_name, "enp132s0") if word in rendered]


@pytest.mark.parametrize("render", [render_network, render_sriov_network])
def test_untagged_pods_have_no_vlan(lab: Lab, cluster: Cluster, render: Callable[..., Manifest]) -> None:
    assert lab.rails[0].pod is not None
    pod = lab.rails[0].pod.model_copy(update={"vlan_id": None})
    rail = lab.rails[0].model_copy(update={"pod": pod})

    text = json.dumps(render(lab, cluster, rail, "default"))

    assert "111," not in text
    assert re.search(r"vlan\W+111", json.dumps(render(lab, cluster, lab.rails[0], "default")))
    assert not re.search(r"vlan\W+[1-9]", text)


def two_models(lab: Lab, *, pci: bool = True) -> Lab:
    """The reference lab, whose second server calls its NICs the other way round and has them in other slots."""
    file = lab.model_dump(mode="json", exclude_unset=True)
    for n, node in enumerate(file["nodes"]):
        for k, pf in enumerate(node["pfs"]):
            pf.update({"pci": f"0000:{n + 1}{k}:00.0"} if pci else {})
    one, other = (pf["interface"] for pf in file["nodes"][1]["pfs"])
    file["nodes"][1]["pfs"][0]["interface"], file["nodes"][1]["pfs"][1]["interface"] = other, one
    return Lab.model_validate_json(json.dumps(file))


@pytest.mark.parametrize("profile", ["sriov_plain-dhcp", "sriov_operator"])
def test_server_models_that_name_their_nics_crosswise_differ_by_slot(lab: Lab, profile: str) -> None:
    delivery, rest = PROFILES[profile]
    mixed = two_models(profiled(lab, delivery, **rest))
    assert mixed.cluster is not None

    if profile == "sriov_operator":
        found = [one["spec"]["nicSelector"] for key, one in policies(mixed, mixed.cluster).items() if "vfs-" in key]
    else:
        config = json.loads(device_plugin_config(mixed, mixed.cluster))
        found = [resource["selectors"][0] for resource in config["resourceList"]]

    assert [(one["pfNames"], one["rootDevices"]) for one in found] == [
        (["enp5s0", "enp132s0"], ["0000:10:00.0", "0000:20:00.0"]),
        (["enp132s0", "enp5s0"], ["0000:11:00.0", "0000:21:00.0"]),
    ]


def faults_in(refused: ValidationError) -> tuple[Fault, ...]:
    [broken] = [detail["ctx"]["error"] for detail in refused.errors()]
    assert isinstance(broken, BrokenRulesError)
    return tuple(broken.faults)


def test_names_that_cross_without_slots_are_refused(lab: Lab) -> None:
    with pytest.raises(ValidationError) as refused:
        two_models(lab, pci=False)

    faults = faults_in(refused.value)
    assert [fault.path for fault in faults] == [
        ("nodes", 1, "pfs", 0, "interface"),
        ("nodes", 1, "pfs", 1, "interface"),
    ]
    assert all(states(fault.text, "rail-a", "rail-b", "gpu01", "pci") for fault in faults)


def test_one_slot_on_two_rails_is_refused_where_names_cross(lab: Lab) -> None:
    """enp5s0 of gpu01 in slot 10 is rail-a, and the second selector would take it for rail-b."""
    file = two_models(lab).model_dump(mode="json", exclude_unset=True)
    file["nodes"][1]["pfs"][1]["pci"] = "0000:10:00.0"

    with pytest.raises(ValidationError) as refused:
        Lab.model_validate_json(json.dumps(file))

    [fault] = faults_in(refused.value)
    assert fault.path == ("nodes", 1, "pfs", 1, "interface")
    assert states(fault.text, "enp5s0", "rail-a", "rail-b", "gpu01")
    assert "pci" not in fault.text, "the slots are known"

"""The network between pods of a cluster that is made here."""

import json
from typing import Any

from components.cluster.profiles import programs
from stacks.lab import Lab
from tests.components.cluster.conftest import parts
from tests.components.cluster.rendered import objects_of
from tests.labs import made_here


def rendered(**bootstrap: Any) -> dict[str, Any]:
    lab = Lab.model_validate_json(json.dumps(made_here(**bootstrap)))
    assert lab.cluster is not None
    return programs(lab, lab.cluster)


def test_it_uses_the_lab_s_pod_network_and_the_node_s_own_address():
    found = rendered()["flannel"]
    network = json.loads(found.needs["config"]["data"]["net-conf.json"])
    daemon = found.runs["daemonset"]["spec"]["template"]["spec"]["containers"][0]

    assert network["Network"] == "10.244.0.0/16"
    assert "--iface=$(NODE_ADDRESS)" in daemon["args"]
    assert {"name": "NODE_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}} in daemon["env"]


def test_it_is_not_placed_in_an_existing_cluster_or_beside_another_network(lab: Lab):
    assert lab.cluster is not None
    assert "flannel" not in programs(lab, lab.cluster)
    assert "flannel" not in rendered(cni="none")


def test_it_goes_through_the_lab_s_registry_and_renders_nothing_empty():
    given = made_here()
    given["cluster"]["registry"] = {"mirrors": {"ghcr.io": "registry.lab:5000/ghcr"}}
    lab = Lab.model_validate_json(json.dumps(given))
    assert lab.cluster is not None
    objects = objects_of(programs(lab, lab.cluster)["flannel"])
    images = {value for manifest in objects for path, value in parts(manifest) if path.endswith(".image")}
    empty = [path for manifest in objects for path, value in parts(manifest) if value in ({}, [], None)]

    assert images
    assert all(str(image).startswith("registry.lab:5000/ghcr/flannel-io/") for image in images)
    assert empty == []

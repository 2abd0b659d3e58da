"""The labels of nodes go through a real API server, which refuses a bad name or value."""

import pytest
import yaml

from components.topology import BLOCK, FORMATS, topology_of
from simulator.plane.api import Api
from stacks.lab import Lab

pytestmark = pytest.mark.sim


def test_the_labels_of_nodes_are_applied(api: Api, lab: Lab) -> None:
    first, second = (pf.interface for pf in lab.nodes[0].pfs)
    heard = {"gpu01": {first: "leaf-1", second: "leaf-2"}, "gpu02": {first: "leaf-1", second: "leaf-9"}}

    for manifest in yaml.safe_load_all(FORMATS["labels"](topology_of(lab, heard))):
        api.apply(f"/api/v1/nodes/{manifest['metadata']['name']}", manifest)

    blocks = {node["metadata"]["name"]: node["metadata"]["labels"][BLOCK] for node in api.items("/api/v1/nodes")}
    assert blocks == {"gpu01": "leaf-1.leaf-2", "gpu02": "leaf-1.leaf-9"}

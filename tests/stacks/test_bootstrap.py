"""A cluster that is made here: what its section may say, and what contradicts the rest of the lab."""

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from stacks.base import LabError
from stacks.read import parse_lab
from tests.labs import lab_of, made_here, section_of
from tests.messages import stating
from tests.stacks.refusals import has_fault

Edit = Callable[[dict[str, Any]], object]
REFERENCE = section_of("Pulumi.lab.yaml")


def refusal(edit: Edit) -> str:
    given = made_here()
    edit(given)
    with pytest.raises(LabError) as refused:
        parse_lab(json.dumps(given), "Pulumi.bad.yaml")
    return str(refused.value)


def bootstrap(**values: Any) -> Edit:
    return lambda lab: lab["cluster"]["bootstrap"].update(values)


def roles(*names: str, **last: Any) -> Edit:
    def edit(lab: dict[str, Any]) -> None:
        plane = lab["nodes"][0]
        lab["nodes"] = [
            {**copy.deepcopy(plane), "name": f"n{i}", "address": f"192.168.7.{i}", "role": role, **last}
            for i, role in enumerate(names, 10)
        ]

    return edit


@pytest.mark.row("A 131, 148-154")
def test_a_control_plane_and_two_workers_are_a_lab():
    lab = lab_of(made_here())

    assert lab.cluster is not None
    assert lab.cluster.bootstrap is not None
    assert [node.role for node in lab.nodes] == ["control_plane", "worker", "worker"]
    assert lab.nodes[0].pfs == ()


@pytest.mark.parametrize(
    ("edit", "path", "says"),
    [
        (roles("worker"), "cluster.bootstrap", ["0 nodes", "role: control_plane"]),
        (roles("control_plane", "control_plane"), "cluster.bootstrap", ["2 nodes", "role: control_plane"]),
        (
            roles("control_plane", "control_plane", "control_plane"),
            "cluster.bootstrap.control_plane_endpoint",
            ["missing", "control planes"],
        ),
        (
            bootstrap(control_plane_endpoint="10.10.11.5:6443"),
            "cluster.bootstrap.control_plane_endpoint",
            ["10.10.11.5", "10.10.11.0/24", "rail-a"],
        ),
        (
            bootstrap(control_plane_endpoint="10.244.0.1:6443"),
            "cluster.bootstrap.control_plane_endpoint",
            ["10.244.0.1", "pods"],
        ),
        (bootstrap(control_plane_endpoint="lab.example"), "cluster.bootstrap.control_plane_endpoint", ["pattern"]),
        (bootstrap(version="v1.36.3"), "cluster.bootstrap.version", ["pattern"]),
        (bootstrap(version="1.33.1"), "cluster.bootstrap.version", ["pattern"]),
        (lambda lab: lab["cluster"].update(kubeconfig="secret"), "cluster.kubeconfig", ["remove"]),
        (lambda lab: lab["nodes"][1].pop("pfs"), "nodes[1]", ["worker", "PF"]),
        (lambda lab: lab["cluster"].pop("bootstrap"), "nodes[0].role", ["control_plane"]),
        (lambda lab: lab["cluster"].update(pod_subnet="10.10.0.0/16"), "cluster.pod_subnet", ["rail-a"]),
        (lambda lab: lab["cluster"].update(pod_subnet="10.244.0.0/26"), "cluster.pod_subnet", ["room for 0 nodes"]),
        (lambda lab: lab["cluster"].update(pod_subnet="10.244.0.0/23"), "cluster.pod_subnet", ["room for 2 nodes"]),
        (
            lambda lab: lab["nodes"][1].update(address="10.244.1.1"),
            "nodes[1].address",
            ["10.244.1.1", "management address"],
        ),
    ],
    ids=lambda value: None if callable(value) else str(value)[:40],
)
def test_a_contradiction_is_refused_by_path(edit, path, says):
    assert has_fault(refusal(edit), path, *says)


def test_a_repository_of_packages_needs_its_key():
    assert re.search(
        r"^ *cluster\.bootstrap\.packages\S*\.key_sha256: missing",
        refusal(bootstrap(packages={"url": "https://x/"})),
        re.MULTILINE,
    )


def test_simulated_nodes_are_not_made_a_cluster():
    given = copy.deepcopy(REFERENCE)
    given["cluster"] = {k: v for k, v in given["cluster"].items() if not k.startswith("kubeconfig")}
    given["cluster"]["bootstrap"] = {"version": "1.36.3"}
    given["nodes"][0]["role"] = "control_plane"

    with pytest.raises(LabError, check=stating("cluster.bootstrap", "container runtime")):
        parse_lab(json.dumps(given), "Pulumi.bad.yaml")

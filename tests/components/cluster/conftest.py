"""Golden files and small definitions for the tests of the cluster layer."""

import os
from collections.abc import Callable, Iterable, Iterator

import pytest
import yaml
from pydantic import JsonValue

from components.cluster.ipam_definitions import render_pool_definitions
from components.cluster.manifests import Manifest
from stacks.cluster import Cluster
from stacks.lab import Lab
from tests.conftest import ROOT

GOLDEN = ROOT / "tests" / "golden" / "cluster"
UPDATE = "UPDATE_GOLDEN"

Golden = Callable[[str, str], None]


class PlainDumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no anchors."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


PlainDumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def as_yaml(manifests: Iterable[Manifest]) -> str:
    return yaml.dump_all(manifests, Dumper=PlainDumper, sort_keys=False, width=120, explicit_start=True)


def exclusive(lab: Lab) -> Lab:
    """The reference lab with one RDMA namespace per pod: then every program runs."""
    return lab.model_copy(update={"hosts": lab.hosts.model_copy(update={"rdma_namespaces": "exclusive"})})


def parts(value: JsonValue, path: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Every value inside a manifest, with its dotted path."""
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from parts(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from parts(inner, f"{path}[{position}]")


@pytest.fixture
def golden() -> Golden:
    """Compares a text with a golden file; UPDATE_GOLDEN=1 writes the file, and the diff is for the reviewer."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get(UPDATE):
            path.write_text(text)
        assert path.read_text() == text, (
            f"{name} has changed; if it should have, run with {UPDATE}=1 and review the diff"
        )

    return compare


@pytest.fixture(scope="session")
def cluster(lab: Lab) -> Cluster:
    assert lab.cluster is not None
    return lab.cluster


@pytest.fixture
def small_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions without upstream's files, so that placing can be looked at on a machine that has none of them."""
    names = {"networks": "network-attachment-definitions.k8s.cni.cncf.io", "mpijobs": "mpijobs.kubeflow.org"}
    small: dict[str, Manifest] = {
        key: {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {"scope": "Namespaced"},
        }
        for key, name in names.items()
    }
    monkeypatch.setattr(
        "components.cluster.cluster.read_definitions", lambda _store: {**small, **render_pool_definitions()}
    )

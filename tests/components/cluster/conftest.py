"""Golden files and small definitions for the tests of the cluster layer."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

import pytest
import yaml
from pydantic import JsonValue

from components.cluster.manifests import Manifest
from stacks.bill import Upstream
from stacks.cluster import Cluster
from stacks.lab import Lab
from stacks.safe_yaml import DUMPER
from tests.components.cluster.plane import api, folder, layout
from tests.conftest import ROOT

__all__ = ["api", "folder", "layout"]  # fixtures of another file, so that both sim files share one control plane

GOLDEN = ROOT / "tests" / "golden" / "cluster"
UPDATE = "UPDATE_GOLDEN"

Golden = Callable[[str, str], None]


class PlainDumper(DUMPER):  # type: ignore[misc]  # one of two classes, by what PyYAML was built with
    """Writes texts of several lines as blocks, and no anchors."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


PlainDumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def as_yaml(manifests: Iterable[Manifest]) -> str:
    return yaml.dump_all(manifests, Dumper=PlainDumper, sort_keys=False, width=120, explicit_start=True)


def profiled(lab: Lab, delivery: Mapping[str, object], **cluster: object) -> Lab:
    """The reference lab with another way into pods, as its file would say it; contradictions are refused as there."""
    file = lab.model_dump(mode="json", exclude_unset=True)
    file["cluster"] |= {"delivery": dict(delivery), **cluster}
    profile = delivery["profile"]
    for node in file["nodes"]:
        for pf in node["pfs"]:
            pf["vfs"] = pf["vfs"] if profile == "sriov_plain" else 0
        if profile == "pvrdma":
            del node["pfs"][1:]
    if profile == "pvrdma":
        del file["rails"][1:]
        file["rails"][0] |= {"resource_name": "pvrdma"}
    prefix = {"sriov_operator": "nvidia.com", "shared_rdma": "rdma", "pvrdma": "rdma"}.get(str(profile))
    for rail in file["rails"]:
        rail.update({"resource_prefix": prefix} if prefix else {})
    return Lab.model_validate_json(json.dumps(file))


PROFILES: Mapping[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
    # name: (delivery, the rest of the section)
    "sriov_plain-whereabouts": ({"profile": "sriov_plain"}, {"ipam": {"kind": "whereabouts"}}),
    "sriov_plain-dhcp": ({"profile": "sriov_plain"}, {"ipam": {"kind": "dhcp"}, "gpus": "device_plugin"}),
    "sriov_operator": ({"profile": "sriov_operator", "vfs": 8}, {"gpus": "operator"}),
    "shared_rdma": ({"profile": "shared_rdma"}, {}),
    "pvrdma": ({"profile": "pvrdma"}, {}),
}


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
def small_definitions() -> Iterator[None]:
    with without_upstream():
        yield


@contextmanager
def without_upstream() -> Iterator[None]:
    """Definitions without upstream's files, so that placing can be looked at on a machine that has none of them."""
    names = {
        "networks": "network-attachment-definitions.k8s.cni.cncf.io",
        "mpijobs": "mpijobs.kubeflow.org",
    }

    def small(key: str) -> Manifest:
        name = names.get(key) or f"{key.removeprefix('whereabouts-')}.whereabouts.cni.cncf.io"
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {"scope": "Namespaced"},
        }

    def read(_store: object, kinds: Mapping[str, Upstream | Manifest]) -> dict[str, Manifest]:
        return {key: small(key) if isinstance(kind, Upstream) else kind for key, kind in kinds.items()}

    with mock.patch("components.cluster.foundations.read_definitions", new=read):
        yield

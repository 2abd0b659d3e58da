"""Every profile against a real API server that serves upstream's definitions: no field is refused or lost."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.cluster.ipam.nv_ipam import NvIpamPools
from components.cluster.manifests import Manifest
from components.cluster.node_checks import GPU, gate_spec
from components.cluster.upstream import Store, parse_definition, upstream_files
from simulator.plane.api import Api, ApiError
from simulator.plane.layout import Layout
from stacks.base import LabError, members
from stacks.bill import MPIJOBS_DEFINITION, OPERATOR_DEFINITIONS, Upstream
from stacks.delivery import Delivery
from stacks.drivers import NicDriver
from stacks.gpus import Gpu
from stacks.lab import Lab
from stacks.read import KEY
from tests.components.cluster.conftest import PROFILES, profiled
from tests.components.cluster.lone import project, settled
from tests.components.cluster.readback import kinds_of, labelled, missing, path_of
from tests.components.cluster.rendered import objects, variants

pytestmark = pytest.mark.sim

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GPU_POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
NAMESPACES = ("nvidia-network-operator", "mpi-operator", "rocelab-bench")

Served = dict[str, Upstream]
"""Definitions of operators that the server knows, by name, with the release that they are of."""


@pytest.fixture(scope="module")
def served(api: Api) -> Iterator[Served]:
    """The server with all definitions that profiles speak to, and the namespaces that objects lie in."""
    store, found = Store.from_environment(), {}
    files = [file for file in upstream_files() if file != MPIJOBS_DEFINITION]  # the simulator's own stays there
    manifests = [*NvIpamPools.kinds.values(), *(parse_definition(store.read(file)) for file in files)]
    for name, releases in OPERATOR_DEFINITIONS.items():
        for release in releases:
            try:
                manifests.append(parse_definition(store.read(release)))
            except LabError:
                continue
            found[name] = release
            break
    paths = [f"{DEFINITIONS}/{_name(manifest)}" for manifest in manifests]
    for path, manifest in zip(paths, manifests, strict=True):
        api.apply(path, manifest)
    for name in NAMESPACES:
        api.apply(f"/api/v1/namespaces/{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for path in paths:
        _established(api, path)
    yield found
    for path in [*paths, *(f"/api/v1/namespaces/{name}" for name in NAMESPACES)]:
        api.delete(path)


def _name(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["name"])


def _established(api: Api, path: str) -> None:
    """Waits for the server's word, not for a time."""
    collection, name = path.rsplit("/", 1)

    def served_now(found: Any) -> bool:
        return any(
            c["type"] == "Established" and c["status"] == "True" for c in found["status"].get("conditions") or []
        )

    if served_now(api.get(path)):
        return
    for event in api.watch(collection, {"fieldSelector": f"metadata.name={name}"}, timeout_s=30):
        if served_now(event["object"]):
            return
    pytest.fail(f"{name} is not served")


def with_drivers(lab: Lab) -> Lab:
    """The operators with everything that can be left to them."""
    operated = profiled(lab, {"profile": "sriov_operator", "vfs": 8}, gpus="operator")
    gpu = {"driver": {"source": "operator"}, "toolkit": {"source": "operator"}, "gpudirect": "peermem"}
    return operated.model_copy(update={"driver": NicDriver(source="operator"), "gpu": Gpu.model_validate(gpu)})


def refused(api: Api, kinds: Any, manifest: Any) -> list[str]:
    """What the server does not take or does not keep of an object; nothing is stored."""
    try:
        live = api.apply(path_of(manifest, kinds), manifest, dry_run=True)
    except ApiError as error:
        return [str(error)]
    return list(missing(manifest, live))


def test_every_object_of_every_profile_is_taken_whole(api: Api, lab: Lab, served: Served) -> None:
    kinds = kinds_of(api)
    for name, variant in {**variants(lab), "drivers by operators": with_drivers(lab)}.items():
        for manifest in objects(variant):
            if manifest["kind"] in ("CustomResourceDefinition", "NicClusterPolicy", "ClusterPolicy"):
                continue
            where = f"{name}: {manifest['kind']} {manifest['metadata']['name']}"
            assert refused(api, kinds, manifest) == [], where


@pytest.mark.parametrize(
    ("kind", "definition"),
    [("NicClusterPolicy", "nicclusterpolicies.mellanox.com"), ("ClusterPolicy", "clusterpolicies.nvidia.com")],
)
def test_the_policies_of_nvidia_s_operators_are_taken_whole(
    api: Api, lab: Lab, served: Served, kind: str, definition: str
) -> None:
    """By the release that they are rendered for, or as far as an older one knows their fields."""
    if definition not in served:
        told = f"no definition of {definition} in the store: rocelab store --operators"
        if os.environ.get("CI"):  # `make test` fetches them, so there a missing one is a fault
            pytest.fail(told)
        pytest.skip(told)
    kinds, exact = kinds_of(api), served[definition] == OPERATOR_DEFINITIONS[definition][0]
    seen = [m for lab_ in (*variants(lab).values(), with_drivers(lab)) for m in objects(lab_) if m["kind"] == kind]
    assert seen
    for manifest in seen:
        spec = {key: value for key, value in manifest["spec"].items() if exact or key not in NEWER}
        assert refused(api, kinds, {**manifest, "spec": spec}) == [], served[definition].version


NEWER = ("nvIpam",)
"""Parts of a policy that the older release of its definition does not have yet."""


def test_a_wrong_field_of_a_policy_is_found(api: Api, lab: Lab, served: Served) -> None:
    """The operators' guides write `metaPluginsConfig` and `pfName`, which their own definitions do not know."""
    kinds = kinds_of(api)
    networks = [m for m in objects(with_drivers(lab)) if m["kind"] == "SriovNetwork"]
    wrong = json.loads(json.dumps(networks[0]))
    wrong["spec"]["metaPluginsConfig"] = wrong["spec"].pop("metaPlugins")

    assert "metaPluginsConfig" in str(refused(api, kinds, wrong))


ELSEWHERE = {
    "sriov_plain": "tests/components/cluster/test_apply_sim.py",
    "pvrdma": "tests/integration/test_lab_pvrdma.py",
}
"""Profiles that come up, stay and go on a whole lab, by the file that tests it."""


@pytest.fixture(params=[name for name in members(Delivery, "profile") if name not in ELSEWHERE])
def variant(request: pytest.FixtureRequest, lab: Lab) -> Lab:
    delivery, rest = PROFILES[request.param]
    # nv-ipam is a part of the operator's policy that the older definition does not know
    return profiled(lab, delivery, **(rest | {"ipam": {"kind": "whereabouts"}} if "gpus" in rest else rest))


@pytest.mark.whole
@pytest.mark.usefixtures("served")
def test_a_profile_comes_up_stays_and_goes(api: Api, variant: Lab, layout: Layout, folder: Path) -> None:
    """By the real engine: custom resources for operators, and agents of ours."""
    assert variant.cluster is not None
    lone = project(variant.cluster.delivery.profile.replace("_", "-"), layout, folder)
    file = lone.folder / "Pulumi.profile.yaml"
    file.write_text(yaml.safe_dump({"config": {KEY: variant.model_dump(mode="json", exclude_unset=True)}}))
    with offered(api, gate_spec(variant, variant.cluster).nodes):
        first = lone.up(LONE_LAB=str(file))
        assert lone.output("faults") == {}, first
        assert lone.changes("--expect-no-changes", LONE_LAB=str(file)) == []
        if variant.cluster.gpus == "operator":
            api.merge(GPU_POLICY, {"spec": {"dcgmExporter": {"enabled": True}}})
            lone.up("--refresh", LONE_LAB=str(file))
            assert api.get(GPU_POLICY)["spec"]["dcgmExporter"] == {"enabled": True}, "the owner turned it on"
        lone.destroy()
    # definitions of this file's own have the label too
    assert settled(lambda: [left for left in labelled(api) if not left.startswith("CustomResourceDefinition")]) == []


@contextmanager
def offered(api: Api, nodes: Mapping[str, Mapping[str, int]]) -> Iterator[None]:
    """Nodes with what the profile's device plugin would offer there."""
    try:
        for name, resources in nodes.items():
            counts = {resource: str(count) for resource, count in resources.items()}
            api.merge(f"/api/v1/nodes/{name}/status", {"status": {"capacity": counts, "allocatable": counts}})
        yield
    finally:
        for name, resources in nodes.items():
            gone = dict.fromkeys(set(resources) - {GPU})
            api.merge(f"/api/v1/nodes/{name}/status", {"status": {"capacity": gone, "allocatable": gone}})

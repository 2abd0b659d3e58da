"""The cluster layer applied by the real engine and provider to a real API server of its own."""

import json
from pathlib import Path

import pytest
import yaml

from components.cluster.device_plugins import LAYOUT_ANNOTATION
from components.cluster.upstream import Store
from simulator.plane.api import FIELD_MANAGER, Api
from simulator.plane.layout import Layout
from stacks.lab import Lab
from tests.components.cluster.lone import KUBECONFIG, Lone, kill_while, project, relay, settled
from tests.components.cluster.plane import ADDRESS
from tests.components.cluster.readback import kinds_of, left_of_us, missing, path_of
from tests.conftest import ROOT
from tests.messages import lines_naming

pytestmark = pytest.mark.sim

ELSEWHERE = ("127.0.12.222", 7443)
KNOWS_THE_ADDRESS = ["cluster-claim", "cluster-nodes", "cluster-provider"]
"""What speaks to the API by itself; no object of the cluster is among it."""


@pytest.fixture(scope="module")
def lone(layout: Layout, folder: Path) -> Lone:
    return project("rocelab", layout, folder)


@pytest.fixture(scope="module")
def applied(lone: Lone) -> Lone:
    """The layer, up once for all tests that only look at it."""
    lone.up()
    return lone


def test_every_field_that_is_sent_is_there(applied: Lone, api: Api) -> None:
    """A field that the schema does not know is dropped without a word; upstream's jobs of older versions lose half."""
    kinds = kinds_of(api)
    sent = [resource["inputs"] for resource in applied.resources() if resource["type"].startswith("kubernetes:")]

    assert len(sent) == 34
    for manifest in sent:
        live = api.get(path_of(manifest, kinds))
        assert list(missing(manifest, live)) == [], f"{manifest['kind']} {manifest['metadata']['name']}"


def test_a_field_that_the_schema_does_not_know_is_found_missing(applied: Lone, api: Api) -> None:
    kinds = kinds_of(api)
    manifest = {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "pruned", "namespace": "default"},
        "spec": {"config": "{}", "vlan": 111},
    }
    path = path_of(manifest, kinds)
    try:
        api.create(path.rpartition("/")[0], manifest)
        assert list(missing(manifest, api.get(path))) == [".spec.vlan is gone"]
    finally:
        api.delete(path)


def test_every_pod_of_the_lab_runs_when_the_run_ends(applied: Lone, api: Api, lab: Lab) -> None:
    sets = api.items("/apis/apps/v1/daemonsets?labelSelector=app.kubernetes.io/part-of=rocelab")
    deployments = api.items("/apis/apps/v1/deployments?labelSelector=app.kubernetes.io/part-of=rocelab")

    assert {found["metadata"]["name"]: found["status"]["numberReady"] for found in sets} == {
        "kube-multus-ds": len(lab.nodes),
        "kube-sriov-cni-ds": len(lab.nodes),
        "kube-sriov-device-plugin": len(lab.nodes),
        "nv-ipam-node-ds": len(lab.nodes),
    }
    assert {found["metadata"]["name"]: found["status"].get("readyReplicas") for found in deployments} == {
        "nv-ipam-controller": 1,
        "mpi-operator": 1,
    }


def test_a_second_run_changes_nothing(applied: Lone) -> None:
    assert applied.changes("--expect-no-changes") == []


def test_the_state_holds_no_key_and_no_input_a_path_of_this_machine(applied: Lone, layout: Layout) -> None:
    """A path in an input makes another checkout an update; the engine's own source positions do not."""
    state = next((applied.folder / "state").rglob("stacks/**/lone.json")).read_text()
    user = yaml.safe_load(layout.kubeconfig.read_text())["users"][0]["user"]
    keys = [value for key, value in user.items() if key in ("client-key-data", "token")]
    values = json.dumps([(r.get("inputs"), r.get("outputs")) for r in applied.resources()])

    assert keys
    assert not [key for key in keys if key in state]
    assert "10.20.111.0/24" in values
    for place in (ROOT, applied.folder, Store.from_environment().cache):
        assert str(place) not in values


def test_another_address_and_other_credentials_change_no_object(applied: Lone, layout: Layout) -> None:
    config = yaml.safe_load(layout.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://{ELSEWHERE[0]}:{ELSEWHERE[1]}"
    # the certificate is for the first address
    config["clusters"][0]["cluster"]["tls-server-name"] = ADDRESS
    config["users"][0]["user"].update({"as": "somebody-else", "as-groups": ["system:masters"]})
    kubeconfig = applied.folder / KUBECONFIG
    kubeconfig.write_text(yaml.safe_dump(config))

    with relay(to=(ADDRESS, layout.api_port), at=ELSEWHERE):
        assert applied.changes() == KNOWS_THE_ADDRESS
    kubeconfig.write_text(layout.kubeconfig.read_text())
    assert applied.changes() == KNOWS_THE_ADDRESS, "and back"


def test_a_new_vf_layout_changes_the_device_plugin_alone(applied: Lone) -> None:
    assert applied.changes(LONE_LAYOUT="second") == ["cluster-device-plugin-daemonset", "cluster-nodes"]


@pytest.mark.row("A 196-205", "B 410-420")
def test_a_node_that_offers_too_few_vfs_is_named_and_holds_nothing_up(applied: Lone, api: Api) -> None:
    status, resource = "/api/v1/nodes/gpu02/status", "intel.com/sriov_111"

    def offer(count: str) -> None:
        api.merge(status, {"status": {"capacity": {resource: count}, "allocatable": {resource: count}}})

    offer("3")
    try:
        told = applied.up(LONE_LAYOUT="fewer")
        assert lines_naming(told, "gpu02:", "3", resource, "4")
        assert applied.output("faults").keys() == {"gpu02"}
    finally:
        offer("4")
    assert applied.changes(LONE_LAYOUT="fewer") == ["cluster-nodes"], "it looks again until all is fine"
    assert applied.output("faults") == {}


def test_what_another_manager_manages_is_not_taken_over(applied: Lone, api: Api) -> None:
    """A second installation of the same agents, or a fix by hand, is an error that names its owner."""
    metadata = {"name": "kube-sriov-device-plugin", "namespace": "kube-system"}
    path = f"/apis/apps/v1/namespaces/{metadata['namespace']}/daemonsets/{metadata['name']}"
    spec = {"template": {"metadata": {"annotations": {LAYOUT_ANNOTATION: "theirs"}}}}
    api.apply(path, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec})

    output = applied.up(fails=True, LONE_LAYOUT="ours")

    assert f'conflict with "{FIELD_MANAGER}"' in output
    assert applied.up(LONE_LAYOUT="theirs"), "with the same value both own the field"


def test_another_stack_is_refused_before_anything_changes(applied: Lone, layout: Layout, folder: Path) -> None:
    other = project("elsewhere", layout, folder)
    owners = ("stack rocelab/lone", "stack elsewhere/lone")

    assert lines_naming(other.run("preview", fails=True), *owners), "a review shows it before anybody runs anything"
    assert lines_naming(other.up(fails=True), *owners)
    assert not [r["type"] for r in other.resources() if r["type"].startswith("kubernetes:")]


def test_the_end_leaves_nothing_behind_also_after_a_killed_run(applied: Lone, api: Api) -> None:
    applied.destroy()
    assert settled(lambda: left_of_us(api)) == []

    kill_while(applied, "cluster-multus-daemonset")
    applied.run("cancel", "--yes")
    # what the killed run made is not in the state; another layout is what a random field manager would trip over
    applied.up(LONE_LAYOUT="third")
    assert len([found for found in left_of_us(api) if found.startswith("DaemonSet ")]) == 4
    assert applied.changes(LONE_LAYOUT="third") == []

    applied.destroy()
    assert settled(lambda: left_of_us(api)) == []

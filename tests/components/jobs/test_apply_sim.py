"""The jobs before a real API server, which says of each field whether it knows it; nothing of them is started."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.cluster.upstream import Store, parse_definition
from simulator.plane.api import Api, ApiError
from simulator.plane.layout import Layout
from simulator.plane.part import ControlPlane
from stacks.bill import MPIJOBS_DEFINITION
from stacks.lab import Lab
from stacks.read import read_stack_file
from tests.components.cluster.readback import missing
from tests.components.jobs.jobs import JOBS, rendered
from tests.conftest import ROOT
from tests.simulator.plane.running import eventually

pytestmark = pytest.mark.sim

ADDRESS = "127.0.12.223"
BINARIES = ROOT / ".engine" / "bin"
OLD = Path(__file__).parent / "old"
TRY = "?dryRun=All&fieldValidation=Strict"
"""Everything is checked and nothing is kept; a field that would be dropped is an error."""


@pytest.fixture(scope="module")
def definition() -> Any:
    return parse_definition(Store.from_environment().read(MPIJOBS_DEFINITION))


@pytest.fixture(scope="module")
def api(lab: Lab, definition: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A control plane of its own that knows MPIJobs and has the jobs' namespace."""
    if lacking := [name for name in ("plane", "kwok") if not (BINARIES / name).exists()]:
        pytest.skip(f"needs {', '.join(lacking)} in .engine/bin: run make setup")
    state = tmp_path_factory.mktemp("jobs") / "sim"
    plane = ControlPlane(lab, state, BINARIES, address=ADDRESS)
    said: list[str] = []
    try:
        plane.up(said.append)
        with Api(Layout(state.absolute(), BINARIES, ADDRESS)) as opened:
            kind = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/mpijobs.kubeflow.org"
            opened.apply(kind, definition)
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rocelab-bench"}}
            opened.apply("/api/v1/namespaces/rocelab-bench", namespace)
            eventually(lambda: opened.get("/apis/kubeflow.org/v2beta1/mpijobs"), "MPIJobs in the API")
            yield opened
    finally:
        plane.down(said.append)


def collection(job: dict[str, Any]) -> str:
    return f"/apis/{job['apiVersion']}/namespaces/{job['metadata'].get('namespace', 'default')}/mpijobs"


@pytest.mark.row("A 250-270")
@pytest.mark.parametrize("transport", ["roce", "tcp", "host"])
@pytest.mark.parametrize("name", JOBS)
def test_every_field_of_a_job_is_known_and_kept(api: Api, lab: Lab, name: str, transport: str) -> None:
    job = rendered(lab, name, transport)
    live = api.create(f"{collection(job)}{TRY}", job)

    assert list(missing(job, live)) == []


@pytest.mark.row("B 440-448", "B 454-458")
@pytest.mark.parametrize("transport", ["roce", "tcp"])
def test_rdg_s_job_over_pvrdma_is_known_and_kept(api: Api, transport: str) -> None:
    """hostNetwork, sshd's port and the shared plugin's resource, and the same job over TCP."""
    job = rendered(read_stack_file(ROOT / "Pulumi.lab-pvrdma.yaml"), "tf_cnn", transport)
    live = api.create(f"{collection(job)}{TRY}", job)

    assert list(missing(job, live)) == []


@pytest.mark.parametrize("name", ["deepops_v1", "rdg_v1alpha2"])
def test_the_server_does_not_know_the_version_of_the_guides_jobs(api: Api, name: str) -> None:
    old = yaml.safe_load((OLD / f"{name}.yaml").read_text())
    with pytest.raises(ApiError) as refused:
        api.create(f"{collection(old)}{TRY}", old)
    assert refused.value.status == 404


def test_with_only_the_version_changed_the_server_drops_fields_that_the_page_lists(api: Api) -> None:
    old = yaml.safe_load((OLD / "deepops_v1.yaml").read_text())
    old["apiVersion"] = "kubeflow.org/v2beta1"
    # the number in an env value is refused anyway; what is dropped shows only where nothing is refused
    old["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["env"][0]["value"] = "0"
    live = api.create(f"{collection(old)}?dryRun=All", old)
    dropped = {path.removesuffix(" is gone") for path in missing(old, live) if path.endswith(" is gone")}

    assert dropped == {".spec.cleanPodPolicy", ".spec.backoffLimit", ".spec.mainContainer", ".spec.mpiDistribution"}
    page = (ROOT / "docs" / "cluster.md").read_text()
    assert [path for path in dropped if f"`{path[1:]}" not in page] == []

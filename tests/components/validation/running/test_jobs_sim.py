"""Jobs of a comparison and an application under the real MPI operator, on a control plane of the test's own."""

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from components.validation import mpijobs
from components.validation.benchmarks.jobs.run import run_jobs
from components.validation.benchmarks.nccl.run import run_nccl
from components.validation.records import JobResult
from stacks.images import Images, TrainingRecipe
from stacks.lab import Lab
from stacks.transports import Application, Comparison
from tests.components.validation.fake_api import cluster_run
from tests.components.validation.labs import changed, plan_for
from tests.messages import states
from tests.simulator.plane.running import BENCH, MPIJOBS, NEEDS_PROGRAMS, Plane, eventually, running

pytestmark = [pytest.mark.sim, pytest.mark.whole, NEEDS_PROGRAMS]


@pytest.fixture(scope="module")
def plane(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with running(lab, tmp_path_factory.mktemp("jobs")) as plane:
        plane.deploy_operator()
        plane.add_namespace(BENCH)
        eventually(lambda: plane.api.get(f"/api/v1/namespaces/{BENCH}/serviceaccounts/default"), "a service account")
        yield plane


@pytest.mark.row("A 329-346")
def test_all_jobs_run_to_their_end_and_only_recorded_ones_show_numbers(plane: Plane, lab: Lab) -> None:
    asked = changed(lab, comparison=Comparison(), application=Application(), budget_s=3600)
    asked = asked.model_copy(update={"images": Images(training=TrainingRecipe(image="registry:5000/training:1"))})
    kubeconfig = plane.layout.kubeconfig.read_text()

    plan = plan_for(asked)
    cluster = cluster_run(plan, kubeconfig, run_id="turns")
    results = run_jobs(plan.jobs, cluster)

    assert [(r.program, r.transport, r.outcome, r.replayed) for r in results] == [
        ("nccl_all_reduce", "tcp", "skipped", False),
        ("nccl_all_reduce", "roce", "measured", True),
        ("nccl_all_reduce", "roce", "measured", True),
        ("nccl_all_reduce", "tcp", "skipped", False),
        ("horovod", "roce", "measured", True),
    ]
    assert (results[1].value, results[4].dropped) == (22.845, (199.4, 186.1))
    assert len(cluster.raw) == 3
    assert plane.api.items(MPIJOBS) == []


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpijobs, "START_S", {True: 20, False: 20})


def failed_reason(plane: Plane, lab: Lab, run_id: str) -> str:
    """Why NCCL's job has no result, as the run's record has it."""
    plan = plan_for(lab)
    assert plan.nccl
    result = run_nccl(plan.nccl, cluster_run(plan, plane.layout.kubeconfig.read_text(), run_id=run_id))
    assert result.outcome == "failed"
    assert plane.api.items(MPIJOBS) == []
    return result.reasons[0]


@pytest.mark.row("A 362-377")
@pytest.mark.usefixtures("_soon")
def test_a_job_that_no_node_has_room_for_fails_with_the_schedulers_words(plane: Plane, lab: Lab) -> None:
    names = [f"/api/v1/nodes/{node.name}/status" for node in lab.nodes]
    offered = plane.api.get(f"/api/v1/nodes/{lab.nodes[0].name}")["status"]["allocatable"]["intel.com/sriov_111"]
    try:
        for name in names:
            plane.api.merge(name, {"status": {"allocatable": {"intel.com/sriov_111": "0"}}})
        reason = failed_reason(plane, lab, "room")
    finally:
        for name in names:
            plane.api.merge(name, {"status": {"allocatable": {"intel.com/sriov_111": offered}}})

    assert states(reason, "bench-room-worker-0", "Insufficient intel.com/sriov_111")


@pytest.mark.row("A 362-377")
@pytest.mark.usefixtures("_soon")
def test_a_job_that_the_suspended_operator_ignores_says_who_does_not_run(plane: Plane, lab: Lab) -> None:
    plane.send("mpi-operator", signal.SIGSTOP)
    try:
        reason = failed_reason(plane, lab, "ignored")
    finally:
        plane.send("mpi-operator", signal.SIGCONT)

    assert states(reason, "not started", "MPI operator")


def test_an_ended_run_leaves_no_job(plane: Plane, lab: Lab) -> None:
    plan, kubeconfig = plan_for(changed(lab, comparison=Comparison())), plane.layout.kubeconfig.read_text()
    results: list[JobResult] = []
    cluster = cluster_run(plan, kubeconfig, run_id="ended")
    thread = threading.Thread(target=lambda: results.extend(run_jobs(plan.jobs, cluster)))
    thread.start()
    eventually(lambda: plane.api.items(MPIJOBS), "a job")
    began = time.monotonic()
    cluster.stop.set()
    thread.join(timeout=30)

    assert not thread.is_alive(), f"still running after {time.monotonic() - began:.0f} s"
    assert plane.api.items(MPIJOBS) == []
    assert [one.outcome for one in results] == ["failed", "skipped", "skipped", "skipped"]
    assert all("stopped" in " ".join(one.reasons) for one in results)

"""Jobs of a comparison and an application against an API server of the test's own."""

import threading
from typing import Literal

import pytest

from components.jobs.registry import ImageStatus
from components.validation import cluster, mpijobs
from components.validation.benchmarks.jobs.run import NO_RECORDING, run_jobs
from components.validation.mpijobs import REPLAYED
from components.validation.records import JobResult
from stacks.benchmarks import Mpi
from stacks.images import Images, TrainingRecipe
from stacks.lab import Lab
from stacks.transports import Application, Comparison
from tests.components.validation.fake_api import FakeApi, cluster_run, serving, true
from tests.components.validation.labs import changed, hardware, plan_for
from tests.components.validation.samples import composed, nccl, sample
from tests.messages import states


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpijobs, "POLL_S", 0.01)
    monkeypatch.setattr(mpijobs, "START_S", {True: 0.3, False: 0.3})


def run(lab: Lab, api: FakeApi, stop: threading.Event | None = None) -> tuple[tuple[JobResult, ...], dict[str, str]]:
    with serving(api):
        plan = plan_for(lab)
        cluster = cluster_run(plan, api.kubeconfig)
        if stop and stop.is_set():
            cluster.stop.set()
        return run_jobs(plan.jobs, cluster), cluster.raw


def compared(lab: Lab, *transports: Literal["tcp", "host"]) -> Lab:
    """With a comparison at sizes of up to 64 MiB, which is where the recorded tables end."""
    assert lab.benchmarks
    assert lab.benchmarks.nccl
    return changed(
        lab,
        comparison=Comparison(transports=transports or ("tcp",)),
        nccl=lab.benchmarks.nccl.model_copy(update={"largest_bytes": 2**26}),
    )


def application(lab: Lab, **fields: object) -> Lab:
    asked = Application.model_validate(fields)
    return changed(lab, application=asked).model_copy(
        update={"images": Images(training=TrainingRecipe(image="registry:5000/training:1"))}
    )


def test_each_turn_is_a_job_of_its_own_that_is_gone_afterwards(lab: Lab) -> None:
    api = FakeApi(statuses=[true("Succeeded")], log=nccl("tagged_debug"))
    results, logs = run(compared(lab), api)

    assert [(r.transport, r.job) for r in results] == [
        ("tcp", "bench-r1-1"),
        ("roce", "bench-r1-2"),
        ("roce", "bench-r1-3"),
        ("tcp", "bench-r1-4"),
    ]
    assert api.deleted == [f"bench-r1-{turn}" for turn in (1, 2, 3, 4)]
    assert sorted(logs) == sorted(r.raw for r in results)


def test_sockets_are_right_for_tcp_and_wrong_for_roce(lab: Lab) -> None:
    results, _ = run(compared(lab), FakeApi(statuses=[true("Succeeded")], log=nccl("tagged_debug")))
    by_transport = {result.transport: result for result in results}

    assert (by_transport["tcp"].outcome, by_transport["tcp"].value) == ("measured", 268.83)
    assert by_transport["roce"].outcome == "failed"
    assert states(" ".join(by_transport["roce"].reasons), "NCCL", "sockets", "RDMA")
    assert by_transport["tcp"].details["nccl"] == "2.28.3+cuda13.0"


def test_deepops_s_training_is_read_per_gpu_with_its_two_outliers(lab: Lab) -> None:
    api = FakeApi(statuses=[true("Succeeded")], log=sample("training/deepops.txt"))
    ((result,), _) = run(application(lab), api)

    assert (result.program, result.unit, len(result.samples)) == ("horovod", "img/s", 10)
    assert result.dropped == (199.4, 186.1)
    assert result.value == pytest.approx(246.4)
    assert result.details == {"total_img_s": 3756.0, "devices": 16, "mean_img_s": 234.74, "spread_img_s": 42.0}


def test_a_training_image_that_is_nowhere_is_named_with_its_own_command(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "look", lambda _image: ImageStatus(outcome="missing"))
    api = FakeApi(statuses=[true("Succeeded")])
    ((result,), _) = run(application(hardware(lab)), api)

    (reason,) = result.reasons
    assert states(reason, "images.training", "registry:5000/training:1", "rocelab image push --which training")
    assert api.created == []


def test_a_private_image_that_its_registry_hides_is_left_to_the_pods(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lab.cluster
    registry = lab.cluster.registry.model_copy(update={"pull_secret": "login"})
    private = hardware(lab).model_copy(update={"cluster": lab.cluster.model_copy(update={"registry": registry})})
    monkeypatch.setattr(cluster, "look", lambda _image: ImageStatus(outcome="missing"))
    api = FakeApi(statuses=[true("Succeeded")], log=sample("training/deepops.txt"))
    ((result,), _) = run(application(private), api)

    assert result.outcome == "measured"


def test_tf_cnn_of_other_ranks_than_the_job_s_is_refused(lab: Lab) -> None:
    api = FakeApi(statuses=[true("Succeeded")], log=composed("tf_cnn_horovod.txt"))
    ((result,), _) = run(application(lab, program="tf_cnn"), api)

    assert (result.outcome, "workers" in result.reasons[0]) == ("failed", True)


def test_a_recorded_log_is_marked_and_not_held_against_the_plan(lab: Lab) -> None:
    node = {"metadata": {"name": "gpu01", "labels": {REPLAYED: "true"}}}
    api = FakeApi(statuses=[true("Succeeded")], log=nccl("deepops"), nodes=[node])
    results, _ = run(changed(lab, comparison=Comparison()), api)

    assert {(result.outcome, result.replayed) for result in results} == {("measured", True)}


def test_a_job_without_a_recording_is_not_run_and_never_failed(lab: Lab) -> None:
    node = {"metadata": {"name": "gpu01", "labels": {REPLAYED: "true"}}}
    results, _ = run(compared(lab), FakeApi(statuses=[true("Succeeded")], log="", nodes=[node]))

    assert {result.outcome for result in results} == {"skipped"}
    assert results[0].reasons == (NO_RECORDING,)


def test_evidence_is_kept_of_a_job_without_a_number_and_not_of_one_with(lab: Lab) -> None:
    statuses = [true("Failed", "BackoffLimitExceeded"), true("Succeeded")]
    results, raw = run(compared(lab), FakeApi(statuses=statuses, log=nccl("tagged_debug")))

    with_evidence = {name.split("/")[1] for name in raw if name.startswith("evidence/")}
    assert with_evidence == {results[0].job}


def test_a_job_that_fails_does_not_keep_the_next_from_running(lab: Lab) -> None:
    statuses = [true("Failed", "BackoffLimitExceeded"), true("Succeeded")]
    results, _ = run(compared(lab), FakeApi(statuses=statuses, log=nccl("tagged_debug")))

    assert "BackoffLimitExceeded" in results[0].reasons[0]
    assert [result.outcome for result in results] == ["failed", "failed", "failed", "measured"]


def test_a_transport_that_cannot_be_is_skipped_with_the_plan_s_reason(lab: Lab) -> None:
    results, _ = run(compared(lab, "host"), FakeApi(statuses=[true("Succeeded")], log=""))
    host = [result for result in results if result.transport == "host"]

    assert {result.outcome for result in host} == {"skipped"}
    assert states(host[0].reasons[0], "unprivileged")


def test_an_ended_run_starts_no_further_job(lab: Lab) -> None:
    stop = threading.Event()
    stop.set()
    api = FakeApi(statuses=[true("Succeeded")], log="")
    results, _ = run(compared(lab), api, stop)

    assert (api.created, {result.outcome for result in results}) == ([], {"skipped"})


def test_jobs_that_a_killed_run_left_are_deleted_first(lab: Lab) -> None:
    api = FakeApi(statuses=[true("Succeeded")], log=sample("training/deepops.txt"), left=["bench-old-2"])
    run(application(lab), api)

    assert api.deleted == ["bench-old-2", "bench-r1-1"]


def test_an_invalid_kubeconfig_fails_every_job(lab: Lab) -> None:
    plan = plan_for(compared(lab))
    results = run_jobs(plan.jobs, cluster_run(plan, "{}"))

    assert [result.outcome for result in results] == ["failed"] * 4


def mpi(lab: Lab, **fields: object) -> Lab:
    sizes = {"largest_bytes": 65_536, "transports": ("tcp",)}
    return changed(lab, mpi=Mpi.model_validate({"image": "registry:5000/mpi:1", **sizes, **fields}))


def test_an_all_reduce_on_cpus_is_read_with_the_lanes_that_ucx_names(lab: Lab):
    ((result,), logs) = run(mpi(lab), FakeApi(statuses=[true("Succeeded")], log=sample("mpi/tcp_two_namespaces.txt")))

    assert (result.program, result.outcome, result.reasons) == ("mpi_all_reduce", "measured", ())
    assert (result.unit, result.details) == ("GB/s", {"lanes": "tcp/eth0", "ranks": 2})
    assert len(result.curve) == 14
    assert list(logs) == ["mpi-all-reduce-tcp.1.log"]


@pytest.mark.parametrize(
    ("fields", "damage", "facts"),
    [
        ({"transports": ("roce",)}, ("", ""), ["UCX", "tcp/eth0", "RDMA (rc)"]),
        ({}, ("ep_cfg[1]", "other"), ["UCX", "no lane", "TCP"]),
        ({"largest_bytes": 131_072}, ("", ""), [65536, 131072]),
    ],
)
def test_an_all_reduce_that_proves_nothing_of_its_transport_fails(
    lab: Lab, fields: dict[str, object], damage: tuple[str, str], facts: list[str | int]
):
    log = sample("mpi/tcp_two_namespaces.txt").replace(*damage) if damage[0] else sample("mpi/tcp_two_namespaces.txt")
    ((result,), _) = run(mpi(lab, **fields), FakeApi(statuses=[true("Succeeded")], log=log))

    assert result.outcome == "failed"
    [reason] = result.reasons
    assert states(reason, *facts)


def test_a_log_on_cpus_whose_beginning_was_rotated_away_is_an_error(lab: Lab):
    log = sample("mpi/tcp_two_namespaces.txt")
    ((result,), _) = run(mpi(lab), FakeApi(statuses=[true("Succeeded")], log=log[log.index("#       size") :]))

    assert result.outcome == "error"
    assert states(result.reasons[0], "log", "containerLogMaxSize")


def test_wrong_sums_on_cpus_accuse_no_gpu(lab: Lab):
    right = sample("mpi/tcp_two_namespaces.txt")
    broken = right.replace("       0\n# Out of bounds values : 0 OK", "       5\n# Out of bounds values : 1 FAILED")
    assert broken != right
    ((result,), _) = run(mpi(lab), FakeApi(statuses=[true("Succeeded")], log=broken))

    [reason] = result.reasons
    assert states(reason, "5 values", "wrong", "memory")
    assert "GPU" not in reason


def test_the_image_on_cpus_that_is_nowhere_is_named_with_its_own_command(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster, "look", lambda _image: ImageStatus(outcome="missing"))
    ((result,), _) = run(mpi(hardware(lab)), FakeApi(statuses=[true("Succeeded")]))

    (reason,) = result.reasons
    assert states(reason, "benchmarks.mpi.image", "registry:5000/mpi:1", "rocelab image push --which mpi")

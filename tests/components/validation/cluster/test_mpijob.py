"""The job's run against an API server that answers badly. That the real operator runs it is shown on the simulator."""

import re
import threading

import pytest

from components.jobs.registry import ImageStatus
from components.validation import Say, cluster, mpijobs
from components.validation.benchmarks.jobs.run import run_jobs
from components.validation.benchmarks.nccl.run import run_nccl
from components.validation.mpijobs import REPLAYED
from components.validation.records import JobResult, NcclResult
from stacks.lab import Lab
from stacks.transports import Comparison
from tests.components.validation.fake_api import FakeApi, cluster_run, serving, true, waiting
from tests.components.validation.labs import changed, hardware, plan_for
from tests.components.validation.samples import RANKS, composed, nccl
from tests.messages import states

pytestmark = pytest.mark.usefixtures("_quick")


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpijobs, "POLL_S", 0.01)
    monkeypatch.setattr(mpijobs, "START_S", {True: 0.3, False: 0.3})


def run(lab: Lab, api: FakeApi, stop: threading.Event | None = None) -> tuple[NcclResult, list[str]]:
    lines: list[str] = []
    with serving(api):
        result, _ = measured(lab, api.kubeconfig, lines.append, stop)
    return result, lines


def measured(
    lab: Lab, kubeconfig: str, say: Say = print, stop: threading.Event | None = None
) -> tuple[NcclResult, dict[str, str]]:
    plan = plan_for(lab)
    cluster = cluster_run(plan, kubeconfig, say)
    if stop and stop.is_set():
        cluster.stop.set()
    assert plan.nccl
    return run_nccl(plan.nccl, cluster), cluster.raw


def small(lab: Lab) -> Lab:
    """A lab that asks for sizes up to 64 MiB, as the recorded new tables have them."""
    assert lab.benchmarks
    assert lab.benchmarks.nccl
    return changed(lab, nccl=lab.benchmarks.nccl.model_copy(update={"largest_bytes": 2**26}))


def test_a_job_that_succeeds_is_read_and_deleted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpijobs, "START_S", {True: 60, False: 60})  # a busy machine answers four requests later
    log = "vm:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE\n" + nccl("broadcast")
    api = FakeApi(statuses=[{}, true("Created"), true("Running"), true("Succeeded")], log=log)
    result, lines = run(small(lab), api)

    assert (result.outcome, result.replayed, result.busbw_gbyte_s, result.wrong) == ("measured", False, 327.28, 0)
    assert [job["kind"] for job in api.created] == ["MPIJob"]
    assert api.deleted == ["bench-r1"]
    assert lines == ["nccl_all_reduce: 2 workers run"]


def test_the_whole_table_is_kept_as_a_curve_with_the_name_of_its_log(lab: Lab) -> None:
    log = RANKS + nccl("deepops")
    api = FakeApi(statuses=[true("Succeeded")], log=log)
    with serving(api):
        result, raw = measured(lab, api.kubeconfig)

    assert (result.raw, raw[result.raw]) == ("nccl_all_reduce.log", log)
    assert len(result.curve) == 29
    first, last = result.curve[0], result.curve[-1]
    assert (first.message_bytes, last.message_bytes) == (8, 2**31)
    assert last.value == 22.92
    assert (first.time_us, last.time_us) == (2193.5, 175667), "out of place, as the table has them"


LINES = composed("nccl_log_2_28.txt")
"""What NCCL told of its network, behind which stands a table."""
ONE_END = next(line for line in LINES.splitlines() if "00/0" in line and "[receive]" in line)
CROSSED = "rank 1 sends over mlx5_2 of job-worker-0 (rail 1) and rank 2 receives over mlx5_5 of job-worker-1 (rail 0)"


@pytest.mark.parametrize(
    ("log", "off_rail"),
    [
        (LINES, ()),
        (
            LINES.replace(ONE_END, ONE_END.replace("NET/IB/0", "NET/IB/1")),
            (CROSSED,),
        ),
        (
            LINES.replace("NCCL_IB_HCA set to =mlx5_4:1,mlx5_2:1", "NCCL_IB_HCA set to =mlx5_4:1"),
            (
                "job-worker-0: rank 1 uses mlx5_2, which is on no rail",
                "job-worker-0: rank 0 uses mlx5_2, which is on no rail",
            ),
        ),
        ("\n".join(line for line in LINES.splitlines() if "NCCL_IB_HCA" not in line), ()),
    ],
)
def test_channels_off_their_rail_are_reported_only_with_the_lists_of_the_ranks(
    lab: Lab, log: str, off_rail: tuple[str, ...]
) -> None:
    both = f"{RANKS}{log}\n{nccl('deepops')}"
    result, _ = run(lab, FakeApi(statuses=[true("Succeeded")], log=both))
    (compared, *_), _ = compare(lab, FakeApi(statuses=[true("Succeeded")], log=both))

    assert (result.outcome, result.off_rail) == ("measured", off_rail)
    assert (compared.transport, compared.off_rail) == ("tcp", off_rail), "it is read alike, whatever the job is over"


def compare(lab: Lab, api: FakeApi) -> tuple[tuple[JobResult, ...], dict[str, str]]:
    with serving(api):
        plan = plan_for(changed(lab, comparison=Comparison()))
        cluster = cluster_run(plan, api.kubeconfig)
        return run_jobs(plan.jobs, cluster), cluster.raw


@pytest.mark.parametrize("first", ["Init COMPLETE", "#       size", "16777216", "# Out of bounds"])
def test_a_log_whose_beginning_the_kubelet_rotated_away_accuses_no_fabric(lab: Lab, first: str) -> None:
    log = nccl("tagged_debug").replace("Socket", "IB")
    api = FakeApi(statuses=[true("Succeeded")], log=log[log.index(first) :])
    result, _ = run(small(lab), api)
    (compared, *_), _ = compare(small(lab), api)

    for one in (result, compared):
        assert (one.outcome, one.curve, one.off_rail) == ("error", (), ())
        assert states(one.reasons[0], "log", "containerLogMaxSize")
        assert one.raw, "what is left of the log is in the bundle"


def test_wrong_values_fail_behind_a_rotated_log_too(lab: Lab) -> None:
    log = nccl("tagged_debug").replace("269.44       0", "269.44       5").replace("values : 0 OK", "values : 1 FAILED")
    result, _ = run(small(lab), FakeApi(statuses=[true("Succeeded")], log=log[log.index("#       size") :]))

    assert (result.outcome, result.wrong) == ("failed", 5)
    assert states(result.reasons[0], "5 values", "wrong")


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_node_that_shows_recorded_logs_makes_the_result_replayed(lab: Lab, where: str) -> None:
    node = {"metadata": {"name": "gpu02", where: {REPLAYED: "true"}}}
    result, _ = run(lab, FakeApi(statuses=[true("Succeeded")], log=nccl("deepops"), nodes=[node]))

    assert (result.outcome, result.replayed, result.reasons) == ("measured", True, ())


def test_the_mark_of_a_node_outside_the_lab_does_not_count(lab: Lab) -> None:
    node = {"metadata": {"name": "elsewhere", "labels": {REPLAYED: "true"}}}
    result, _ = run(lab, FakeApi(statuses=[true("Succeeded")], log=RANKS + nccl("deepops"), nodes=[node]))

    assert (result.outcome, result.replayed) == ("failed", False)
    assert "no transport" in result.reasons[0]


@pytest.mark.row("A 362-377")
@pytest.mark.parametrize(
    ("api", "reason"),
    [
        (FakeApi(statuses=[true("Failed", "BackoffLimitExceeded")]), ["failed", "BackoffLimitExceeded"]),
        (
            FakeApi(statuses=[{}], events=[{"reason": "ValidationError", "message": "spec: replicas"}]),
            ["refused", "spec: replicas"],
        ),
        (FakeApi(statuses=[{}]), ["MPI operator"]),
        (
            FakeApi(
                statuses=[true("Created")],
                pod_conditions=[{"type": "x", "status": "False", "message": "Insufficient intel.com/sriov_111"}],
            ),
            ["x-worker", "Insufficient intel.com/sriov_111"],
        ),
        # what a queue makes of a job (mpi-operator pkg/controller/mpi_job_controller.go)
        (FakeApi(statuses=[true("Suspended", "MPIJob suspended")]), ["suspended", "queue"]),
        (FakeApi(statuses=[true("Succeeded")], log="killed"), ["nccl-tests"]),
        (FakeApi(statuses=[true("Succeeded")], log=nccl("tagged_debug")), ["sockets", "RDMA"]),
    ],
)
def test_what_goes_wrong_is_a_failed_result_and_the_job_is_gone(lab: Lab, api: FakeApi, reason: list[str]) -> None:
    result, _ = run(lab, api)

    assert (result.outcome, result.replayed) == ("failed", False)
    assert states(result.reasons[0], *reason)
    assert api.deleted == ["bench-r1"]


def test_a_job_that_its_image_ended_says_so_beside_what_the_operator_knows(lab: Lab) -> None:
    log = (
        "[1,0]<stderr>:this image does not support PVRDMA: /etc/libibverbs.d has no vmw_pvrdma.driver\nmpirun: exit 1\n"
    )
    result, _ = run(lab, FakeApi(statuses=[true("Failed", "BackoffLimitExceeded")], log=log))
    (compared, *_), _ = compare(lab, FakeApi(statuses=[true("Failed", "BackoffLimitExceeded")], log=log))

    said = (
        "the job failed: BackoffLimitExceeded; this image does not support PVRDMA: /etc/libibverbs.d has no vmw_pvrdma"
    )
    assert result.reasons[0].startswith(said)
    assert compared.reasons[0].startswith(said)


def test_an_api_server_without_the_type_says_so(lab: Lab) -> None:
    result, _ = run(lab, FakeApi(create_status=404))

    assert result.outcome == "failed"
    assert "HTTP 404" in result.reasons[0]


def test_a_silent_api_server_is_a_result(lab: Lab) -> None:
    api = FakeApi(url="http://127.0.0.1:9")
    result, _ = measured(lab, api.kubeconfig)

    assert result.outcome == "failed"
    assert "API server" in result.reasons[0]


@pytest.mark.parametrize("text", ["", "nonsense", "{}", "[", "clusters: 3"])
def test_an_invalid_kubeconfig_is_a_result_without_its_text(lab: Lab, text: str) -> None:
    result, _ = measured(lab, text)

    assert result.outcome == "failed"
    assert "kubeconfig" in result.reasons[0]


def test_a_job_that_never_ends_is_given_up_after_its_limit_with_its_log(lab: Lab) -> None:
    api, plan = FakeApi(statuses=[true("Running")], log="rank 3 waits"), plan_for(lab)
    assert plan.nccl
    with serving(api):
        cluster = cluster_run(plan, api.kubeconfig)
        result = run_nccl(plan.nccl.model_copy(update={"timeout_s": 0}), cluster)

    assert (result.outcome, api.deleted) == ("failed", ["bench-r1"])
    assert states(result.reasons[0], "no end")
    assert cluster.raw["nccl_all_reduce.log"] == "rank 3 waits"


def test_jobs_that_a_killed_run_left_are_deleted_first(lab: Lab) -> None:
    api = FakeApi(statuses=[true("Failed")], left=["bench-old"])
    _, lines = run(lab, api)

    assert api.deleted == ["bench-old", "bench-r1"]
    assert "bench-old" in lines[0]


def test_a_run_that_is_ended_takes_its_job_along(lab: Lab) -> None:
    stop = threading.Event()
    stop.set()
    api = FakeApi(statuses=[true("Running")])
    result, _ = run(lab, api, stop)

    assert result.outcome == "failed"
    assert "stopped" in result.reasons[0]
    assert api.deleted == ["bench-r1"]


@pytest.mark.row("A 247, 258")
@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            waiting("ErrImagePull", 'failed to resolve "registry:5000/nccl:1": not found'),
            "not found",
        ),
        (waiting("ImagePullBackOff", "Back-off: ErrImagePull: pull access denied"), "pull access denied"),
        (waiting("InvalidImageName"), "InvalidImageName"),
    ],
)
def test_an_image_that_is_nowhere_ends_the_wait_at_once(
    lab: Lab, state: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpijobs, "START_S", {True: 3600, False: 3600})
    api = FakeApi(statuses=[true("Created")], containers=[state])
    result, _ = run(lab, api)

    assert result.outcome == "failed"
    assert states(result.reasons[0], "registry:5000/nccl:1", "gpu01", said, "rocelab image push")
    assert api.deleted == ["bench-r1"]


def test_a_registry_that_is_slow_gets_the_whole_time_and_is_named_at_its_end(lab: Lab) -> None:
    state = waiting("ImagePullBackOff", "Back-off: ErrImagePull: dial tcp: i/o timeout")
    result, _ = run(lab, FakeApi(statuses=[true("Created")], containers=[state]))

    assert states(result.reasons[0], "registry:5000/nccl:1", "gpu01", "i/o timeout")
    assert re.search(r"not started after \d+ s", result.reasons[0])


@pytest.mark.parametrize(("labels", "waited"), [({REPLAYED: "true"}, "0"), ({}, "1")])
def test_only_a_real_kubelet_gets_the_time_that_a_real_pod_takes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, labels: dict[str, str], waited: str
) -> None:
    monkeypatch.setattr(mpijobs, "PLAYED_S", 0.1)
    monkeypatch.setattr(mpijobs, "START_S", {True: 1, False: 1})
    api = FakeApi(statuses=[true("Created")], nodes=[{"metadata": {"name": "gpu01", "labels": labels}}])
    result, _ = run(lab, api)

    assert f"not started after {waited} s" in result.reasons[0]


def test_a_long_wait_says_what_keeps_the_job_from_starting(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpijobs, "ANNOUNCE_S", 0.05)

    _, lines = run(lab, FakeApi(statuses=[true("Created")], containers=[waiting("ContainerCreating")]))

    assert [line for line in lines if states(line, "nccl_all_reduce", "not started")]


def test_pods_that_still_create_their_container_are_waited_for(lab: Lab) -> None:
    state = waiting("ContainerCreating")
    api = FakeApi(statuses=[true("Created"), true("Succeeded")], containers=[state], log=nccl("deepops"))

    assert run(lab, api)[0].job == "bench-r1"


def test_an_image_that_the_registry_does_not_have_is_one_error_before_any_job(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "look", lambda _image: ImageStatus(outcome="missing"))
    api = FakeApi(statuses=[true("Succeeded")])
    result, _ = run(hardware(lab), api)

    assert result.outcome == "failed"
    assert "nccl.image: 192.168.100.10:5000/nccl-roce-test:deepops " in result.reasons[0]
    assert api.created == []


def test_an_unreachable_registry_does_not_prevent_the_job(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "look", lambda _image: ImageStatus(outcome="unknown", why="registry answers 401"))
    api = FakeApi(statuses=[true("Succeeded")], log=nccl("deepops"))
    _, lines = run(hardware(lab), api)

    assert "401" in lines[0]
    assert len(api.created) == 1


def test_the_simulator_s_nodes_pull_nothing_so_no_registry_is_asked(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "look", lambda _image: pytest.fail("asked"))

    assert run(lab, FakeApi(statuses=[true("Succeeded")], log=nccl("deepops")))[0].job == "bench-r1"

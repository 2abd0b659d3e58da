"""Which jobs a lab asks for beside the main all-reduce, and in which order they run."""

import pytest

from components.validation.benchmarks.jobs.plan import in_turn, jobs_of
from components.validation.benchmarks.plan import plan_of
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.images import Images, TrainingRecipe
from stacks.lab import Lab
from stacks.transports import Application, Comparison
from tests.components.validation.labs import changed, hardware, plan_for

HOST = Comparison(transports=("host", "tcp"), host_resource="rdma/hca")


def with_training(lab: Lab) -> Lab:
    return lab.model_copy(update={"images": Images(training=TrainingRecipe(image="registry:5000/training:1"))})


@pytest.mark.row("A 349b")
def test_transports_run_there_and_back_so_that_drift_favours_none(lab: Lab) -> None:
    jobs = jobs_of(changed(lab, comparison=Comparison()))

    assert [job.transport for job in in_turn(jobs)] == ["tcp", "roce", "roce", "tcp"]


@pytest.mark.row("A 349a")
def test_the_hosts_own_network_is_measured_next_to_roce(lab: Lab) -> None:
    jobs = jobs_of(changed(lab, comparison=HOST))

    assert [job.transport for job in in_turn(jobs)] == ["tcp", "roce", "host", "host", "roce", "tcp"]


@pytest.mark.row("A 352-360")
def test_all_transports_have_the_same_image_nodes_and_sizes(lab: Lab) -> None:
    jobs = jobs_of(changed(lab, comparison=HOST))
    workers = [job.workers for job in jobs if job.workers]

    assert len(workers) == 3
    assert len({(w.image, w.nodes, w.gpus_per_node) for w in workers}) == 1
    assert {(job.smallest_bytes, job.largest_bytes) for job in jobs} == {(8, 2**31)}


def test_a_comparison_takes_the_sizes_of_the_all_reduce_that_the_lab_file_sets(lab: Lab) -> None:
    assert lab.benchmarks
    assert lab.benchmarks.nccl
    sizes = {"smallest_bytes": 1024, "largest_bytes": 2**33}
    nccl = lab.benchmarks.nccl.model_copy(update=sizes)
    jobs = jobs_of(changed(lab, comparison=HOST, nccl=nccl))

    assert {(job.smallest_bytes, job.largest_bytes) for job in jobs} == {(1024, 2**33)}


def test_each_transport_s_job_pins_what_it_measures(lab: Lab) -> None:
    texts = dict(plan_for(changed(lab, comparison=HOST)).documents())

    assert "NCCL_NET=Socket" in texts["nccl-all-reduce-tcp.yaml"]
    assert "k8s.v1.cni.cncf.io/networks" not in texts["nccl-all-reduce-tcp.yaml"]
    for transport in ("roce", "host"):
        assert "NCCL_NET=IB" in texts[f"nccl-all-reduce-{transport}.yaml"]
        assert "NCCL_ALGO=Ring" in texts[f"nccl-all-reduce-{transport}.yaml"]


def test_a_transport_that_cannot_be_is_planned_with_the_reason(lab: Lab) -> None:
    host = next(job for job in jobs_of(changed(lab, comparison=Comparison(transports=("host",)))) if not job.workers)

    assert (host.transport, "--device-resource" in host.impossible) == ("host", True)


def test_an_application_runs_once_over_one_transport(lab: Lab) -> None:
    jobs = in_turn(jobs_of(with_training(changed(lab, application=Application()))))

    assert [(job.program, job.transport) for job in jobs] == [("horovod", "roce")]


def test_an_application_without_its_image_is_planned_with_the_reason(lab: Lab) -> None:
    (job,) = jobs_of(changed(lab, application=Application()).model_copy(update={"images": None}))

    assert job.impossible.startswith("images.training: missing")


def test_every_rank_of_tf_cnn_says_who_it_is_and_its_batches_are_bounded(lab: Lab) -> None:
    plan = plan_for(with_training(changed(lab, application=Application(program="tf_cnn"))))
    text = dict(plan.documents())["tf-cnn-roce.yaml"]

    assert "--tag-output" in text
    assert "--num_batches=200" in text


def test_jobs_are_part_of_the_plan_and_of_its_time(lab: Lab) -> None:
    more = changed(hardware(lab), comparison=Comparison(), budget_s=86_400)
    less = changed(hardware(lab), budget_s=86_400)

    assert plan_for(more).digest != plan_for(less).digest
    assert plan_for(more).estimate_s > plan_for(less).estimate_s + 4 * 45
    with pytest.raises(LabError, match="and further jobs"):
        plan_of(changed(more, budget_s=60))


def test_a_plan_without_jobs_is_written_as_before(lab: Lab) -> None:
    assert "jobs:" not in dict(plan_for(lab).documents())["plan.yaml"]


def test_a_comparison_needs_the_image_of_nccl() -> None:
    with pytest.raises(ValueError, match=r"add nccl\.image"):
        Benchmarks(comparison=Comparison())

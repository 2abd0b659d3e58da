"""The plan of the reference lab: what is in it, what changes its digest, and when it is refused."""

from collections.abc import Callable

import pytest

from components.validation.benchmarks.part import confirming, only
from components.validation.benchmarks.plan import plan_of
from stacks.base import LabError
from stacks.benchmarks import Threshold, Verbs
from stacks.lab import Lab
from stacks.read import read_stack_file
from tests.components.validation.labs import changed, first_rounds, hardware, plan_for, with_nodes
from tests.conftest import ROOT
from tests.messages import stating

GOLDEN = ROOT / "tests" / "golden" / "validation"


def test_the_reference_lab_s_plan_is_the_golden_one(lab: Lab) -> None:
    for name, text in plan_for(lab).documents():
        assert (GOLDEN / name).read_text() == text


def test_pairs_rails_and_directions_follow_from_the_rails(lab: Lab) -> None:
    runs = [(t.rail, t.client, t.server) for transfers in first_rounds(plan_for(lab)) for t in transfers]

    assert runs == [
        ("rail-a", "gpu01", "gpu02"),
        ("rail-b", "gpu01", "gpu02"),
        ("rail-a", "gpu02", "gpu01"),
        ("rail-b", "gpu02", "gpu01"),
    ]


def test_a_threshold_or_the_budget_is_no_part_of_the_plan(lab: Lab) -> None:
    assert lab.benchmarks
    verbs = lab.benchmarks.verbs.model_copy(update={"threshold": Threshold(fail_below=0.5, warn_below=0.6)})

    assert plan_for(changed(lab, verbs=verbs, budget_s=901, mode="warn")).digest == plan_for(lab).digest


def test_what_is_measured_changes_the_digest(lab: Lab) -> None:
    assert lab.benchmarks
    assert lab.benchmarks.nccl
    others = [
        changed(lab, repeats=2),
        changed(lab, verbs=lab.benchmarks.verbs.model_copy(update={"iterations": 501})),
        changed(lab, nccl=lab.benchmarks.nccl.model_copy(update={"image": "registry:5000/nccl:2"})),
        changed(lab, nccl=None),
        with_nodes(lab, 3),
        hardware(lab),
    ]

    assert len({plan_for(other).digest for other in [lab, *others]}) == len(others) + 1


def test_a_plan_over_its_budget_is_refused_with_the_remedy(lab: Lab) -> None:
    with pytest.raises(LabError, check=stating("benchmarks.budget_s", "20 s")):
        plan_of(changed(lab, budget_s=20))


def with_verbs(lab: Lab, **verbs: object) -> Lab:
    assert lab.benchmarks
    return changed(lab, verbs=lab.benchmarks.verbs.model_copy(update=verbs))


def test_sixteen_nodes_are_paired_and_more_are_sampled(lab: Lab) -> None:
    roomy = changed(lab, budget_s=86_400)

    assert [plan_for(with_nodes(roomy, count)).verbs.schedule for count in (2, 16, 17)] == ["pairs", "pairs", "sampled"]


def test_64_nodes_on_two_rails_fit_into_the_default_budget_on_hardware(lab: Lab) -> None:
    plan = plan_for(changed(with_nodes(hardware(lab), 64), repeats=3, verbs=Verbs()))

    assert plan.verbs.schedule == "sampled"
    assert plan.verbs.samples > 3
    assert plan.estimate_s < 900


def test_a_tournament_of_64_nodes_is_run_when_it_is_asked_for_and_may_take_its_time(lab: Lab) -> None:
    verbs = Verbs(schedule="pairs", tests=("ib_write_bw",), sizes=())
    plan = plan_for(changed(with_nodes(hardware(lab), 64), repeats=1, verbs=verbs, budget_s=1300))

    assert (len(first_rounds(plan)), sum(map(len, first_rounds(plan)))) == (126, 64 * 63 * 2)
    assert plan.estimate_s < 1300
    with pytest.raises(LabError, check=stating("benchmarks.budget_s", "900 s", "verbs.schedule", "auto")):
        plan_of(changed(with_nodes(hardware(lab), 64), repeats=20, verbs=verbs))


def test_a_smaller_budget_takes_fewer_samples_and_at_last_the_ring(lab: Lab) -> None:
    big = with_nodes(lab, 20)
    needed_s = [plan_for(changed(with_verbs(big, samples=count), budget_s=86_400)).estimate_s for count in (2, 3)]
    ring = with_verbs(big, schedule="ring")

    plan = plan_for(changed(big, budget_s=int(needed_s[1]) - 1))
    assert (plan.verbs.schedule, plan.verbs.samples) == ("sampled", 2)
    last = plan_for(changed(big, budget_s=int(plan_for(ring).estimate_s) + 1))
    assert (last.verbs.schedule, last.verbs.samples) == ("ring", 0)


def test_a_real_link_is_measured_for_five_seconds_and_a_simulated_one_by_a_count(lab: Lab) -> None:
    """5000 messages of 64 KiB are 2.6 Gbit: 6.6 ms at 400 Gbit/s."""
    real, counted = (plan_for(changed(hardware(lab), verbs=Verbs(**given))) for given in ({}, {"iterations": 20_000}))
    simulated = plan_for(changed(lab, verbs=Verbs(), budget_s=86_400))
    main, curve, latency = (
        next(stage for stage in real.stages if (stage.bandwidth, stage.shape) == kind)
        for kind in ((True, "one_way"), (True, "sizes"), (False, "one_way"))
    )

    assert [real.verbs.duration_of(stage) for stage in (main, curve, latency)] == [5, None, None]
    assert counted.verbs.duration_of(main) is None
    assert (simulated.verbs.duration_of(main), simulated.verbs.iterations) == (None, 5000)


def test_bandwidths_run_before_latencies_and_an_incast_last(lab: Lab) -> None:
    tests = ("ib_read_lat", "ib_read_bw", "ib_write_bw")
    plan = plan_for(changed(with_verbs(with_nodes(lab, 4), tests=tests, both_ways=True, incast=3), budget_s=86_400))

    assert [(stage.test, stage.shape) for stage in plan.stages] == [
        ("ib_write_bw", "one_way"),
        ("ib_read_bw", "one_way"),
        ("ib_write_bw", "both_ways"),
        ("ib_read_bw", "both_ways"),
        ("ib_read_lat", "one_way"),
        ("ib_write_bw", "sizes"),
        ("ib_read_lat", "sizes"),
        ("ib_write_bw", "incast"),
    ]
    assert [plan.planned(stage, "rail-a") for stage in plan.stages] == [12, 12, 6, 6, 12, 1, 1, 3]


@pytest.mark.parametrize("mode", ["off", None])
def test_nothing_asked_means_no_plan(lab: Lab, mode: str | None) -> None:
    assert plan_of(changed(lab, mode=mode) if mode else lab.model_copy(update={"benchmarks": None})) is None


def test_drained_nodes_are_not_loaded(lab: Lab) -> None:
    drained = lab.model_copy(update={"nodes": (lab.nodes[0], lab.nodes[1].model_copy(update={"state": "drained"}))})
    plan = plan_for(drained)

    assert (first_rounds(plan), plan.stages, plan.nccl) == ([], (), None)


def test_pods_that_run_on_emulated_nodes_are_given_minutes_in_the_estimate() -> None:
    lab = read_stack_file(ROOT / "Pulumi.lab-pods.yaml")
    played = lab.model_copy(update={"simulator": None})

    # two jobs and the check in pods
    assert plan_for(lab).estimate_s > plan_for(played).estimate_s + 3 * 45
    assert "emulated_pods" not in dict(plan_for(played).documents())["plan.yaml"]


@pytest.mark.parametrize(
    ("verbs", "mebibytes"),
    [
        ({"sizes": (2, 8 << 20), "queue_pairs": "auto"}, 16),
        ({"sizes": (), "queue_pairs": "auto", "message_bytes": 1 << 20}, 128),
        ({"sizes": (), "queue_pairs": 4, "message_bytes": 1 << 20}, 8),
    ],
)
def test_perftest_pins_two_buffers_per_queue_pair(lab: Lab, verbs: dict[str, object], mebibytes: int) -> None:
    plan = plan_for(lab).verbs.model_copy(update=verbs)

    assert plan.pinned_bytes == mebibytes << 20


SLURM = read_stack_file(ROOT / "templates" / "roce-routed" / "Pulumi.slurm1.yaml")


def without_gpus(lab: Lab, *names: str) -> Lab:
    nodes = []
    for node in lab.nodes:
        gpus = 0 if node.name in names else node.gpus
        nodes.append(node.model_copy(update={"gpus": gpus}))
    return lab.model_copy(update={"nodes": tuple(nodes)})


def test_a_lab_without_a_cluster_measures_the_memory_of_its_gpus() -> None:
    plan = plan_for(SLURM)
    ways = [(t.rail, t.client, t.server) for transfers in plan.gpu_memory for t in transfers]

    assert len({(rail, client) for rail, client, _ in ways}) == len(ways) == 64 * 8, "each NIC sends once"
    assert len({(rail, server) for rail, _, server in ways}) == 64 * 8
    assert plan.not_run.keys() == {"nccl_all_reduce"}
    assert "cluster" in plan.not_run["nccl_all_reduce"]


@pytest.mark.parametrize(
    ("changes", "gpu_memory", "nccl"),
    [
        (lambda lab: lab, "", ""),
        (lambda lab: without_gpus(lab, "gpu01", "gpu02"), "nodes[].gpus", "nodes[].gpus"),
        (lambda lab: without_gpus(lab, "gpu02"), "nodes[].gpus: 1", "nodes: 1"),
        (lambda lab: changed(lab, nccl=None), "", "benchmarks.nccl"),
        (lambda lab: lab.model_copy(update={"cluster": None}), "", "cluster"),
        (lambda lab: changed(lab, verbs=Verbs(tests=("ib_send_bw",))), "ib_write_bw", ""),
        (lambda lab: hardware(read_stack_file(ROOT / "Pulumi.lab-pvrdma.yaml")), "PVRDMA", "benchmarks.nccl"),
    ],
)
def test_a_test_of_gpus_is_in_the_plan_or_says_why_not(
    lab: Lab, changes: Callable[[Lab], Lab], gpu_memory: str, nccl: str
) -> None:
    plan = plan_for(changes(hardware(lab)))
    reasons = {test: reason for test, reason in (("gpu_memory", gpu_memory), ("nccl_all_reduce", nccl)) if reason}

    assert plan.not_run.keys() == reasons.keys()
    assert all(part in plan.not_run[test] for test, part in reasons.items()), plan.not_run
    assert (bool(plan.gpu_memory), plan.nccl is not None) == (not gpu_memory, not nccl)


def test_gpu_memory_alone_is_measured_with_the_host_memory_that_it_is_compared_with(lab: Lab) -> None:
    plan = only(plan_for(hardware(lab)), ["gpu_memory"])

    assert ([stage.test for stage in plan.stages if stage.shape == "one_way"], len(plan.gpu_memory)) == (
        ["ib_write_bw"],
        2,
    )
    assert (plan.nccl, plan.pods, plan.not_run) == (None, None, {})
    assert only(plan_for(hardware(lab)), ["ib_write_bw"]).gpu_memory == []


def test_slower_gpu_memory_is_confirmed_without_a_cluster() -> None:
    again = confirming(plan_for(SLURM), ["gpu_memory"])

    assert again is not None
    assert len(again.gpu_memory) == len(plan_for(SLURM).gpu_memory)
    assert confirming(plan_for(SLURM), ["ib_write_lat one_way rail-1"]).gpu_memory == []  # type: ignore[union-attr]

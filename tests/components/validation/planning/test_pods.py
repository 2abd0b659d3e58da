"""Which labs check the rails inside pods, on which nodes, and what a part of a plan leaves of it."""

import pytest

from components.validation.benchmarks.part import only, without
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.pods.faults import rail_counts
from components.validation.benchmarks.pods.log import PodFacts
from components.validation.benchmarks.pods.plan import pods_of
from stacks.delivery import Pvrdma, SharedRdma, SriovOperator
from stacks.ipam import Static
from stacks.lab import Lab
from tests.components.validation.labs import changed, plan_for, with_nodes


def delivered(lab: Lab, **cluster: object) -> Lab:
    assert lab.cluster
    return lab.model_copy(update={"cluster": lab.cluster.model_copy(update=cluster)})


def nodes(plan: Plan) -> list[tuple[str, int]]:
    return [(rail.name, len(rail.nodes)) for rail in plan.pods.rails] if plan.pods else []


def test_each_worker_has_a_pod_with_the_networks_and_devices_of_its_rails(lab: Lab) -> None:
    plan = pods_of(lab)

    assert plan
    assert plan.nodes == ("gpu01", "gpu02")
    assert [(rail.network, rail.resource, rail.vlan_id, rail.mtu_bytes) for rail in plan.rails_of("gpu01")] == [
        ("default/sriov111", "intel.com/sriov_111", 111, 9000),
        ("default/sriov112", "intel.com/sriov_112", 112, 9000),
    ]


@pytest.mark.parametrize(
    ("delivery", "planned", "own_vf"),
    [
        (SharedRdma(profile="shared_rdma"), True, False),
        (SriovOperator(profile="sriov_operator", vfs=4), True, True),
        (Pvrdma(profile="pvrdma"), False, False),
    ],
)
def test_pods_that_use_their_machine_s_network_have_no_rails_of_their_own(
    lab: Lab, delivery: object, planned: bool, own_vf: bool
) -> None:
    plan = pods_of(delivered(lab, delivery=delivery))

    assert (plan is not None) is planned
    assert plan is None or plan.own_vf is own_vf


def test_a_lab_that_cannot_start_such_pods_says_why_and_shows_none_to_a_reviewer(lab: Lab) -> None:
    for part, words in (
        (changed(lab, nccl=None), "benchmarks.nccl.image: missing"),
        (delivered(lab, ipam=Static(kind="static")), "cluster.ipam static"),
    ):
        plan = plan_for(part)
        assert plan.pods
        assert words in plan.pods.impossible
        assert "pod-rails.yaml" not in dict(plan.documents())
    assert "kind: Pod" in dict(plan_for(lab).documents())["pod-rails.yaml"]


def test_a_rail_needs_two_nodes_with_vfs(lab: Lab) -> None:
    first, second = lab.nodes
    bare = second.model_copy(update={"pfs": tuple(pf.model_copy(update={"vfs": 0}) for pf in second.pfs)})

    assert pods_of(lab.model_copy(update={"nodes": (first, bare)})) is None
    assert (
        pods_of(lab.model_copy(update={"nodes": (first, second.model_copy(update={"role": "control_plane"}))})) is None
    )


def test_a_host_that_is_not_ready_has_no_pod_and_the_others_still_have_theirs(lab: Lab) -> None:
    plan = plan_for(with_nodes(lab, 3))

    assert nodes(without(plan, ["gpu02"])) == [("rail-a", 2), ("rail-b", 2)]
    assert without(plan, ["gpu01", "gpu02"]).pods is None


def test_a_part_of_a_plan_has_the_check_by_its_name_and_on_the_rails_that_are_named(lab: Lab) -> None:
    plan = plan_for(lab)
    alone = only(plan, ["pods"])
    on_one_rail = only(plan, ["rail-b"])

    assert (alone.stages, alone.nccl, nodes(alone)) == ((), None, [("rail-a", 2), ("rail-b", 2)])
    assert nodes(on_one_rail) == [("rail-b", 2)]
    assert only(plan, ["ib_write_bw"]).pods is None


@pytest.mark.parametrize(("heard", "apart"), [(True, 1), (False, 0)])
def test_silence_on_another_rail_counts_only_where_the_peer_answers_on_its_own(
    lab: Lab, *, heard: bool, apart: int
) -> None:
    plan = pods_of(lab)
    assert plan
    rail, other = (rail.name for rail in plan.rails)
    touched = {(rail, "gpu02", rail): heard, (rail, "gpu02", other): False}

    counts, _ = rail_counts(plan, {"gpu01": PodFacts(touched=touched)}, {})

    assert (counts.rail, counts.apart) == (rail, apart)

"""The plan of the reference lab: what is in it, what changes its digest, and when it is refused."""

import pytest

from components.validation.planning.plan import plan_of
from stacks.base import LabError
from stacks.benchmarks import Threshold
from stacks.lab import Lab
from tests.components.validation.labs import changed, hardware, plan_for, with_nodes
from tests.conftest import ROOT

GOLDEN = ROOT / "tests" / "golden" / "validation"


def test_the_reference_lab_s_plan_is_the_golden_one(lab: Lab) -> None:
    for name, text in plan_for(lab).documents():
        assert (GOLDEN / name).read_text() == text


def test_pairs_rails_and_directions_follow_from_the_rails(lab: Lab) -> None:
    runs = [(t.rail, t.client, t.server) for transfers in plan_for(lab).rounds for t in transfers]

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
    with pytest.raises(LabError, match=r"benchmarks\.budget_s: the plan takes about \d+ s .*40 s are allowed. Raise"):
        plan_of(changed(lab, budget_s=40))


def test_64_nodes_on_two_rails_fit_into_the_default_budget_on_hardware(lab: Lab) -> None:
    plan = plan_for(with_nodes(hardware(lab), 64))

    assert (len(plan.rounds), sum(map(len, plan.rounds))) == (126, 64 * 63 * 2)
    assert plan.estimate_s < 900


@pytest.mark.parametrize("mode", ["off", None])
def test_nothing_asked_means_no_plan(lab: Lab, mode: str | None) -> None:
    assert plan_of(changed(lab, mode=mode) if mode else lab.model_copy(update={"benchmarks": None})) is None


def test_drained_nodes_are_not_loaded(lab: Lab) -> None:
    drained = lab.model_copy(update={"nodes": (lab.nodes[0], lab.nodes[1].model_copy(update={"state": "drained"}))})
    plan = plan_for(drained)

    assert (plan.rounds, plan.nccl) == ([], None)

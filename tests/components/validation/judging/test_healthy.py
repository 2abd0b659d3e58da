"""The verdict on noisy labs of any size: a part of the draws of `healthy`, whose whole takes an hour."""

import pytest

from components.validation.summary import JudgedTest
from components.validation.verdict import judge
from stacks.lab import Lab
from tests.components.validation.judging.healthy import RAILS, Drawn, slow_node
from tests.components.validation.labs import hardware, measured, plan_for, record, reduced
from tests.messages import states

FEW = {2: 10, 8: 3, 16: 1, 64: 1}


@pytest.mark.parametrize("nodes", FEW)
def test_a_healthy_lab_passes_and_a_node_at_85_percent_is_found(nodes: int) -> None:
    healthy = [Drawn(nodes, seed) for seed in range(FEW[nodes])]
    slow = [Drawn(nodes, seed, slow_node(nodes, seed)) for seed in range(FEW[nodes])]

    assert [lab.seed for lab in healthy if not lab.right] == []
    assert [lab.seed for lab in slow if not lab.right] == []


@pytest.mark.whole
@pytest.mark.parametrize("nodes", RAILS)
def test_ten_labs_of_each_size_are_judged_right(nodes: int) -> None:
    labs = [Drawn(nodes, seed) for seed in range(100, 110)]
    labs += [Drawn(nodes, seed, slow_node(nodes, seed)) for seed in range(100, 110)]

    assert [(lab.seed, lab.slow) for lab in labs if not lab.right] == []


def test_the_all_reduce_of_a_large_lab_is_held_against_its_own_latency() -> None:
    (row,) = (test for test in Drawn(64, 0).summary.tests if test.test == "nccl_all_reduce")

    assert row.ratio is not None
    assert row.ratio == pytest.approx(1.0, abs=0.04)
    assert states(row.basis, "512 ranks", "2 GiB")


def rated(lab: Lab, *samples: tuple[float, ...]) -> JudgedTest:
    """The bandwidth of rail-a with these repeats in its first directions."""
    real = hardware(lab)
    assert real.benchmarks
    ends = (("gpu01", "gpu02"), ("gpu02", "gpu01"))
    also = [measured("rail-a", *pair, 97.0, samples=values) for pair, values in zip(ends, samples, strict=True)]
    plan = plan_for(real)
    summary = judge(plan, real.benchmarks, record(plan, 97.2, nccl=reduced(23.9), also=also)).verdict()
    return next(test for test in summary.tests if test.rail == "rail-a" and test.test == "ib_write_bw")


def test_a_direction_within_noise_of_its_rail_is_rated_by_the_rail(lab: Lab) -> None:
    row = rated(lab, (94.0, 95.0, 96.0), (96.5, 97.5, 98.0))

    assert (row.performance, row.ratio) == ("pass", 0.9693)
    assert states(row.basis, "98.2%")


def test_a_direction_further_below_its_rail_than_its_repeats_differ_is_rated_itself(lab: Lab) -> None:
    assert rated(lab, (94.9, 95.0, 95.0), (97.4, 97.5, 97.5)).performance == "warn"
    assert rated(lab, (95.0,), (97.5,)).performance == "warn", "without repeats nothing is known of the noise"
    assert rated(lab, (94.0, 94.5, 95.0), (94.0, 94.5, 95.0)).performance == "warn", "the whole rail is low"

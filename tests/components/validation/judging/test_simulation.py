"""How often the search is right on noisy fabrics: a part of the matrix of `simulation`, whose whole takes an hour."""

import itertools

import pytest

from tests.components.validation.judging.simulation import FAULTS, Simulated, noise, right, said, searched, upper_rate

SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.whole) for seed in (1, 2, 3)))


def test_the_noise_is_the_one_that_the_published_figures_were_made_with() -> None:
    values = noise()  # refuses any other

    assert abs(sum(values)) / len(values) < 0.02
    assert sum(value * value for value in values) / len(values) == pytest.approx(1, abs=0.03)


def test_the_simulated_noise_is_as_bad_as_it_claims() -> None:
    fabric = Simulated(64, 1, None, 1)
    ratios = [value / (98.01 * fabric.used) for value in fabric.run().values() if value]
    low = sum(ratio < 0.86 for ratio in ratios) / len(ratios)

    assert 0.03 < low < 0.07  # 1 % of outliers, and both of each pair that collides


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named_and_nothing_else_is(fault: str, seed: int) -> None:
    wrong = []
    for nodes, rails in itertools.product((4, 8, 16), (1, 2, 8)):
        fabric = Simulated(nodes, rails, fault, seed)
        located, _ = searched(fabric)
        if not right(fabric, located):
            wrong.append((nodes, rails, [said(found) for found in located.faults]))

    assert not wrong  # one of a hundred may be: these seeds have none


@pytest.mark.whole
@pytest.mark.parametrize("fault", FAULTS)
def test_two_rails_of_sixty_four_nodes(fault: str) -> None:
    fabric = Simulated(64, 2, fault, 0)

    assert right(fabric, searched(fabric)[0])


@pytest.mark.whole
@pytest.mark.parametrize("fault", ["node", "path"])
def test_eight_rails_of_sixty_four_nodes(fault: str) -> None:
    fabric = Simulated(64, 8, fault, 1)

    assert right(fabric, searched(fabric)[0])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_sampled_schedule_names_what_more_than_one_pair_shows(fault: str) -> None:
    fabric = Simulated(32, 2, fault, 1, "sampled")

    assert right(fabric, searched(fabric)[0])


def test_sound_fabrics_are_not_accused() -> None:
    shapes = list(itertools.product((4, 8, 16), (1, 2, 8)))
    clean = 90
    accused = sum(bool(searched(Simulated(*shapes[seed % 9], None, seed))[0].faults) for seed in range(clean))

    assert accused == 0


def test_no_failure_in_n_bounds_the_rate_by_three_in_n() -> None:
    assert upper_rate(0, 2000) == pytest.approx(3 / 2000, rel=0.01)
    assert upper_rate(1, 2000) == pytest.approx(4.74 / 2000, rel=0.01)
    assert upper_rate(5, 5) == pytest.approx(1.0)

"""NCCL's ceiling: from measured verbs, from computed ones, and with algorithms that are no ring."""

import pytest

from components.validation.physics.ceilings import Path, bandwidth_ceiling
from components.validation.physics.nccl import Job, nccl_ceiling

SEED_A = Job(nodes=2, ranks=16)


@pytest.mark.parametrize(
    ("nics", "line_rate", "at_1024", "at_4096"),
    [
        (1, 25, 2.89, 3.06),
        (2, 25, 5.79, 6.13),
        (1, 100, 11.57, 12.25),
        (2, 100, 23.14, 24.50),
        (4, 100, 46.28, 49.01),
        (8, 200, 185.1, 196.0),
        (8, 400, 370.3, 392.1),
    ],
)
def test_busbw_of_computed_rails(nics: int, line_rate: float, at_1024: float, at_4096: float) -> None:
    found = [
        nccl_ceiling([bandwidth_ceiling(path).value] * nics, SEED_A, measured=False).value
        for path in (Path(line_rate_gbit_s=line_rate, path_mtu_bytes=mtu) for mtu in (1024, 4096))
    ]

    assert found == pytest.approx([at_1024, at_4096], abs=0.051)


def test_seed_a_s_busbw_is_what_its_verbs_predict() -> None:
    ceiling = nccl_ceiling([92.40, 92.40], SEED_A, measured=True)

    assert round(22.92 / ceiling.value, 3) == 0.992
    assert ceiling.basis == "measured ib_write_bw of 2 rails"
    assert ceiling.limited_by == "measured verbs"


@pytest.mark.parametrize(("nodes", "factor"), [(2, 1.875), (4, 1.29), (8, 1.125)])
def test_an_algorithm_that_reduces_inside_the_node_may_exceed_the_ring(nodes: int, factor: float) -> None:
    tree = nccl_ceiling([100.0], Job(nodes=nodes, ranks=8 * nodes, algorithm="Tree"), measured=True)
    free = nccl_ceiling([100.0], Job(nodes=nodes, ranks=8 * nodes, algorithm=None), measured=True)

    assert tree.value / 12.5 == pytest.approx(factor, abs=0.005)
    assert free.value == tree.value
    assert "Tree" in tree.basis
    assert "chose its algorithm" in free.basis

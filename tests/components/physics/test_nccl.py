"""NCCL's ceiling, from measured verbs and from computed ones."""

import pytest

from components.physics.ceilings import Path, bandwidth_ceiling
from components.validation.benchmarks.nccl.judge import nccl_ceiling
from tests.messages import states


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
        nccl_ceiling([bandwidth_ceiling(path).value] * nics, measured=False).value
        for path in (Path(line_rate_gbit_s=line_rate, path_mtu_bytes=mtu) for mtu in (1024, 4096))
    ]

    assert found == pytest.approx([at_1024, at_4096], abs=0.051)


def test_deepops_s_busbw_is_what_its_verbs_predict() -> None:
    ceiling = nccl_ceiling([92.40, 92.40], measured=True)

    assert round(22.92 / ceiling.value, 3) == 0.992
    assert states(ceiling.basis, "ib_write_bw", "2 rails")
    assert ceiling.limited_by == "measured verbs"

"""What a latency's number means."""

import pytest

from components.validation.benchmarks.verbs.judge import jitters
from components.validation.benchmarks.verbs.plan import PROGRAMS


def test_only_a_read_s_latency_is_printed_as_a_round_trip() -> None:
    assert {test for test, program in PROGRAMS.items() if program.round_trip} == {"ib_read_lat"}


@pytest.mark.parametrize(
    ("median_us", "tail_us", "found"),
    [(1.7, 4.1, False), (2.0, 20.0, False), (2.0, 20.1, True), (0.0, 1.0, False)],
)
def test_a_tail_above_ten_medians_is_jitter(median_us: float, tail_us: float, found: bool) -> None:
    assert jitters(median_us, tail_us) is found

"""What a latency's number means."""

import pytest

from components.validation.benchmarks.verbs.judge import jitters, ways_of


@pytest.mark.parametrize(
    ("test", "ways"), [("ib_write_lat", 1), ("ib_send_lat", 1), ("ib_read_lat", 2), ("ib_atomic_lat", 2)]
)
def test_a_read_s_latency_is_printed_as_a_round_trip(test: str, ways: int) -> None:
    assert ways_of(test) == ways


@pytest.mark.parametrize(("median_us", "tail_us", "found"), [(1.7, 4.1, False), (1.7, 25.0, True), (0.0, 1.0, False)])
def test_a_tail_ten_times_the_median_is_jitter(median_us: float, tail_us: float, found: bool) -> None:
    assert jitters(median_us, tail_us) is found

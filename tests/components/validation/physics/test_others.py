"""TCP's goodput and the table of latencies."""

import pytest

from components.validation.physics.latency import BOUNDS, jitters, ways_of
from components.validation.physics.tcp import tcp_ceiling, tcp_goodput_ratio


@pytest.mark.parametrize(("mtu_bytes", "percent"), [(1500, 94.1), (9000, 99.0)])
def test_tcp_goodput_by_mtu(mtu_bytes: int, percent: float) -> None:
    assert 100 * tcp_goodput_ratio(mtu_bytes) == pytest.approx(percent, abs=0.06)
    assert tcp_ceiling(25, mtu_bytes).value == pytest.approx(percent / 4, abs=0.02)


def test_tags_and_ipv6_cost_tcp_their_headers() -> None:
    assert tcp_goodput_ratio(1500, vlan=True, ipv6=True) == pytest.approx(1428 / 1542)


def test_an_mtu_without_room_for_a_segment_is_refused() -> None:
    with pytest.raises(ValueError, match="MTU 50"):
        tcp_goodput_ratio(50)


@pytest.mark.parametrize(
    ("test", "ways"), [("ib_write_lat", 1), ("ib_send_lat", 1), ("ib_read_lat", 2), ("ib_atomic_lat", 2)]
)
def test_a_read_s_latency_is_printed_as_a_round_trip(test: str, ways: int) -> None:
    assert ways_of(test) == ways


def test_the_bounds_are_ordered_and_a_vf_is_held_to_what_its_pf_is() -> None:
    assert all(bound.warn_above_us < bound.fail_above_us for bound in BOUNDS.values())
    assert (BOUNDS["vf"].warn_above_us, BOUNDS["vf"].fail_above_us) == (5, 10)
    assert (BOUNDS["pvrdma"].warn_above_us, BOUNDS["pvrdma"].fail_above_us) == (15, 50)
    assert BOUNDS["pf"].ceiling.unit == "us"


@pytest.mark.parametrize(("median_us", "tail_us", "found"), [(1.7, 4.1, False), (1.7, 25.0, True), (0.0, 1.0, False)])
def test_a_tail_ten_times_the_median_is_jitter(median_us: float, tail_us: float, found: bool) -> None:
    assert jitters(median_us, tail_us) is found

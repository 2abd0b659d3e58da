"""A guest's clock beside this machine's."""

import pytest

from simulator.nodes.clock import Reading, wrong_pace


def readings(guest_s: float, login_s: float) -> tuple[Reading, Reading]:
    """Two readings 10 seconds apart, while the guest counted `guest_s`."""
    return Reading(20.0, 100.0, 100.0 + login_s), Reading(20.0 + guest_s, 110.0, 110.0 + login_s)


@pytest.mark.parametrize(("guest_s", "login_s"), [(10.0, 0.5), (10.4, 0.5), (8.0, 2.0), (12.0, 2.0)])
def test_a_clock_that_may_be_right_is_not_refused(guest_s: float, login_s: float) -> None:
    assert wrong_pace(*readings(guest_s, login_s)) is None


@pytest.mark.parametrize(("guest_s", "pace"), [(44.0, 4.2), (2.0, 0.2)])
def test_a_clock_that_is_surely_wrong_is_refused_with_its_factor(guest_s: float, pace: float) -> None:
    assert wrong_pace(*readings(guest_s, 0.5)) == pytest.approx(pace, abs=0.05)

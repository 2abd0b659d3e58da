"""Waits for a vCenter that is busy, on a clock that the test moves."""

import pytest

from components.fabric.vcenter import client
from tests.messages import states

WAITING = "roce: waiting for vCenter to set mtu_bytes"


class Clock:
    """Time passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(client, "time", clock)
    return clock


def test_what_ends_soon_is_waited_for_without_a_word(clock: Clock) -> None:
    said: list[str] = []

    assert client.until(lambda: clock.now_s >= 9, 600, said.append, WAITING)
    assert (clock.now_s, said) == (9, [])


def test_a_long_wait_logs_its_subject_and_duration_ever_less_often(clock: Clock) -> None:
    said: list[str] = []

    assert client.until(lambda: clock.now_s >= 60, 600, said.append, WAITING)
    assert len(said) == 3
    assert all(states(line, WAITING, f"{passed} s", "600 s") for line, passed in zip(said, (10, 20, 40), strict=True))


def test_the_bound_ends_the_wait_and_six_lines_are_the_most(clock: Clock) -> None:
    said: list[str] = []

    assert not client.until(lambda: False, 600, said.append, WAITING)
    assert clock.now_s == 600
    assert len(said) == 6

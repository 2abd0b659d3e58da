"""Whether a guest's clock is as fast as this machine's.

A kernel measures its clock while it boots. On a machine that is busy at that moment it can measure badly (seen: 4.4
times too fast), and each start from a snapshot of that guest would have the same clock: its deadlines end early.
"""

from dataclasses import dataclass

APART_S = 5.0
"""Least time between two readings, so that the time that a login takes matters little."""
TOLERATED = 0.2


@dataclass(frozen=True)
class Reading:
    """A guest's `/proc/uptime`, and this machine's clock before and after it was read."""

    uptime_s: float
    asked_s: float
    answered_s: float


def wrong_pace(first: Reading, second: Reading) -> float | None:
    """How many times as fast as this machine's clock the guest's is; None unless that is surely wrong."""
    guest_s = second.uptime_s - first.uptime_s
    longest_s = second.answered_s - first.asked_s
    shortest_s = second.asked_s - first.answered_s
    if guest_s > longest_s * (1 + TOLERATED):
        return guest_s / longest_s
    if guest_s < shortest_s * (1 - TOLERATED):
        return guest_s / shortest_s
    return None

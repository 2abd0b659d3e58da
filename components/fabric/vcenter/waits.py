"""Bounded waits for a vCenter that is busy: whoever watches a run is told what it waits for, and for how long."""

import time
from collections.abc import Callable

Say = Callable[[str], None]

POLL_S = 1.0
TOLD_AFTER_S = 10.0
"""Most tasks end sooner. The next line comes after twice the time, so that ten minutes are six lines and not sixty."""


def until(done: Callable[[], bool], bound_s: float, say: Say, waiting: str) -> bool:
    """Waits until something is done; False when it is not within `bound_s`.

    Args:
        done: asked once a second.
        bound_s: how long at most.
        say: gets a line when it takes long.
        waiting: for what, as the line has it.
    """
    began, told_after_s = time.monotonic(), TOLD_AFTER_S
    while not done():
        passed_s = time.monotonic() - began
        if passed_s >= bound_s:
            return False
        if passed_s >= told_after_s:
            say(f"{waiting}: not done after {passed_s:.0f} s; {bound_s:.0f} s at most")
            told_after_s *= 2
        time.sleep(POLL_S)
    return True

"""What the pieces of the simulator have in common: how each starts, tells its state, and ends."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

Report = Callable[[str], None]
"""Takes one line of progress; whoever calls a part adds name and elapsed time."""


class SimulatorError(Exception):
    """Something that the user can act on; shown without a traceback."""


REPORT_EVERY_S = 15.0


class Wait:
    """A bounded wait that says every 15 s what it waits for, so that none of them looks like a hang."""

    def __init__(self, what: str, timeout_s: float, report: Report, pause_s: float = 0.1) -> None:
        self._what, self._timeout_s, self._report, self._pause_s = what, timeout_s, report, pause_s
        self._begun_s = self._said_s = time.monotonic()

    def goes_on(self, detail: str = "") -> bool:
        """Pauses before the next look; False when time is over."""
        now_s = time.monotonic()
        if now_s > self._begun_s + self._timeout_s:
            return False
        if now_s > self._said_s + REPORT_EVERY_S:
            waited_s, self._said_s = now_s - self._begun_s, now_s
            self._report(f"waiting for {self._what}: {waited_s:.0f} of {self._timeout_s:.0f} s at most{detail}")
        time.sleep(self._pause_s)
        return True


@contextmanager
def announced(what: str, report: Report) -> Iterator[None]:
    """Says every 15 s that something is still under way while the block does it in one blocking call."""
    ended, begun_s = threading.Event(), time.monotonic()

    def announce() -> None:
        while not ended.wait(REPORT_EVERY_S):
            report(f"{what}: {time.monotonic() - begun_s:.0f} s so far")

    thread = threading.Thread(target=announce, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


SUSPENDED = "suspended by a signal: sim up lets it continue"
"""Detail of a process that is there and does nothing."""


@dataclass(frozen=True)
class Status:
    """One line of `sim status`."""

    name: str
    address: str
    state: Literal["running", "idle", "stopped", "died", "not answering"]
    """idle: nobody has asked for it yet, so all is well without it."""
    detail: str = ""
    pid: int | None = None


class Part(Protocol):
    """One piece of the simulator. Every verb may be called twice and finds the same end."""

    name: str

    def up(self, report: Report) -> None:
        """Starts what does not run and returns when all of it answers.

        Raises:
            SimulatorError: with the last lines of the log of what did not start.
        """

    def status(self) -> list[Status]:
        """A line for each process, also for those that are stopped."""

    def reset(self, report: Report) -> None:
        """Puts the part back to its state after the first start."""

    def down(self, report: Report) -> None:
        """Ends every process of the part and waits for its end; state on disk stays."""

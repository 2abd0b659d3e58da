"""What all parts of the simulator have in common: how each starts, reports its state, and ends."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

CHECKOUT = Path(__file__).parents[1]
Item = TypeVar("Item")

Report = Callable[[str], None]
"""Receives a line of progress. The caller adds the part's name and the elapsed time."""


class SimulatorError(Exception):
    """An error that you can act on; shown without a traceback."""


REPORT_EVERY_S = 15.0


class Wait:
    """A bounded wait that reports every 15 s what it waits for, so that it never looks like a hang."""

    def __init__(self, what: str, timeout_s: float, report: Report, pause_s: float = 0.1) -> None:
        self._what, self._timeout_s, self._report, self._pause_s = what, timeout_s, report, pause_s
        self._begun_s = self._said_s = time.monotonic()

    def continues(self, detail: str = "") -> bool:
        """Pauses before the next check; False when time is up."""
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
    """Reports every 15 s that a blocking call in the block is still under way."""
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


SUSPENDED = "suspended by a signal; sim up resumes it"
"""Detail of a suspended process."""


@dataclass(frozen=True)
class Status:
    """One line of `sim status`."""

    name: str
    address: str
    state: Literal["running", "idle", "stopped", "died", "not answering"]
    """idle: not needed yet."""
    detail: str = ""
    pid: int | None = None


class Part(Protocol):
    """One part of the simulator. Calling a method twice has the same result as once."""

    name: str

    def up(self, report: Report) -> None:
        """Starts what does not run, and returns when all processes answer.

        Raises:
            SimulatorError: with the last log lines of the process that did not start.
        """

    def status(self) -> list[Status]:
        """A line per process, including stopped ones."""

    def reset(self, report: Report) -> None:
        """Resets the part to its state after the first start."""

    def down(self, report: Report) -> None:
        """Ends all processes of the part and waits for their end; state on disk stays."""


def on_all(items: Sequence[Item], act: Callable[[Item, Report], None], report_of: Callable[[Item], Report]) -> None:
    """Runs `act` on all items in parallel, and waits for all of them.

    Raises:
        SimulatorError: if any failed, with the errors of all that failed.
    """

    def one(item: Item) -> str:
        report = report_of(item)
        try:
            act(item, report)
        except (SimulatorError, OSError) as error:
            text = str(error)
            first_line, _, _ = text.partition("\n")
            report(f"failed: {first_line}")
            return text
        return ""

    with ThreadPoolExecutor(max_workers=max(1, len(items))) as pool:
        if failures := [failure for failure in pool.map(one, items) if failure]:
            raise SimulatorError("\n".join(failures))

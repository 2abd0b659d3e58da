"""What the pieces of the simulator have in common: how each starts, tells its state, and ends."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

Report = Callable[[str], None]
"""Takes one line of progress; whoever calls a part adds name and elapsed time."""


class SimulatorError(Exception):
    """Something that the user can act on; shown without a traceback."""


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

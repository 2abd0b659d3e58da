"""One run at a time on a host, including the run of the boot unit."""

import fcntl
import os

from .machine import Machine, StepError
from .places import BOOT_RUN_WAIT_S, LOCK_FILE, LOCK_WAIT_S, REVERT_FILE, STARTING_S, UNIT, UNIT_LINK


def wait_for_boot(machine: Machine) -> None:
    """Waits while the unit of a starting host is about to run or runs: what it has not set yet has not drifted.

    The wait is bounded, so a unit that hangs blocks no run. A unit that a driver reload has started waits for the
    confirmation of a run, so the run must not wait for it.
    """
    if machine.now_s() < STARTING_S and machine.exists(UNIT_LINK) and not machine.exists(REVERT_FILE):
        machine.wait(lambda: not _is_starting(machine), BOOT_RUN_WAIT_S)


def _is_starting(machine: Machine) -> bool:
    state = machine.run("systemctl", "show", "--property=ActiveState,Job", UNIT).out.split()
    return "ActiveState=activating" in state or any(word.startswith("Job=") and word[4:].strip("0") for word in state)


class locked:  # noqa: N801  # read as a word of a sentence: with locked(...)
    """The second run waits, and a killed one leaves nothing behind.

    With `confirmed` it also waits until no network waits for its confirmation.
    """

    def __init__(self, machine: Machine, wait_s: float = LOCK_WAIT_S, *, confirmed: bool = False) -> None:
        self.machine, self.wait_s, self.confirmed, self.descriptor = machine, wait_s, confirmed, -1

    def __enter__(self) -> None:
        if not self.machine.wait(self._taken, self.wait_s):
            raise StepError(
                f"another run holds {LOCK_FILE} for more than {self.wait_s:.0f} s", "wait until it ends, then run again"
            )

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def _taken(self) -> bool:
        path = self.machine.path(LOCK_FILE)
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # undo removes the file, and a lock on a removed file would exclude no other run
            ours = os.stat(path).st_ino == os.fstat(self.descriptor).st_ino
            if ours and not (self.confirmed and self.machine.exists(REVERT_FILE)):
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(self.descriptor)
        return False

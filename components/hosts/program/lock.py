"""One run at a time on a host."""

import fcntl
import os

from .machine import Machine, StepError
from .places import LOCK_FILE, LOCK_WAIT_S


class locked:  # noqa: N801  # read as a word of a sentence: with locked(...)
    """The second run waits, and a killed one leaves nothing behind."""

    def __init__(self, machine: Machine, wait_s: float = LOCK_WAIT_S) -> None:
        self.machine, self.wait_s, self.descriptor = machine, wait_s, -1

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
            # undo removes the file: a lock on the removed one would keep nobody out
            if os.stat(path).st_ino == os.fstat(self.descriptor).st_ino:
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(self.descriptor)
        return False

"""One run at a time on a host, including the run of the boot unit."""

import fcntl
import os

from .machine import Machine, StepError
from .places import (
    BOOT_RUN_WAIT_S,
    LOCK_FILE,
    LOCK_WAIT_S,
    REVERT_FILE,
    STARTING_S,
    UNIT,
    UNIT_LINK,
)


def wait_for_boot(machine: Machine) -> None:
    """Waits while the unit of a starting host is about to run or runs: what it has not set yet has
    not drifted.

    The wait is bounded, so a unit that hangs blocks no run. A unit that a driver reload has started
    waits for the confirmation of a run, so the run must not wait for it.
    """
    if (
        machine.now_s() < STARTING_S
        and machine.exists(UNIT_LINK)
        and not machine.exists(REVERT_FILE)
    ):
        machine.wait(lambda: not _is_starting(machine), BOOT_RUN_WAIT_S)


def _is_starting(machine: Machine) -> bool:
    state = machine.run("systemctl", "show", "--property=ActiveState,Job", UNIT).out.split()
    return "ActiveState=activating" in state or any(
        word.startswith("Job=") and word[4:].strip("0") for word in state
    )


class locked:  # noqa: N801  # read as a word of a sentence: with locked(...)
    """The second run waits, and a killed one leaves nothing behind. The file names the run that
    holds it.

    With `confirmed` it also waits until no network waits for its confirmation.
    """

    def __init__(
        self, machine: Machine, verb: str, wait_s: float = LOCK_WAIT_S, *, confirmed: bool = False
    ) -> None:
        self.machine, self.verb, self.wait_s = machine, verb, wait_s
        self.confirmed, self.descriptor = confirmed, -1

    def __enter__(self) -> None:
        if not self.machine.wait(self._taken, self.wait_s):
            raise self._too_late()
        os.ftruncate(self.descriptor, 0)  # a killed run has left its name
        os.pwrite(
            self.descriptor, f"{os.getpid()} {self.verb} {self.machine.now_s():.0f}\n".encode(), 0
        )

    def __exit__(self, *_: object) -> None:
        os.ftruncate(self.descriptor, 0)
        os.close(self.descriptor)

    def _too_late(self) -> StepError:
        waited = f"waited {self.wait_s:.0f} s for {LOCK_FILE}"
        holder = self.machine.read(LOCK_FILE).split()
        if len(holder) != 3 or not self.machine.exists(f"/proc/{holder[0]}"):
            return StepError(
                f"{waited}, which another run holds", "wait until it ends, then run again"
            )
        pid, verb, since_s = holder
        held_s = self.machine.now_s() - float(since_s)
        return StepError(
            f"{waited}, which process {pid} ({verb}) holds for {held_s:.0f} s",
            f"wait until it ends, then run again; `ps -o etime,wchan:30,args {pid}` on this host "
            "shows what it does",
        )

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

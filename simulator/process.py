"""Background processes that outlive the command which started them, tracked by pid file and ended by pid."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulator.part import Report, SimulatorError, Wait

POLL_S = 0.05
LAST_LINES = 8
KILLED_S = 30
"""For the kernel to take a killed process apart; a busy machine needs seconds for a large one."""


@dataclass(frozen=True)
class Daemon:
    """A process known by the pid file in its own folder; its output goes to a log beside it."""

    name: str
    folder: Path

    @property
    def pid_file(self) -> Path:
        """Holds `<pid> <start time in clock ticks>`, so that a number used again is not taken for ours."""
        return self.folder / f"{self.name}.pid"

    @property
    def log_file(self) -> Path:
        """What the process printed since its last start."""
        return self.folder / f"{self.name}.log"

    def pid(self) -> int | None:
        """The running process's number; None when it never ran, ended, or is only waiting to be reaped."""
        try:
            pid, born = self.pid_file.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid) if _start_time(int(pid)) == born else None

    def start(self, command: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
        """Starts the process in a session of its own; whether it works is the business of `wait_until`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("wb") as log:
            process = subprocess.Popen(
                list(command),
                cwd=cwd or self.folder,
                env=dict(env) if env is not None else None,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        # whoever stops the process takes its exit status, by pid; this object would only warn that it still runs
        process.returncode = 0
        born = _start_time(process.pid)
        self.pid_file.write_text(f"{process.pid} {born or 'ended'}")

    @property
    def has_died(self) -> bool:
        """Whether it was started, and has ended without being asked to."""
        return self.pid_file.exists() and self.pid() is None

    @property
    def is_suspended(self) -> bool:
        """Whether a signal has stopped the process: it is there, and does nothing."""
        pid = self.pid()
        return pid is not None and _is_suspended(pid)

    def resume(self) -> bool:
        """Lets a suspended process continue; whether it was suspended."""
        pid = self.pid()
        if pid is None or not _is_suspended(pid):
            return False
        os.kill(pid, signal.SIGCONT)
        return True

    def wait_until(self, answers: Callable[[], bool], timeout_s: float, what: str, report: Report) -> None:
        """Waits until `answers`; raises with the log's end when the process ends first or time is over."""
        wait = Wait(f"{self.name}: {what}", timeout_s, report, POLL_S)
        while not answers():
            if self.pid() is None:
                raise SimulatorError(f"{self.name}: ended by itself before {what}\n{self.last_words()}")
            if not wait.goes_on():
                raise SimulatorError(f"{self.name}: no {what} after {timeout_s:.0f} s\n{self.last_words()}")

    def stop(self, patience_s: float = 10) -> None:
        """Asks the process to end, kills it after `patience_s`, and forgets it once it has let go of its ports."""
        for sign, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, KILLED_S)):
            if (pid := self.pid()) is None:
                break
            try:
                os.kill(pid, sign)
                os.kill(pid, signal.SIGCONT)  # a suspended process does not see that it is asked to end
            except ProcessLookupError:
                break
            deadline = time.monotonic() + wait_s
            while self.pid() is not None and time.monotonic() < deadline:
                time.sleep(POLL_S)
            _reap(pid)
        self.pid_file.unlink(missing_ok=True)

    def last_words(self) -> str:
        """The end of the log, indented, for an error message."""
        try:
            lines = self.log_file.read_text(errors="replace").splitlines()[-LAST_LINES:]
        except FileNotFoundError:
            lines = []
        return "\n".join(f"  {self.log_file.name}: {line}" for line in lines) or f"  {self.log_file.name} is empty"


def refuse_a_taken_port(name: str, address: str, port: int) -> None:
    """Raises when something listens on a TCP port that one of our processes is about to take."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise SimulatorError(
                f"{name}: {address}:{port} is taken by another process ({error.strerror}).\n"
                f"  See which: ss -ltnp 'sport = :{port}'. Another checkout's simulator is ended by `make down` there."
            ) from error


def _start_time(pid: int) -> str | None:
    """When a process began, in clock ticks since boot; None when it is gone or a zombie.

    The first thread of a killed process is a zombie before the others have let go of their ports and files: it counts
    as gone with the last of them.
    """
    try:
        # the command's name stands in brackets and may hold anything, so fields are counted from its end
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    threads = int(fields[17])
    return None if fields[0] in "ZX" and threads <= 1 else fields[19]


def _is_suspended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _reap(pid: int) -> None:
    """Takes the exit status of a child of ours; a process that another command started is not our child."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return

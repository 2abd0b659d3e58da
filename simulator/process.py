"""Background processes that outlive the command that started them, tracked by pid file and ended by pid."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulator.part import SUSPENDED, Report, SimulatorError, Status, Wait

POLL_S = 0.05
LAST_LINES = 8
KILLED_S = 30
"""Time for the kernel to remove a killed process; on a busy machine a large one takes seconds."""


@dataclass(frozen=True)
class Daemon:
    """A process with a pid file in its folder and its log beside it."""

    name: str
    folder: Path

    @property
    def pid_file(self) -> Path:
        """Holds `<pid> <start time in clock ticks>`, so that a reused number is not mistaken for this process."""
        return self.folder / f"{self.name}.pid"

    @property
    def log_file(self) -> Path:
        """The output of the process since its last start."""
        return self.folder / f"{self.name}.log"

    def pid(self) -> int | None:
        """The pid of the running process; None if it never ran, has ended, or is a zombie."""
        try:
            pid, born = self.pid_file.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid) if _start_time(int(pid)) == born else None

    def start(self, command: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
        """Starts the process in a session of its own. `wait_until` checks that it works."""
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
        # `stop` reaps the process by pid; without a return code this object would warn that it still runs
        process.returncode = 0
        born = _start_time(process.pid)
        self.pid_file.write_text(f"{process.pid} {born or 'ended'}")

    @property
    def has_died(self) -> bool:
        """Whether it was started and has ended by itself."""
        return self.pid_file.exists() and self.pid() is None

    @property
    def is_suspended(self) -> bool:
        """Whether a signal has suspended the process."""
        pid = self.pid()
        return pid is not None and _is_suspended(pid)

    def resume(self) -> bool:
        """Resumes a suspended process; returns whether it was suspended."""
        pid = self.pid()
        if pid is None or not _is_suspended(pid):
            return False
        os.kill(pid, signal.SIGCONT)
        return True

    def wait_until(self, answers: Callable[[], bool], timeout_s: float, what: str, report: Report) -> None:
        """Waits until `answers()`; raises with the end of the log if the process ends or time is up."""
        wait = Wait(f"{self.name}: {what}", timeout_s, report, POLL_S)
        while not answers():
            if self.pid() is None:
                raise SimulatorError(f"{self.name}: ended by itself before {what}\n{self.last_words()}")
            if not wait.continues():
                raise SimulatorError(f"{self.name}: no {what} after {timeout_s:.0f} s\n{self.last_words()}")

    def stop(self, patience_s: float = 10) -> None:
        """Ends the process, kills it after `patience_s`, and waits until it has released its ports."""
        for sign, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, KILLED_S)):
            if (pid := self.pid()) is None:
                break
            try:
                os.kill(pid, sign)
                os.kill(pid, signal.SIGCONT)  # a suspended process does not handle signals
            except ProcessLookupError:
                break
            deadline = time.monotonic() + wait_s
            while self.pid() is not None and time.monotonic() < deadline:
                time.sleep(POLL_S)
            _reap(pid)
        self.pid_file.unlink(missing_ok=True)

    def trouble(self, name: str, address: str) -> Status | None:
        """The status of a process that has died, is stopped or suspended; None if it runs."""
        pid = self.pid()
        if pid is None:
            if self.pid_file.exists():
                return Status(name, address, "died", self.last_words())
            return Status(name, address, "stopped")
        return Status(name, address, "not answering", SUSPENDED, pid) if _is_suspended(pid) else None

    def last_words(self) -> str:
        """The end of the log, indented, for an error message."""
        try:
            lines = self.log_file.read_text(errors="replace").splitlines()[-LAST_LINES:]
        except FileNotFoundError:
            lines = []
        return "\n".join(f"  {self.log_file.name}: {line}" for line in lines) or f"  {self.log_file.name} is empty"


def refuse_a_taken_port(name: str, address: str, port: int) -> None:
    """Raises if another process listens on a TCP port that one of ours is about to use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise SimulatorError(
                f"{name}: another process uses {address}:{port} ({error.strerror}).\n"
                f"  Find it: ss -ltnp 'sport = :{port}'. If it is another checkout's simulator, run `make down` there."
            ) from error


def _start_time(pid: int) -> str | None:
    """Start time of a process in clock ticks since boot; None if it is gone or a zombie.

    The first thread of a killed process is a zombie before the others have released their ports and files. The process
    counts as gone with the last of them.
    """
    fields = _stat(pid)
    if not fields:
        return None
    threads = int(fields[17])
    return None if fields[0] in "ZX" and threads <= 1 else fields[19]


def _is_suspended(pid: int) -> bool:
    return _stat(pid)[:1] == ["T"]


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty if the process is gone."""
    try:
        # the command name in brackets may contain anything, so count fields from its end
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _reap(pid: int) -> None:
    """Reaps a child of ours; a process that another command started is not our child."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return

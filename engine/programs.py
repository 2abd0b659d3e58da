"""Runs long programs that another thread can end, with everything that they started."""

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine.errors import EngineError

TAIL_LINES = 8
GRACE_S = 3.0


class Interrupted(Exception):  # noqa: N818  (a request, not an error)
    """Ctrl-C or SIGTERM."""


class Programs:
    """All programs of one setup. After `stop`, none runs and none starts."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Ends the running programs with SIGTERM, then with SIGKILL."""
        self._stopped.set()
        with self._lock:
            running = list(self._running)
        for program in running:
            _signal_group(program, signal.SIGTERM)
        for program in running:
            try:
                program.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                _signal_group(program, signal.SIGKILL)

    def raise_if_stopped(self) -> None:
        """Raises `Interrupted` after `stop`, for loops that run no program, such as a download."""
        if self._stopped.is_set():
            raise Interrupted

    def run(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
        on_line: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Runs a program to its end, and sends each line of its output to `log` and `on_line`.

        Raises:
            EngineError: if the program fails, with the last lines of its output.
        """
        tail: deque[str] = deque(maxlen=TAIL_LINES)
        with self._lock:
            self.raise_if_stopped()
            # In a session of its own: it ends with its children, and Ctrl-C reaches only this process.
            program = subprocess.Popen(
                command,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running.add(program)
        with program, log.open("a") as output:
            for line in program.stdout or ():
                output.write(line)
                if line.strip():
                    tail.append(line.rstrip())
                on_line(line.strip())
        code = program.returncode
        with self._lock:
            self._running.discard(program)
        self.raise_if_stopped()
        if code:
            name = " ".join(map(str, command[:2]))
            raise EngineError("\n".join([f"{name} ended with {code}, log in {log}:", *tail]))


def _signal_group(program: "subprocess.Popen[str]", number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, number)

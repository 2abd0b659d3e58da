"""A run of the engine in the middle of which something happens to what it works with."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LONGEST_RUN_S = 300
"""A run whose cluster is gone waits for three minutes. One that goes on is interrupted, as a person would do it."""
PROGRESS = re.compile(r"^@ |^\s*$")
"""Lines of the engine that say only that it lives."""


@dataclass(frozen=True)
class Run:
    """How it ended, what it printed, and how long it was silent at most."""

    status: int
    text: str
    seconds: float
    silence_s: float
    before_silence: str
    """What it said before it was silent for so long."""
    interrupted: bool

    def shown(self, name: str) -> str:
        """For a reader of the test's output."""
        end = f"{self.seconds:.0f} s{', interrupted' if self.interrupted else ''}"
        silence = f"silent for {self.silence_s:.0f} s after {self.before_silence!r}"
        return f"{name}: status {self.status} after {end}, {silence}:\n{self.text[-3000:]}"


def disturbed(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], at: re.Pattern[str], disturb: Callable[[], None]
) -> Run:
    """Runs a command, and disturbs it once it has printed a line that matches `at`."""
    begun_s = spoke_s = time.monotonic()
    printed: list[str] = []
    done, interrupted, rest, last = False, False, b"", ""
    silences: dict[float, str] = {}
    with subprocess.Popen(
        command, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        assert running.stdout is not None
        os.set_blocking(running.stdout.fileno(), False)
        while running.poll() is None:
            now_s = time.monotonic()
            *lines, rest = (rest + (running.stdout.read() or b"")).split(b"\n")
            for line in (raw.decode(errors="replace") for raw in lines):
                printed.append(line)
                if not PROGRESS.match(line):
                    silences[now_s - spoke_s], spoke_s, last = last, now_s, line
                if not done and at.search(line):
                    disturb()
                    done = True
            if now_s - begun_s > LONGEST_RUN_S and not interrupted:
                running.send_signal(signal.SIGINT)
                interrupted = True
            if now_s - begun_s > LONGEST_RUN_S + 60:
                running.kill()
            time.sleep(0.1)
        printed += (rest + (running.stdout.read() or b"")).decode(errors="replace").splitlines()
    assert done, f"ended before it printed {at.pattern!r}:\n" + "\n".join(printed)[-6000:]
    ended_s = time.monotonic()
    silences[ended_s - spoke_s] = last
    longest_s = max(silences)
    text = "\n".join(printed)
    return Run(running.returncode, text, ended_s - begun_s, longest_s, silences[longest_s], interrupted)

"""Progress of several parts at once: a block of lines that refreshes on a terminal, plain lines elsewhere."""

import sys
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import TextIO

REFRESH_S = 0.5
HEARTBEAT_S = 60.0
"""How often a running part prints a line without a terminal: a silent log looks like a hang."""


@dataclass
class _Line:
    name: str
    doing: str = "waiting"
    started: float = field(default_factory=time.monotonic)
    spoken: float = field(default_factory=time.monotonic)


class Progress:
    """A context manager whose methods may be called from any thread."""

    def __init__(self, out: TextIO = sys.stderr) -> None:
        self._out = out
        self._live = out.isatty()
        self._lines: dict[str, _Line] = {}
        self._shown = 0
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._refresh, daemon=True)

    def __enter__(self) -> "Progress":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        with self._lock:
            self._erase()

    def doing(self, name: str, what: str) -> None:
        """Sets what a part is doing; the first call starts its clock."""
        with self._lock:
            if name not in self._lines:
                self._lines[name] = _Line(name)
                if not self._live:
                    self._print(f"{name}: {what}")
            self._lines[name].doing = what

    def done(self, name: str, result: str) -> None:
        """Prints the part's last line, which stays."""
        with self._lock:
            line = self._lines.pop(name, None) or _Line(name)
            self._erase()
            self._print(f"{name}: {result} ({_elapsed(line)})")

    def _refresh(self) -> None:
        while not self._end.wait(REFRESH_S):
            with self._lock:
                if self._live:
                    self._erase()
                    for line in self._lines.values():
                        self._out.write(f"{line.name:>14}  {_elapsed(line):>6}  {line.doing}\n")
                    self._shown = len(self._lines)
                    self._out.flush()
                    continue
                for line in self._lines.values():
                    if time.monotonic() - line.spoken > HEARTBEAT_S:
                        line.spoken = time.monotonic()
                        self._print(f"{line.name}: {line.doing}, {_elapsed(line)}")

    def _erase(self) -> None:
        if self._shown:
            self._out.write(f"\x1b[{self._shown}F\x1b[J")
            self._shown = 0

    def _print(self, text: str) -> None:
        self._out.write(f"engine: {text}\n")
        self._out.flush()


def _elapsed(line: _Line) -> str:
    seconds = int(time.monotonic() - line.started)
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60}:{seconds % 60:02d} min"

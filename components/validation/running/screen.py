"""The terminal output of `rocelab measure`: a line per event, and a progress bar below."""

import asyncio
import signal
import time
from collections.abc import Coroutine
from types import TracebackType
from typing import Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

T = TypeVar("T")


class Screen:
    """Prints to stderr: stdout belongs to the verdict. A pipe gets the lines alone."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        # a test must not compete with the display of it
        self._bar = Progress(*columns, console=self._console, transient=True, refresh_per_second=2)
        self._task = self._bar.add_task("measuring", total=1.0, left="")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        """One thing that happened."""
        self._console.print(f"{time.monotonic() - self._begun:6.1f} s  {line}")

    def progress(self, share: float, left_s: float, what: str) -> None:
        """How far it is."""
        left = f"{what} about {left_s:.0f} s left".strip()
        self._bar.update(self._task, completed=min(share, 1.0), left=left)


async def until_told(work: Coroutine[object, object, T]) -> T:
    """Does the work; SIGTERM, SIGINT and SIGHUP end it cleanly, as both ends of a test must be stopped."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(sign) != signal.SIG_IGN:  # what nohup ignores stays ignored
            loop.add_signal_handler(sign, task.cancel)
    return await task

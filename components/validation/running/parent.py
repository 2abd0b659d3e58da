"""Stops a run when the process that started it is gone: a killed engine must not leave load on a fabric."""

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

from stacks.base import LabError

T = TypeVar("T")
POLL_S = 0.5


class OrphanedError(LabError):
    """The process that asked for the run has died."""


def ancestors(levels: int) -> dict[int, str]:
    """Parent, grandparent and so on with their start times, up to process 1, which never counts."""
    found: dict[int, str] = {}
    pid = os.getpid()
    for _ in range(levels):
        fields = _stat(pid)
        pid = int(fields[1]) if fields else 1
        if pid <= 1:
            break
        found[pid] = _born(pid)
    return found


async def while_alive(work: Coroutine[object, object, T], levels: int) -> T:
    """Runs the work, and cancels it when one of the process's ancestors ends first.

    Args:
        work: what to do.
        levels: how many ancestors count. The engine starts a plugin through a shell, which survives it, hence 2.

    Raises:
        OrphanedError: when it was cancelled for that.
    """
    watched = ancestors(levels)
    task = asyncio.ensure_future(work)
    while not task.done():
        if any(_born(pid) != born for pid, born in watched.items()):
            task.cancel()
            await asyncio.wait([task])
            raise OrphanedError("the run was stopped because the process that started it has died")
        try:
            await asyncio.wait([task], timeout=POLL_S)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
    return task.result()


def _born(pid: int) -> str:
    """Start time in clock ticks; empty when the process is gone or only waits to be reaped."""
    fields = _stat(pid)
    return fields[19] if fields and fields[0] not in "ZX" else ""


def _stat(pid: int) -> list[str]:
    try:
        # the command's name is in parentheses and may contain anything, so fields are counted from its end
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
